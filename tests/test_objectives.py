"""The functional mechanism and Diff-LR: sensitivities by brute force, hand-computed examples, options, inference."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dps
from dpstats.inference.ridge import Ridge, solve_ridge
from dpstats.mechanisms.diff_lr import CURVATURE
from dpstats.mechanisms.functional import plan_objective, release_objective
from dpstats.privacy.notions import Budget
from dpstats.records.features import feature_rows, sum_products
from dpstats.records.source import ArraySource, Partition, as_source
from dpstats.release.noise import NoNoise, RealNoise, SimulatedNoise
from dpstats.specification.design import build_design
from dpstats.specification.objectives import (
    LEAST_SQUARES,
    TAYLOR_LOGISTIC,
    Scales,
    cost_without_squares,
    joint_cost,
    quadratic_constant,
    scales_at_ratio,
)
from dpstats.specification.schema import Continuous, Schema

OBJECTIVES = {"linear": LEAST_SQUARES, "logistic": TAYLOR_LOGISTIC}


def weighted_changes(first: np.ndarray, second: np.ndarray, scales: Scales, entries: str) -> np.ndarray:
    """Sum over released sums of |change| / scale between records (x, u), shape (m1, m2)."""
    d = first.shape[1] - 1
    products = [np.einsum("ij,ik->ijk", rows, rows) for rows in (first, second)]
    change = np.abs(products[0][:, None] - products[1][None, :])
    pairs = np.ones((d, d), dtype=bool) if entries == "full" else np.triu(np.ones((d, d), dtype=bool))
    return (
        change[..., :d, :d][..., pairs].sum(axis=-1) / scales.products
        + change[..., :d, d].sum(axis=-1) / scales.cross
        + change[..., d, d] / scales.squares
    )


def largest_change(d: int, box: float, scales: Scales, entries: str, rng) -> float:
    """Corners, incomplete rows, random records, and the family on which the supremum lies."""
    corners = np.array([[*(box * np.array(x)), u] for x in itertools.product((-1, 0, 1), repeat=d) for u in (-1, 1)])
    family = np.array([[*np.full(d, box * s), u] for s in np.linspace(-1, 1, 201) for u in (-1.0, -0.5, 0.0, 0.5, 1.0)])
    inside = np.column_stack([rng.uniform(-box, box, (60, d)), rng.uniform(-1, 1, 60)])
    best = np.append(np.full(d, box), 1.0)
    first = np.vstack([best, corners[:40], inside[:20]])
    second = np.vstack([corners, family, inside, np.zeros(d + 1)])
    return float(weighted_changes(first, second, scales, entries).max())


@pytest.mark.parametrize("entries", ["triangle", "full"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("d", "scaling"), [(1, "box"), (2, "box"), (4, "box"), (2, "ball"), (4, "ball")])
@pytest.mark.parametrize("stretch", [0.3, 1.0, 3.0])
def test_no_pair_of_records_costs_more_than_stated_and_some_pair_costs_nearly_that(
    objective, entries, d, scaling, stretch
):
    box = 1.0 if scaling == "box" else 1 / math.sqrt(d)
    ratio = stretch * OBJECTIVES[objective].linear / OBJECTIVES[objective].quadratic
    squares = objective == "linear"
    scales = scales_at_ratio(d * box, ratio, quadratic_constant(d, entries), 1.0, squares=squares)
    stated = joint_cost(d * box, scales, quadratic_constant(d, entries))
    assert stated == pytest.approx(1.0)
    found = largest_change(d, box, scales, entries, np.random.default_rng(d))
    assert found <= stated * (1 + 1e-9)
    assert found >= (0.97 if not squares or ratio <= quadratic_constant(d, entries) * d * box / 2 else 0.7) * stated


def test_squares_cost_nothing_where_the_theorem_says_so():
    k, size, t1, t2 = quadratic_constant(3, "full"), 3.0, 5.0, 3.0
    free = Scales(t1, t2, k * t2**2 / t1)
    assert joint_cost(size, free, k) == pytest.approx(cost_without_squares(size, t1, t2, k))
    dearer = Scales(t1, t2, 0.5 * k * t2**2 / t1)
    assert joint_cost(size, dearer, k) > 1.01 * joint_cost(size, free, k)


@pytest.mark.parametrize(
    ("d", "linear", "tight", "tight_ball", "logistic", "tight_logistic", "tight_logistic_ball"),
    [
        (5, 72, 36, 10.47, 21.25, 6.13, 2.24),
        (8, 162, 81, 14.66, 40.0, 12.5, 2.91),
        (11, 288, 144, 18.63, 63.25, 21.13, 3.53),
        (14, 450, 225, 22.48, 91.0, 32.0, 4.12),
    ],
)
def test_published_and_tight_sensitivities(d, linear, tight, tight_ball, logistic, tight_logistic, tight_logistic_ball):
    """The table of sensitivities of full objectives, replace-one neighbours."""

    def sensitivity(objective, size):
        return cost_without_squares(size, 1 / objective.quadratic, 1 / objective.linear, 4.0)

    assert LEAST_SQUARES.published_sensitivity(d) == linear
    assert LEAST_SQUARES.published_sensitivity(d, constant=False) == 2 * d**2 + 4 * d
    assert TAYLOR_LOGISTIC.published_sensitivity(d) == logistic
    assert sensitivity(LEAST_SQUARES, d) == pytest.approx(tight)
    assert sensitivity(LEAST_SQUARES, math.sqrt(d)) == pytest.approx(tight_ball, abs=0.006)
    assert sensitivity(TAYLOR_LOGISTIC, d) == pytest.approx(tight_logistic, abs=0.006)
    assert sensitivity(TAYLOR_LOGISTIC, math.sqrt(d)) == pytest.approx(tight_logistic_ball, abs=0.006)


@pytest.mark.parametrize(("b1", "b2"), [(30.0, 20.0), (10.0, 40.0)])
def test_joint_constraint_of_two_scales(b1, b2):
    """Full: P^2/b1 + 2P/b2 + b1/b2^2; triangle: (P^2 + s2)/(2 b1) + 2P/b2 + 2 (b1/b2^2) d/(d+1)."""
    d = 6
    full = d**2 / b1 + 2 * d / b2 + b1 / b2**2
    assert cost_without_squares(d, b1, b2 / 2, quadratic_constant(d, "full")) == pytest.approx(full)
    triangle = (d**2 + d) / (2 * b1) + 2 * d / b2 + 2 * b1 / b2**2 * d / (d + 1)
    assert cost_without_squares(d, b1, b2 / 2, quadratic_constant(d, "triangle")) == pytest.approx(triangle)


# -- the published example -------------------------------------------------------------------------------------------

EXAMPLE = {"x": np.array([1.0, 0.9, -0.5]), "y": np.array([0.4, 0.3, -1.0])}
EXAMPLE_SCHEMA = Schema({"x": Continuous(-1, 1), "y": Continuous(-1, 1)})


def plan_example(epsilon=1.0, formula="y ~ 0 + x", data=EXAMPLE, schema=EXAMPLE_SCHEMA, **options):
    source = as_source(data)
    design = build_design(formula, schema, source.facts)
    mechanism = options.pop("mechanism", dps.Functional)(**options)
    return plan_objective(design, LEAST_SQUARES, mechanism, Budget(epsilon), source.n_rows), source


def test_the_example_of_the_paper():
    """f_D(w) = 2.06 w^2 - 2.34 w + 1.25 with sensitivity 8 for one attribute."""
    plan, source = plan_example(sensitivity="paper")
    moments = release_objective(plan, source, NoNoise())
    step = 3 * 2.0**-plan.bits
    assert moments.matrix[0, 0] == pytest.approx(2.06, abs=step)
    assert -2 * moments.matrix[0, 1] == pytest.approx(-2.34, abs=2 * step)
    assert moments.matrix[1, 1] == pytest.approx(1.25, abs=step)
    assert plan.scales.products == pytest.approx(8.0)
    assert 2 * plan.scales.cross == pytest.approx(8.0)
    assert plan.ridge.size == pytest.approx(4 * math.sqrt(2) * 8)
    fit = dps.dp_ols("y ~ 0 + x", EXAMPLE, epsilon=math.inf, schema=EXAMPLE_SCHEMA, mechanism="functional")
    assert fit.params["x"] == pytest.approx(2.34 / (2 * 2.06), abs=1e-5)


def test_ridge_and_trimming_by_hand():
    """w = -1/2 sum of q q'alpha / e over positive eigenvalues e of M + lambda I."""
    plan, source = plan_example(data={"x": np.zeros(3), "y": np.zeros(3)}, formula="y ~ x")
    moments = release_objective(plan, source, NoNoise())
    M, cross = np.array([[4.0, 3.0], [3.0, 1.0]]), np.array([2.0, -1.0])
    values = np.array([4.0, 3.0, 2.0, 1.0, -1.0, 5.0])  # M00 M01 c0 M11 c1 yy
    moments = type(moments)(values, moments.variances, moments.law, moments.index, moments.count)
    np.testing.assert_array_equal(moments.matrix[:2, :2], M)
    space = plan.space

    def minimiser(ridge):
        fit = solve_ridge(moments, space, ridge)
        return space.q @ fit.gamma, fit.singular

    w, unbounded = minimiser(Ridge(0.5, trim=True))
    e, q = np.linalg.eigh(M + 0.5 * np.eye(2))
    assert e[0] < 0 < e[1]
    by_hand = -0.5 * q[:, 1] * (q[:, 1] @ (-2 * cross)) / e[1]
    np.testing.assert_allclose(w, by_hand, rtol=1e-12)
    assert unbounded
    w, unbounded = minimiser(Ridge(2.0, trim=False))
    np.testing.assert_allclose(w, np.linalg.solve(M + 2 * np.eye(2), cross), rtol=1e-12)
    assert not unbounded
    w, unbounded = minimiser(Ridge(0.0, trim=False))
    np.testing.assert_allclose(w, np.linalg.solve(M, cross), rtol=1e-12)
    assert unbounded


