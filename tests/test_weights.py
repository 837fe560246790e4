"""How the noise is shared: release scales, block weights, the choice of noise, the spend and the lattice's bits."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from dpstats.errors import BudgetError
from dpstats.mechanisms.lattice import MAX_BITS, MIN_BITS, choose_bits
from dpstats.mechanisms.ssp import forecast_variance, plan_moments, stage_cost
from dpstats.privacy.notions import Budget, compose, stage_strength
from dpstats.specification.atoms import build_atoms
from dpstats.specification.blocks import make_block
from dpstats.specification.design import build_design
from dpstats.specification.schema import Categorical, Continuous, Schema, TableFacts
from dpstats.specification.sensitivity import atom_weights, l1_sensitivity, l2_sensitivity, row_norms
from dpstats.specification.weights import INTERCEPT, SLOPES, default_weights

LEVELS = {"g": 3, "h": 3}
NOISES = ("laplace", "gaussian")
BUDGETS = {
    "pure": Budget(epsilon=1.0),
    "approximate": Budget(epsilon=1.0, delta=1e-6),
    "zcdp": Budget(rho=0.05),
    "generous": Budget(epsilon=20.0),
    "strict": Budget(epsilon=0.01),
}
FORMULAS = (
    "y ~ x1",
    "y ~ x1 + x2 + x3 + x4 + x5",
    "y ~ x1 * x2",
    "y ~ x1 * C(g) + x2 + C(h)",
    "y ~ C(g) * C(h)",
    "y ~ bs(x1, df=5) + C(g)",
    "y ~ bs(x1, df=4):x2 + x2",
)


def blocks_of(*texts):
    """Blocks of coded columns such as "1", "x1", "g" or "x1:g", in order."""
    split = [[] if text == "1" else text.split(":") for text in texts]
    return [
        make_block(tuple((n, 1) for n in names if n not in LEVELS), [n for n in names if n in LEVELS], [], LEVELS, [])
        for names in split
    ]


def scales(texts, noise, block_weights=None):
    """Release scales at epsilon = 1 or mu = 1, by a pair of blocks; both at the first level; "n" is the count."""
    blocks = blocks_of(*texts)
    s = np.ones(len(blocks)) if block_weights is None else np.asarray(block_weights, dtype=float)
    atoms = build_atoms(blocks, [])
    weights, norms = atom_weights(blocks, atoms, s, noise), row_norms(blocks, s, noise)
    per_atom = l1_sensitivity(norms) / weights if noise == "laplace" else l2_sensitivity(norms) / np.sqrt(weights)
    start = dict(zip(texts, np.cumsum([0, *(block.n_columns for block in blocks)]), strict=False))
    found = {(a, b): per_atom[atoms.index[start[a], start[b]]] for a in texts for b in texts}
    return found | {"n": per_atom[atoms.count]}


def slopes_only(p):
    """Blocks of p numeric columns, a constant and a response."""
    return ("1", *(f"x{j}" for j in range(p)), "y")


def predicted_variance(p, s_0, s_y, noise):
    """Public objective of methods 1.4: predicted variance of intercept and slopes, from the release scales."""
    t = scales(slopes_only(p), noise, [s_0, *np.ones(p), s_y])
    factor = 2.0 if noise == "laplace" else 1.0
    v = {pair: factor * scale**2 for pair, scale in t.items()}
    other = v["x0", "x1"] if p > 1 else 0.0
    slope = v["x0", "y"] + INTERCEPT * v["1", "x0"] + (p - 1) * SLOPES / p * other + SLOPES / p * v["x0", "x0"]
    return 3 * p * slope + v["1", "y"] + SLOPES * v["1", "x0"]


def closed_form(size, noise):
    """Return r = s_y (Laplace) or s_y^2 (Gaussian) of methods 1.4, by bisection."""
    power = 3 if noise == "laplace" else 2
    low, high = 0.0, size
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if middle + 2 * SLOPES * middle**power < size else (low, middle)
    return (low + high) / 2


@functools.cache
def design_of(formula):
    schema = Schema(
        {"y": Continuous(0, 50)}
        | {f"x{j}": Continuous(-j, 3) for j in range(1, 9)}
        | {"g": Categorical(["a", "b", "c"]), "h": Categorical(["u", "v", "w"])}
    )
    return build_design(formula, schema, TableFacts(tuple(schema), dict.fromkeys(schema, "object")))


@functools.cache
def plan_of(formula, budget, n_rows=10_000):
    return plan_moments(design_of(formula), budget, n_rows)


# Release scales ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("blocks", "pairs", "laplace", "gaussian"),
    [
        ("1 x1 x2 y", [("x1", "x2"), ("x1", "y"), ("1", "x1"), ("1", "y")], 8, 4),
        ("1 x1 x2 y", [("x1", "x1"), ("y", "y")], 16, 2.3094),
        ("1 x1 x2 y", ["n", ("1", "1")], 16, 4),
        ("g x y", [("g", "x"), ("g", "y"), ("x", "y")], 7, 3),
        ("g x y", [("g", "g")], 14, 4.2426),
        ("g x y", [("x", "x"), ("y", "y")], 14, 1.8974),
        ("g x y", ["n"], 2.8, 4.2426),
        ("g x:g y", [("g", "g"), ("x:g", "x:g")], 17, 4.2426),
        ("g x:g y", [("g", "x:g"), ("g", "y"), ("x:g", "y")], 8.5, 3),
        ("g x:g y", [("y", "y")], 17, 1.73205),
    ],
)
def test_release_scales_at_unit_weights(blocks, pairs, laplace, gaussian):
    for noise, expected in zip(NOISES, (laplace, gaussian), strict=True):
        found = scales(blocks.split(), noise)
        assert [found[pair] for pair in pairs] == pytest.approx([expected] * len(pairs), rel=2e-5)


@pytest.mark.parametrize("p", [1, 3, 8])
@pytest.mark.parametrize("s_y", [0.5, 1.0, 2.5])
def test_laplace_scales_are_multiples_of_the_base(p, s_y):
    t = (1 + p + s_y) ** 2 / 2
    found = scales(slopes_only(p), "laplace", [*np.ones(p + 1), s_y])
    expected = {("1", "x0"): t, ("x0", "y"): t / s_y, ("1", "y"): t / s_y, ("x0", "x0"): 2 * t}
    expected |= {("y", "y"): 2 * t / s_y**2, "n": 2 * t}
    assert {pair: found[pair] for pair in expected} == pytest.approx(expected)


@pytest.mark.parametrize("p", [1, 3, 8])
@pytest.mark.parametrize("r", [0.5, 1.0, 2.5])
def test_gaussian_scales_are_multiples_of_the_base(p, r):
    d = 1 + p
    t = d + r
    found = scales(slopes_only(p), "gaussian", [*np.ones(p + 1), math.sqrt(r)])
    expected = {("1", "x0"): t, ("x0", "y"): t / math.sqrt(r), ("1", "y"): t / math.sqrt(r), "n": t}
    expected |= {("x0", "x0"): t / math.sqrt((d + r + 2) / 2), ("y", "y"): t / math.sqrt(r * (2 * r + d + 1) / 2)}
    assert {pair: found[pair] for pair in expected} == pytest.approx(expected)


# Block weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "laplace", "gaussian"), [(3, 1.7, 1.9), (6, 2.3, 3.1), (11, 3.0, 4.6), (21, 3.9, 6.9)]
)
def test_response_weight_beside_a_factor_is_the_closed_form(size, laplace, gaussian):
    numerics = [f"x{j}" for j in range(size)]
    r_laplace = default_weights(blocks_of("g", *numerics[: size - 2], "y"), "laplace")[-1]
    r_gaussian = default_weights(blocks_of("g", *numerics[: size - 1], "y"), "gaussian")[-1] ** 2
    assert (r_laplace, r_gaussian) == pytest.approx((laplace, gaussian), abs=0.0501)
    assert r_laplace == pytest.approx(closed_form(size, "laplace"), rel=1e-9)
    assert r_gaussian == pytest.approx(closed_form(size, "gaussian"), rel=1e-9)


@pytest.mark.parametrize("texts", ["g x y", "g x:g h z y", "g:h y", "1 y"])
@pytest.mark.parametrize("noise", NOISES)
def test_only_the_response_is_reweighted_where_there_is_a_factor_or_no_slope(texts, noise):
    blocks = blocks_of(*texts.split())
    weights = default_weights(blocks, noise)
    norms = row_norms(blocks[:-1], np.ones(len(blocks) - 1), noise)
    size = 2 * norms.s_f + norms.s_n if noise == "laplace" else norms.r2
    r = closed_form(size, noise)
    expected = r if noise == "laplace" else math.sqrt(r)
    assert weights == pytest.approx([*np.ones(len(blocks) - 1), expected])


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("p", [1, 2, 3, 5, 10, 20])
def test_optimised_weights_are_no_worse_than_the_closed_form_and_locally_best(p, noise):
    s_0, *regressors, s_y = default_weights(blocks_of(*slopes_only(p)), noise)
    assert regressors == [1.0] * p
    best = predicted_variance(p, s_0, s_y, noise)
    r = closed_form(p + 1, noise)
    assert best <= predicted_variance(p, 1.0, r if noise == "laplace" else math.sqrt(r), noise)
    for step in (0.97, 1.03):
        assert best <= predicted_variance(p, s_0 * step, s_y, noise)
        assert best <= predicted_variance(p, s_0, s_y * step, noise)


@pytest.mark.parametrize(("p", "percent"), [(1, 18), (2, 11), (3, 7), (5, 3)])
def test_closed_form_costs_up_to_18_percent_of_sd_under_laplace_and_3_under_gaussian_noise(p, percent):
    cost = {}
    for noise in NOISES:
        s_0, *_, s_y = default_weights(blocks_of(*slopes_only(p)), noise)
        r = closed_form(p + 1, noise)
        fixed = predicted_variance(p, 1.0, r if noise == "laplace" else math.sqrt(r), noise)
        cost[noise] = 100 * (math.sqrt(fixed / predicted_variance(p, s_0, s_y, noise)) - 1)
    assert round(cost["laplace"]) == percent
    assert 0 <= round(cost["gaussian"]) <= 3


# Choice of noise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "kind"), [(1, "laplace"), (2, "laplace"), (3, "laplace"), (4, "gaussian"), (8, "gaussian")]
)
def test_approximate_budget_takes_laplace_up_to_three_slopes_and_gaussian_from_four_on(p, kind):
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(1, p + 1))
    plan = plan_of(formula, Budget(epsilon=1.0, delta=1e-6))
    assert plan.noise.law == kind
    pure = plan_of(formula, Budget(epsilon=1.0))
    gaussian = plan_of(formula, Budget(rho=stage_strength(Budget(epsilon=1.0, delta=1e-6), "gaussian") ** 2 / 2))
    forecasts = {"laplace": forecast_variance(pure), "gaussian": forecast_variance(gaussian)}
    assert min(forecasts, key=forecasts.__getitem__) == kind


def test_approximate_budget_spent_on_laplace_noise_charges_no_delta():
    assert plan_of("y ~ x1", Budget(epsilon=1.0, delta=1e-6)).cost.delta is None


# Spend ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_spend_recomputed_from_the_scales_equals_the_budget_and_never_exceeds_it(formula, name):
    budget = BUDGETS[name]
    plan = plan_of(formula, budget)
    t, w, reach = plan.noise.scales, plan.weights, plan.sensitivity * 4.0**plan.bits
    if plan.noise.law == "laplace":
        spent, allowed = reach * (1 / (t * w)).max(), budget.epsilon
    else:
        spent, allowed = reach**2 * (1 / ((t**2 - 9) * w)).max(), stage_strength(budget, "gaussian") ** 2
    assert allowed * (1 - 1e-6) <= spent <= allowed


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_every_atom_is_used_to_the_full(formula, name):
    plan = plan_of(formula, BUDGETS[name])
    w, t = plan.weights, plan.noise.scales
    shares = 1 / (t * w) if plan.noise.law == "laplace" else 1 / ((t**2 - 9) * w)
    assert shares.min() == pytest.approx(shares.max(), rel=1e-6)


@pytest.mark.parametrize("name", BUDGETS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_reported_spend_equals_the_budget_and_never_exceeds_it(formula, name):
    budget = BUDGETS[name]
    spent = compose(budget, [plan_of(formula, budget).cost])
    for part in ("epsilon", "delta", "rho"):
        allowed, used = getattr(budget, part), getattr(spent, part)
        if used is not None:
            assert allowed * (1 - 1e-6) <= used <= allowed


@pytest.mark.parametrize("kind", NOISES)
def test_halving_one_scale_shows_in_the_reported_spend(kind):
    budget = Budget(epsilon=1.0) if kind == "laplace" else Budget(rho=0.05)
    plan = plan_of("y ~ x1 + C(g)", budget)
    scales_used = plan.noise.scales.copy()
    scales_used[2] /= 2
    spent = stage_cost(kind, scales_used, plan.weights, plan.sensitivity * 4.0**plan.bits, budget)
    factor, part = (2, "epsilon") if kind == "laplace" else (4, "rho")
    assert getattr(spent, part) == pytest.approx(factor * getattr(budget, part), rel=1e-6)


@pytest.mark.parametrize("name", BUDGETS)
def test_variances_are_those_of_the_scales_in_coded_units(name):
    plan = plan_of("y ~ x1 + C(g)", BUDGETS[name])
    unit = 4.0**plan.bits
    factor = 2 if plan.noise.law == "laplace" else 1
    assert plan.variances == pytest.approx(factor * (plan.noise.scales / unit) ** 2)


# Bits ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 2, 3, 1000, 2**22 - 1, 2**22, 2**22 + 1, 10**9, 2**40])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 17.0, 2.0**18, 2.0**18 + 1, 1e9])
def test_sums_and_noise_fit_and_one_more_bit_would_not(n_rows, scale):
    bits = choose_bits(n_rows, scale)

    def fits(k):
        return n_rows * 4**k <= 2**62 and scale * 4.0**k <= 2.0**58

    assert MIN_BITS <= bits <= MAX_BITS
    assert fits(bits)
    assert bits == MAX_BITS or not fits(bits + 1)


@pytest.mark.parametrize(("n_rows", "scale"), [(2**47, 1.0), (10, 2.0**43), (10, math.inf), (10, 1e300)])
def test_fewer_than_eight_bits_are_refused(n_rows, scale):
    with pytest.raises(BudgetError, match="so small"):
        choose_bits(n_rows, scale)


def test_eight_bits_are_enough():
    assert choose_bits(2**46, 1.0) == choose_bits(10, 2.0**42) == MIN_BITS


@pytest.mark.parametrize(
    "budget",
    [
        Budget(epsilon=1e-30),
        Budget(epsilon=5e-324),
        Budget(rho=1e-30),
        Budget(rho=5e-324),
    ],
    ids=str,
)
def test_a_budget_that_drowns_every_digit_is_a_budget_error(budget):
    with pytest.raises(BudgetError):
        plan_moments(design_of("y ~ x1"), budget, 1000)


def test_an_infinite_budget_has_no_noise():
    plan = plan_of("y ~ x1 + C(g)", Budget(epsilon=math.inf))
    assert not plan.variances.any()
    assert plan.cost == Budget(epsilon=math.inf)