# -- without noise ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


NEARLY_CENTRED = "hours_per_week ~ I((age - 17)**2) + age"
FORMULAS = [
    NEARLY_CENTRED,
    "hours_per_week ~ age + education_num + C(sex)",
    "hours_per_week ~ age * C(sex) + C(race)",
    "hours_per_week ~ 0 + age + education_num",
    "hours_per_week ~ 0 + C(sex) + age",
    "np.log(hours_per_week) ~ I((age - 40)**2) + age:education_num",
    "hours_per_week ~ bs(age, df=4)",
]


@pytest.mark.parametrize("scaling", ["box", "ball"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_every_number_is_least_squares(adult, formula, scaling):
    data = adult.data.iloc[:6_000]
    ours = dps.dp_ols(formula, data, math.inf, schema=adult.schema, mechanism=dps.Functional(scaling=scaling))
    ssp = dps.dp_ols(formula, data, math.inf, schema=adult.schema)
    assert list(ours.params.index) == list(ssp.params.index)
    scale = ssp.bse
    np.testing.assert_allclose((ours.params - ssp.params) / scale, 0, atol=2e-3)
    np.testing.assert_allclose(ours.bse, ssp.bse, rtol=1e-3)
    assert ours.nobs == pytest.approx(ssp.nobs, rel=1e-5)
    assert ours.rsquared == pytest.approx(ssp.rsquared, abs=2e-5)
    np.testing.assert_allclose(ours.conf_int(), ssp.conf_int(), atol=2e-3 * float(scale.max()))


@pytest.mark.parametrize(
    "mechanism", [dps.Functional(), dps.Functional(scaling="ball"), dps.DiffLR(), dps.AdaSSP()], ids=repr
)
def test_a_feature_beyond_its_coded_column_is_clipped_and_not_shrunk(mechanism):
    """A column of a spline is coded by the spline's radius, and its own range is smaller."""
    rng = np.random.default_rng(1)
    x, h = rng.uniform(-1, 1, 2000), rng.choice(list("uvw"), 2000)
    data = {"x": x, "h": h, "y": np.clip(np.sin(3 * x) + (h == "u") / 2 + rng.normal(0, 0.3, 2000), -3, 3)}
    declared = {"bounds": {"x": (-1, 1), "y": (-3, 3)}, "levels": {"h": list("uvw")}}
    formula = "y ~ 0 + C(h) + bs(x, df=4)"
    ours = dps.dp_ols(formula, data, math.inf, **declared, mechanism=mechanism)
    ssp = dps.dp_ols(formula, data, math.inf, **declared)
    np.testing.assert_allclose((ours.params - ssp.params) / ssp.bse, 0, atol=2e-3)


@pytest.mark.parametrize("scaling", ["box", "ball"])
def test_taylor_logit_without_noise_is_four_times_least_squares(adult, scaling):
    formula = "income ~ age + education_num + C(sex)"
    fit = dps.dp_logit(formula, adult.data, math.inf, schema=adult.schema, mechanism=dps.Functional(scaling=scaling))
    success = adult.schema["income"].levels[-1]
    frame = adult.data.assign(t=4 * ((adult.data["income"] == success) - 0.5))
    frame["sex"] = pd.Categorical(frame["sex"], list(adult.schema["sex"].levels))
    reference = smf.ols("t ~ age + education_num + C(sex)", frame).fit()
    np.testing.assert_allclose(fit.params, reference.params[fit.params.index], rtol=2e-4)
    np.testing.assert_allclose(fit.bse, reference.bse[fit.params.index], rtol=1e-3)
    linear = fit.predict(adult.data.head(5), which="linear")
    np.testing.assert_allclose(linear, reference.predict(frame.head(5)), rtol=1e-4)
    np.testing.assert_allclose(fit.predict(adult.data.head(5)), 1 / (1 + np.exp(-linear)))


@pytest.mark.parametrize("outcome", ["text", "bool", "number", "comparison"])
def test_outcomes_of_a_logit(adult, outcome):
    data = adult.data[["age", "income", "hours_per_week"]].iloc[:5_000].copy()
    success = adult.schema["income"].levels[-1]
    formula, bounds = "income ~ age", {"age": (17, 90)}
    levels = {"income": list(adult.schema["income"].levels)}
    if outcome == "bool":
        data["income"] = data["income"] == success
        levels = {}
    elif outcome == "number":
        data["income"] = (data["income"] == success).astype(int)
        levels, bounds = {}, {**bounds, "income": (0, 1)}
    elif outcome == "comparison":
        formula = f"I(income == {success!r}) ~ age"
    fit = dps.dp_logit(formula, data, math.inf, bounds=bounds, levels=levels, mechanism="functional")
    reference = dps.dp_logit(
        "income ~ age", adult.data.iloc[:5_000], math.inf, schema=adult.schema, mechanism="functional"
    )
    np.testing.assert_allclose(fit.params, reference.params, rtol=1e-4)


@pytest.mark.parametrize(
    ("formula", "declared", "message"),
    [
        ("race ~ age", {}, r"such as I\(race == .* as the outcome"),
        ("hours_per_week ~ age", {}, "between 0 and 1"),
        ("bs(age, df=4) ~ education_num", {}, "several columns"),
    ],
)
def test_outcomes_that_a_logit_refuses(adult, formula, declared, message):
    with pytest.raises(dps.DPStatsError, match=message):
        dps.dp_logit(formula, adult.data, 1.0, schema=adult.schema, **declared)


# -- scales of the options -------------------------------------------------------------------------------------------


def plan_with(mechanism, d=4, epsilon=1.0, n=10_000, intercept=True):
    names = [f"x{j}" for j in range(d - intercept)]
    schema = Schema({**{name: Continuous(-1, 1) for name in names}, "y": Continuous(-1, 1)})
    data = {name: np.zeros(n) for name in (*names, "y")}
    design = build_design(f"y ~ {' + '.join(names)}{'' if intercept else ' - 1'}", schema, as_source(data).facts)
    return plan_objective(design, LEAST_SQUARES, mechanism, Budget(epsilon), n)


@pytest.mark.parametrize("d", [2, 5, 14])
def test_published_scales(d):
    paper, code = (plan_with(dps.Functional(sensitivity=s), d) for s in ("paper", "code"))
    assert paper.scales.products == pytest.approx(2 * (d + 1) ** 2)
    assert code.scales.products == pytest.approx(2 * d**2 + 4 * d)
    for plan in (paper, code):
        assert 2 * plan.scales.cross == pytest.approx(plan.scales.products)
    authors = plan_with(dps.Functional(sensitivity="code", entries="full", multiple=5), d)
    assert authors.ridge.size == pytest.approx(5 * math.sqrt(2) * (2 * d**2 + 4 * d))


@pytest.mark.parametrize("sensitivity", ["tight", "paper"])
@pytest.mark.parametrize("entries", ["triangle", "full"])
@pytest.mark.parametrize("d", [2, 6])
def test_the_proportional_split_is_the_functional_mechanism_without_its_constant(d, entries, sensitivity):
    split = plan_with(dps.DiffLR(split="proportional", entries=entries, sensitivity=sensitivity), d)
    without_constant = {"tight": "tight", "paper": "code"}[sensitivity]
    functional = plan_with(dps.Functional(entries=entries, sensitivity=without_constant), d)
    assert split.scales.products == pytest.approx(functional.scales.products)
    assert split.scales.cross == pytest.approx(functional.scales.cross)
    np.testing.assert_allclose(split.variances, functional.variances)


@pytest.mark.parametrize("share", [0.5, 0.6, 0.9])
def test_the_stated_split_of_the_paper(share):
    d = 5
    plan = plan_with(dps.DiffLR(split="paper", share=share, sensitivity="paper"), d)
    assert plan.scales.products == pytest.approx(2 * d**2 / share)
    assert 2 * plan.scales.cross == pytest.approx(4 * d / (1 - share))


def expected_risk(plan, signal, entries, n):
    """Variance of the normal equations and squared bias of the ridge, over the squared curvature with the ridge."""
    noise = (2.0 if entries == "triangle" else 1.0) * plan.scales.products**2 * signal**2 + 2 * plan.scales.cross**2
    bias = (plan.ridge.size * signal) ** 2 / plan.features.n_features
    return (noise + bias) / (CURVATURE * n + plan.ridge.size) ** 2


@pytest.mark.parametrize("sensitivity", ["tight", "paper"])
@pytest.mark.parametrize("entries", ["triangle", "full"])
@pytest.mark.parametrize("bounded", ["trim", "regularize+trim"])
@pytest.mark.parametrize("signal", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("n", [2_000, 100_000])
def test_no_stated_split_has_a_smaller_risk_than_the_optimal_one(n, signal, bounded, entries, sensitivity):
    options = {"entries": entries, "sensitivity": sensitivity, "bounded": bounded}
    best = expected_risk(plan_with(dps.DiffLR(signal=signal, **options), 6, n=n), signal, entries, n)
    shares = np.linspace(0.5, 0.97, 30)
    others = [plan_with(dps.DiffLR(split="paper", share=s, **options), 6, n=n) for s in shares]
    others.append(plan_with(dps.DiffLR(split="proportional", **options), 6, n=n))
    risks = [expected_risk(plan, signal, entries, n) for plan in others]
    assert best <= min(risks) * (1 + 1e-6)
    if signal >= 1:
        assert best >= 0.98 * min(risks)


def test_with_little_information_the_optimal_split_leans_on_the_ridge():
    ratios = [
        plan.scales.products / plan.scales.cross
        for plan in (plan_with(dps.DiffLR(), 12, n=n) for n in (10_000, 100_000, 10_000_000))
    ]
    assert ratios == sorted(ratios, reverse=True)
    exact = plan_with(dps.DiffLR(bounded="trim"), 12, n=10_000)
    assert exact.scales == plan_with(dps.DiffLR(bounded="trim"), 12, n=10_000_000).scales


@pytest.mark.parametrize("d", [3, 6, 14])
@pytest.mark.parametrize("truth", [0.3, 0.75, 1.875])
def test_a_wrong_guess_of_the_signal_costs_at_most_thirty_per_cent(truth, d):
    n = 100_000
    guessed, known = (plan_with(dps.DiffLR(signal=signal), d, n=n) for signal in (None, truth))
    loss = expected_risk(guessed, truth, "triangle", n) / expected_risk(known, truth, "triangle", n)
    assert 1 - 1e-9 <= loss <= 1.3


MECHANISMS = [
    dps.Functional(),
    dps.Functional(sensitivity="paper"),
    dps.Functional(sensitivity="code", entries="full", multiple=5),
    dps.Functional(scaling="ball"),
    dps.Functional(bounded="repeat"),
    dps.DiffLR(),
    dps.DiffLR(sensitivity="paper"),
    dps.DiffLR(split="paper", sensitivity="paper", entries="full", share=0.5),
    dps.DiffLR(split="proportional", scaling="ball"),
]


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_integer_sums_of_neighbouring_tables_spend_no_more_than_is_charged(mechanism, intercept):
    """Everything that is released, on the lattice, over corners, random records and an incomplete one."""
    rng = np.random.default_rng(1)
    plan = plan_with(mechanism, d=3, intercept=intercept)
    names = [name for name in plan.view.design.variables if name != "y"]
    corners = list(itertools.product((-1.0, 0.3, 1.0), repeat=len(names) + 1))
    records = [*corners, *rng.uniform(-3, 3, (60, len(names) + 1)), [np.nan] * (len(names) + 1)]
    columns = {name: np.array([r[j] for r in records]) for j, name in enumerate([*names, "y"])}
    rows, _ = feature_rows(Partition(columns, len(records)), plan.features, plan.bits)
    complete = np.isfinite(columns["y"]).astype(np.int64) << (2 * plan.bits)
    released = np.array(
        [plan.pairs.select(np.outer(row, row).astype(np.int64), c) for row, c in zip(rows, complete, strict=True)]
    )
    change = np.abs(released[:, None, :] - released[None, :, :]) / plan.noise.scales
    largest = change.sum(axis=-1).max()
    draws = 2 if mechanism.bounded == "repeat" else 1
    assert draws * largest <= plan.cost.epsilon <= 1.0
    if mechanism.sensitivity == "tight" and mechanism.scaling == "box" and intercept:
        assert draws * largest >= 0.85 * plan.cost.epsilon


HOSTILE_SCHEMA = Schema(
    {"x": Continuous(-3, 5), "z": Continuous(0, 90), "g": dps.Categorical(["a", "b", "c"]), "y": Continuous(0, 20)}
)


@pytest.mark.parametrize("scaling", ["box", "ball"])
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x * C(g) + z",
        "y ~ 0 + C(g) + x:z",
        "y ~ bs(z, df=4) + I((x - 1)**2) + x",
        "np.log(y + 1) ~ x:z + np.sqrt(z)",
        "y ~ 0 + x + z",
        "I(y - 10) ~ 0 + C(g) + bs(z, df=4)",
    ],
)
def test_hostile_records_spend_no_more_than_is_charged(formula, scaling):
    """Interactions, splines, transforms and models without intercept; anything may stand in a cell."""
    rng = np.random.default_rng(5)
    n = 150
    numbers = [-np.inf, np.inf, np.nan, 1e308, -1e308, -3.0, 5.0, 0.0, 90.0, 20.0]
    columns = {
        name: np.where(rng.random(n) < 0.5, rng.choice(numbers, n), rng.uniform(-20, 110, n))
        for name in ("x", "z", "y")
    }
    columns["g"] = np.array([*rng.choice(["a", "b", "c", "other"], n - 2), None, 3.0], dtype=object)
    design = build_design(formula, HOSTILE_SCHEMA, as_source(columns).facts)
    plan = plan_objective(design, LEAST_SQUARES, dps.Functional(scaling=scaling), Budget(1.0), n)
    with np.errstate(all="ignore"):
        rows, _ = feature_rows(Partition(columns, n), plan.features, plan.bits)
    assert (np.abs(rows) <= plan.features.lattice_radii(plan.bits)).all()
    whole = [np.outer(row, row).astype(np.int64) for row in rows]
    released = np.array(
        [plan.pairs.select(w, int(row.any()) << (2 * plan.bits)) for w, row in zip(whole, rows, strict=True)]
    )
    change = np.abs(released[:, None, :] - released[None, :, :]) / plan.noise.scales
    assert change.sum(axis=-1).max() <= plan.cost.epsilon * (1 + 1e-12)


def test_a_record_outside_its_bounds_is_clipped_into_the_box():
    plan = plan_with(dps.Functional(scaling="ball"), d=3)
    wild = {"x0": np.array([1e300, -np.inf]), "x1": np.array([np.inf, 7.0]), "y": np.array([-1e9, 1e9])}
    rows, _ = feature_rows(Partition(wild, 2), plan.features, plan.bits)
    assert (np.abs(rows) <= plan.features.lattice_radii(plan.bits)).all()


def test_order_and_partition_of_the_rows_do_not_matter(adult):
    design = build_design(FORMULAS[1], adult.schema, as_source(adult.data).facts)
    plan = plan_objective(design, LEAST_SQUARES, dps.Functional(), Budget(1.0), len(adult.data))
    names = plan.view.design.variables
    arrays = {name: adult.data[name].to_numpy() for name in names}
    order = np.random.default_rng(0).permutation(len(adult.data))
    shuffled = {name: array[order] for name, array in arrays.items()}
    whole = sum_products(as_source(adult.data), plan.features, plan.bits)
    for source in (ArraySource(arrays, len(order), 1_000), ArraySource(shuffled, len(order), 7_777)):
        again = sum_products(source, plan.features, plan.bits)
        assert (again.products == whole.products).all()
        assert again.n_complete == whole.n_complete


@pytest.mark.parametrize(
    ("term", "low", "high"),
    [
        ("I((x - 2005)**2)", 0, 225),
        ("I(z - 40):I(x - 2005)", -750, 750),
        ("I((z - 40)**2)", 0, 2500),
        ("x:z", 0, 181_800),
        ("C(g)[T.b]:z", 0, 90),
        ("np.log(z + 1)", 0, math.log(91)),
    ],
)
def test_a_column_fills_its_box(term, low, high):
    """Beside lower powers, whose raw polynomials would give bounds hundreds of times too wide."""
    names = {"x": Continuous(1990, 2020), "z": Continuous(0, 90), "g": dps.Categorical(["a", "b"])}
    schema = Schema({**names, "y": Continuous(0, 1)})
    data = {"x": np.full(9, 2000.0), "z": np.zeros(9), "g": np.array(["a"] * 9, dtype=object), "y": np.zeros(9)}
    formula = "y ~ x + z + C(g) + " + term.replace("C(g)[T.b]", "C(g)")
    design = build_design(formula, schema, as_source(data).facts)
    plan = plan_objective(design, LEAST_SQUARES, dps.Functional(), Budget(1.0), 9)
    place = [k for k, name in enumerate(design.exog_names) if name.replace(" ", "") == term.replace(" ", "")]
    contrast = plan.view.contrast[place[0]]
    half, middle = contrast[place[0]], contrast[plan.features.intercept]
    assert middle - half == pytest.approx(low, abs=2e-3 * (high - low))
    assert middle + half == pytest.approx(high, abs=2e-3 * (high - low))


@pytest.mark.parametrize("mechanism", ["functional", "diff-lr", "adassp"])
@pytest.mark.parametrize("bound", [1e3, 1e9, 1e15])
@pytest.mark.parametrize("formula", ["y ~ x + C(g)", "y ~ 0 + C(g) + x"])
def test_very_large_columns_do_not_disturb_the_others(formula, bound, mechanism):
    rng = np.random.default_rng(0)
    g = rng.choice(["a", "b"], 3_000)
    data = {"x": rng.uniform(-bound, bound, 3_000), "g": g.astype(object), "y": 30 + 6.0 * (g == "b")}
    call = {"bounds": {"x": (-bound, bound), "y": (0, 60)}, "levels": {"g": ["a", "b"]}}
    fit = dps.dp_ols(formula, data, math.inf, 1e-6 if mechanism == "adassp" else None, mechanism=mechanism, **call)
    expected = {"C(g)[T.b]": 6.0, "C(g)[b]": 36.0}
    name = next(name for name in expected if name in fit.params.index)
    assert fit.params[name] == pytest.approx(expected[name], abs=1e-3)


def test_the_summary_names_coefficients_that_the_ridge_outweighs():
    rng = np.random.default_rng(3)
    x = rng.normal(size=4_000)
    data = {"x": x, "y": 0.3 * x + rng.normal(size=4_000)}
    wide = {"x": (-1e4, 1e4), "y": (-5, 12)}
    fit = dps.dp_ols("y ~ x", data, 1.0, bounds=wide, mechanism="functional", infeasible="fit", rng=rng)
    assert fit.outweighed == ["x"]
    narrow = dps.dp_ols("y ~ x", data, 5.0, bounds={"x": (-4, 4), "y": (-5, 6)}, mechanism="functional", rng=rng)
    assert narrow.outweighed == []
    assert "The ridge outweighs the data in x" in " ".join(str(fit.summary()).split())
    assert "outweighs" not in str(narrow.summary())


@pytest.mark.parametrize(("scaling", "coded"), [("box", "[-1, 1]"), ("ball", "[0, 1]")])
def test_the_estimand_names_the_coding(adult, scaling, coded):
    options = dps.Functional(scaling=scaling)
    fit = dps.dp_ols("hours_per_week ~ age", adult.data, 1.0, schema=adult.schema, mechanism=options)
    assert f"on columns coded to {coded}" in fit.estimand


def test_an_affine_outcome_of_a_logit(adult):
    data = adult.data[["age", "income"]].iloc[:4_000].assign(won=adult.data["income"] == ">50K")
    bounds = {"age": (17, 90)}
    lost = dps.dp_logit("I(1 - won) ~ age", data, math.inf, bounds=bounds, mechanism="functional")
    won = dps.dp_logit("won ~ age", data, math.inf, bounds=bounds, mechanism="functional")
    np.testing.assert_allclose(lost.params, -won.params, rtol=5e-3)


def test_a_quadratic_term_is_not_drowned_by_its_bounds():
    rng = np.random.default_rng(1)
    n = 50_000
    year = rng.uniform(1990, 2020, n)
    y = 0.6 * ((year - 2005) / 15) ** 2 + rng.normal(0, 0.1, n)
    fit = dps.dp_ols(
        "y ~ year + I((year - 2005)**2)",
        {"year": year, "y": y},
        1.0,
        bounds={"year": (1990, 2020), "y": (-1, 2)},
        mechanism="functional",
        rng=rng,
    )
    assert fit.params.iloc[2] * 225 == pytest.approx(0.6, abs=0.05)


def test_a_logit_of_fractions_has_the_standard_errors_of_least_squares():
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, 4_000)
    data = {"x": x, "y": 0.5 + 0.2 * x + rng.uniform(-0.05, 0.05, 4_000)}
    fit = dps.dp_logit("y ~ x", data, math.inf, bounds={"x": (-1, 1), "y": (0, 1)}, mechanism="functional")
    reference = smf.ols("I(4 * (y - 0.5)) ~ x", pd.DataFrame(data)).fit()
    np.testing.assert_allclose(fit.bse, reference.bse, rtol=2e-3)


@pytest.mark.parametrize("epsilon", [1e-170, 5e-324])
def test_an_absurd_budget_is_refused_in_words(epsilon):
    for options in (dps.Functional(), dps.Functional(sensitivity="paper"), dps.DiffLR()):
        for intercept in (True, False):
            with pytest.raises(dps.BudgetError, match="so small"):
                plan_with(options, epsilon=epsilon, intercept=intercept)
            assert plan_with(options, epsilon=1e300, intercept=intercept).cost.epsilon <= 1e300


# -- bounded objectives ----------------------------------------------------------------------------------------------


def test_repeating_returns_a_bounded_objective_and_spends_what_was_asked():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (300, 2))
    data = {"x0": x[:, 0], "x1": x[:, 1], "y": x[:, 0] / 2}
    schema = Schema({name: Continuous(-1, 1) for name in data})
    once, source = plan_example(1.0, "y ~ x0 + x1", data, schema, bounded="trim")
    plan, _ = plan_example(1.0, "y ~ x0 + x1", data, schema, bounded="repeat")
    assert plan.scales.products == pytest.approx(2 * once.scales.products)
    rejected = 0
    for seed in range(200):
        noise = SimulatedNoise(np.random.default_rng(seed))
        matrix = release_objective(plan, source, noise).matrix[:-1, :-1]
        assert np.linalg.eigvalsh(matrix)[0] > 0
        first = SimulatedNoise(np.random.default_rng(seed))
        plain = release_objective(once, source, first).matrix[:-1, :-1]
        rejected += np.linalg.eigvalsh(plain)[0] <= 0
    assert rejected > 0, "the noise is too small for this test to see a rejection"
    assert plan.cost.epsilon == pytest.approx(1.0, rel=1e-6)


def test_repeating_is_refused_where_it_would_not_end():
    names = [f"x{j}" for j in range(12)]
    schema = Schema({**{name: Continuous(-1, 1) for name in names}, "y": Continuous(-1, 1)})
    rng = np.random.default_rng(0)
    data = {name: rng.uniform(-1, 1, 5_000) for name in schema.columns}
    repeat = dps.Functional(bounded="repeat")
    for infeasible in ("refuse", "fit"):
        with pytest.raises(dps.InfeasibleError, match="would accept about"):
            dps.dp_ols(f"y ~ {' + '.join(names)}", data, 0.5, schema=schema, mechanism=repeat, infeasible=infeasible)


def test_without_noise_repeating_ends_for_collinear_columns():
    x = np.linspace(-1, 1, 50)
    bounds = {"x": (-1, 1), "z": (-1, 1), "y": (-1, 1)}
    repeat = dps.Functional(bounded="repeat")
    fit = dps.dp_ols("y ~ x + z", {"x": x, "z": x, "y": x / 2}, math.inf, bounds=bounds, mechanism=repeat)
    assert len(fit.params) == 3


def test_real_noise_has_the_stated_scales():
    plan = plan_with(dps.DiffLR(), d=3, n=100)
    source = as_source({"x0": np.zeros(100), "x1": np.zeros(100), "y": np.zeros(100)})
    atoms = np.triu_indices(4)
    exact = release_objective(plan, source, NoNoise()).matrix[atoms]
    draws = np.array([release_objective(plan, source, RealNoise()).matrix[atoms] - exact for _ in range(4_000)])
    np.testing.assert_allclose(draws.std(axis=0) / np.sqrt(plan.variances), 1, atol=0.12)
    assert np.abs(np.corrcoef(draws.T) - np.eye(draws.shape[1])).max() < 0.12


def test_averaged_pairs_have_half_the_variance_off_the_diagonal():
    plan = plan_with(dps.Functional(entries="full"), d=3)
    index = plan.atoms.index
    assert plan.variances[index[0, 1]] == pytest.approx(plan.variances[index[1, 1]] / 2)
    assert plan.variances[index[1, 1]] == pytest.approx(2 * plan.scales.products**2, rel=1e-6)


# -- inference -------------------------------------------------------------------------------------------------------


SLOPES = np.array([0.0, 0.3, 0.3, 0.3])


def ridge_estimand(scaling, ridge_per_row):
    """(E x x' + lambda / n I)^-1 E x y in raw units, x uniform on [-1, 1]^3, y = .3 (x0 + x1 + x2) + error."""
    to_features = np.eye(4)  # raw columns (1, x) = to_features @ features
    if scaling == "ball":  # features are (1, (x + 1) / 2)
        to_features = np.array([[1.0, 0, 0, 0], [-1, 2, 0, 0], [-1, 0, 2, 0], [-1, 0, 0, 2]])
    back = np.linalg.inv(to_features)
    second = back @ np.diag([1, 1 / 3, 1 / 3, 1 / 3]) @ back.T
    cross = back @ np.diag([1, 1 / 3, 1 / 3, 1 / 3]) @ SLOPES
    return back.T @ np.linalg.solve(second + ridge_per_row * np.eye(4), cross)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mechanism", "n"),
    [
        (dps.Functional(), 4_000),
        (dps.Functional(sensitivity="code", entries="full", multiple=5), 10_000),
        (dps.Functional(bounded="trim"), 4_000),
        (dps.Functional(bounded="repeat"), 8_000),
        (dps.DiffLR(), 4_000),
        (dps.Functional(scaling="ball"), 20_000),
    ],
    ids=lambda value: repr(value),
)
def test_intervals_cover_the_stated_estimand(mechanism, n):
    rng = np.random.default_rng(17)
    names = ["x0", "x1", "x2"]
    schema = Schema({**{name: Continuous(-1, 1) for name in names}, "y": Continuous(-2, 2)})
    covered = []
    for _ in range(300):
        x = rng.uniform(-1, 1, (n, 3))
        data = {**dict(zip(names, x.T, strict=True)), "y": 0.3 * x.sum(axis=1) + rng.normal(0, 0.3, n)}
        fit = dps.dp_ols("y ~ x0 + x1 + x2", data, 1.0, schema=schema, mechanism=mechanism, rng=rng)
        truth = ridge_estimand(mechanism.scaling, fit.release.ridge.size / n)
        ends = fit.conf_int().to_numpy()
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    rate = np.mean(covered, axis=0)
    assert 0.92 <= rate.mean() <= 0.985
    assert rate.min() >= 0.90


@pytest.mark.slow
def test_intervals_of_the_taylor_logit_cover_its_own_minimiser_and_not_the_logit():
    rng = np.random.default_rng(5)
    n, beta = 20_000, np.array([0.5, 2.0])
    schema = Schema({"x": Continuous(-1, 1), "y": Continuous(0, 1)})
    grid = np.linspace(-1, 1, 200_001)
    p = 1 / (1 + np.exp(-(beta[0] + beta[1] * grid)))
    covered, logit = [], []
    for _ in range(200):
        x = rng.uniform(-1, 1, n)
        y = (rng.random(n) < 1 / (1 + np.exp(-(beta[0] + beta[1] * x)))).astype(float)
        fit = dps.dp_logit("y ~ x", {"x": x, "y": y}, 2.0, schema=schema, rng=rng, mechanism="functional")
        second = np.diag([1, 1 / 3]) + fit.release.ridge.size / n * np.eye(2)
        truth = np.linalg.solve(second, [np.mean(4 * (p - 0.5)), np.mean(4 * (p - 0.5) * grid)])
        ends = fit.conf_int().to_numpy()
        covered.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        logit.append((ends[:, 0] <= beta) & (beta <= ends[:, 1]))
    assert 0.92 <= np.mean(covered) <= 0.99
    assert np.mean(logit, axis=0)[1] < 0.05


def test_the_summary_says_what_is_estimated(adult):
    formula = "hours_per_week ~ age + C(sex)"
    ridged = dps.dp_ols(formula, adult.data, 1.0, schema=adult.schema, mechanism="functional")
    assert "a public ridge of" in " ".join(str(ridged.summary()).split())
    plain = dps.dp_ols(formula, adult.data, 1.0, schema=adult.schema, mechanism=dps.Functional(bounded="trim"))
    assert "ridge" not in str(plain.summary())
    repeated = dps.dp_ols(formula, adult.data, 1.0, schema=adult.schema, mechanism=dps.Functional(bounded="repeat"))
    assert "Noise was drawn until" in str(repeated.summary())
    logit = dps.dp_logit("income ~ age", adult.data, 1.0, schema=adult.schema, mechanism="functional")
    text = " ".join(str(logit.summary()).split())
    assert "NOT the coefficients of a logit" in text
    assert "R-squared" not in text
    for name in ("rsquared", "rsquared_adj", "llf", "prsquared"):
        assert not hasattr(logit, name)
    with pytest.raises(dps.NotReleasedError, match="linear model"):
        _ = logit.rsquared


def test_an_objective_fits_one_formula_only(adult):
    fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult.data, 1.0, schema=adult.schema, mechanism="diff-lr")
    with pytest.raises(dps.NotReleasedError, match="dp_moments"):
        fit.refit("hours_per_week ~ age")


def test_trimmed_directions_have_no_bounded_interval():
    rng = np.random.default_rng(0)
    data = {name: rng.uniform(-1, 1, 40) for name in ("x0", "x1", "x2", "y")}
    schema = Schema({name: Continuous(-1, 1) for name in data})
    fit = dps.dp_ols(
        "y ~ x0 + x1 + x2",
        data,
        0.1,
        schema=schema,
        mechanism=dps.Functional(bounded="trim"),
        infeasible="fit",
        rng=rng,
    )
    assert np.isinf(fit.conf_int().to_numpy()).all()
    assert np.isfinite(fit.params).all()
    assert fit.bse.isna().all()
    assert fit.cov_params().isna().all(axis=None)
    assert np.isnan(fit.t_test("x0 = 0").sd).all()
    with pytest.raises(dps.InfeasibleError):
        dps.dp_ols("y ~ x0 + x1 + x2", data, 0.1, schema=schema, mechanism="functional")


# -- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dps.Functional(sensitivity="loose"), "sensitivity must be 'tight', 'paper' or 'code'"),
        (lambda: dps.Functional(bounded="no"), "bounded must be"),
        (lambda: dps.Functional(multiple=-1), "multiple must be a number from 0"),
        (lambda: dps.DiffLR(sensitivity="code"), "sensitivity must be 'tight' or 'paper'"),
        (lambda: dps.DiffLR(split="half"), "split must be"),
        (lambda: dps.DiffLR(split="paper", share=0.2), "share must be a number from 0.5 to below 1"),
        (lambda: dps.DiffLR(share=0.75), "share belongs to split='paper'"),
        (lambda: dps.DiffLR(split="paper", signal=0.5), "signal belongs to split='optimal'"),
        (lambda: dps.DiffLR(signal=math.nan), "signal must be"),
        (lambda: dps.dp_logit("y ~ x", {"x": np.zeros(3), "y": np.zeros(3)}), "give a privacy budget: epsilon=1"),
        (lambda: dps.AdaSSP(scaling="sphere"), "scaling must be 'box' or 'ball'"),
    ],
)
def test_options_are_checked(make, message):
    with pytest.raises((dps.OptionError, dps.BudgetError), match=message):
        make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epsilon": 1, "delta": 1e-6, "mechanism": "functional"}, "give epsilon alone"),
        ({"rho": 0.1, "mechanism": "diff-lr"}, "give epsilon alone"),
        ({"epsilon": 1, "mechanism": "adassp"}, "give a delta"),
        ({"epsilon": 1, "mechanism": "functional", "cov_type": "HC1"}, "needs mechanism='ssp'"),
    ],
)
def test_a_budget_or_option_that_a_mechanism_cannot_use_is_refused(adult, arguments, message):
    with pytest.raises(dps.DPStatsError, match=message):
        dps.dp_ols("hours_per_week ~ age", adult.data, schema=adult.schema, **arguments)
