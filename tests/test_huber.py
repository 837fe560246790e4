"""`dp_ols(mechanism="huber")`: equality without noise, what is released and paid for, refusals, results, coverage."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.robust.norms import HuberT
from statsmodels.robust.robust_linear_model import RLM

import dpstats as dps
from dpstats.mechanisms.huber import plan_huber, release_huber, squares_target
from dpstats.mechanisms.perturbed import release_step
from dpstats.models.huber import HESSIAN_SHARE, LARGEST_SHARE, planned_huber
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import Rows, as_table, sum_squared_losses
from dpstats.records.source import as_source
from dpstats.release.noise import NoNoise, SimulatedNoise
from dpstats.specification.design import build_design
from dpstats.specification.perturbation import cost
from dpstats.specification.schema import Schema, TableFacts

BOUNDS = {"x": (-1, 3), "z": (0, 10), "y": (-20, 60)}
LEVELS = {"g": ["a", "b", "c"], "h": ["no", "yes"]}
SCHEMA = Schema.from_declarations(BOUNDS, LEVELS)
KINDS = {"x": "number", "z": "number", "g": "object", "h": "object", "y": "number"}
WIDE = dps.Huber(threshold=1.0)


def table(n=4_000, seed=0, errors=None):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 3, n),
            "z": rng.uniform(0, 10, n),
            "g": rng.choice(["a", "b", "c"], n),
            "h": rng.choice(["no", "yes"], n),
        }
    )
    error = rng.normal(0, 4, n) if errors is None else errors(rng, n)
    frame["y"] = 10 + 3 * frame["x"] - frame["z"] + 2 * (frame["g"] == "b") + error
    return frame


def fit(formula="y ~ x + C(g)", frame=None, epsilon=math.inf, mechanism="huber", **options):
    frame = table() if frame is None else frame
    return dps.dp_ols(formula, frame, epsilon, schema=SCHEMA, mechanism=mechanism, **options)


def design(formula="y ~ x + z"):
    return build_design(formula, SCHEMA, TableFacts(tuple(KINDS), KINDS))


# -- without noise -----------------------------------------------------------------------------------------------------

FORMULAS = [
    "y ~ x + z",
    "y ~ x + z + C(g) + C(h)",
    "y ~ x * C(g)",
    "y ~ 0 + C(g) + x",
    "y ~ C(g) * C(h) + np.exp(x / 4)",
    "y ~ x + I(x**2) + z",
    "y ~ C(g, Sum) + x:z",
    "y ~ bs(x, df=4) + C(h)",
    "y ~ 1",
]


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_a_threshold_that_no_residual_reaches_gives_least_squares(formula, cov_type):
    frame = table(errors=lambda rng, n: rng.normal(0, 3, n) * (1 + rng.uniform(0, 2, n)))
    frame.loc[::7, "x"] = np.nan
    ours, ols = (fit(formula, frame, mechanism=m, cov_type=cov_type) for m in (WIDE, "ssp"))
    assert list(ours.params.index) == list(ols.params.index)
    assert ((ours.params - ols.params).abs() / ols.bse).max() < 1e-5
    np.testing.assert_allclose(ours.bse, ols.bse, rtol=2e-3)
    np.testing.assert_allclose(ours.conf_int(), ols.conf_int(), atol=5e-3 * ols.bse.max())
    np.testing.assert_allclose(ours.pvalues, ols.pvalues, atol=2e-3)
    assert ours.cov_type == cov_type
    if cov_type == "nonrobust":
        assert ours.scale == pytest.approx(ols.scale, rel=1e-6)
        np.testing.assert_allclose(ours.cov_params(), ols.cov_params(), atol=2e-3 * (ols.bse**2).max())


@pytest.mark.parametrize("threshold", [0.02, 0.05, 0.1, 0.25])
@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ x * C(g)"])
def test_without_noise_it_is_the_regression_of_statsmodels_with_that_threshold(formula, threshold):
    frame = table(errors=lambda rng, n: 3 * rng.standard_t(3, n))
    ours = fit(formula, frame, mechanism=dps.Huber(threshold=threshold))
    clipped = frame.assign(y=frame["y"].clip(*BOUNDS["y"]))
    model = RLM.from_formula(formula, clipped, M=HuberT(t=80 * threshold))
    theirs = model.fit(start_scale=1.0, update_scale=False, cov="H2", tol=1e-12, maxiter=500)
    assert ours.threshold == pytest.approx(80 * threshold)
    assert ((ours.params - theirs.params).abs() / theirs.bse).max() < 1e-4
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=5e-3)
    assert ((ours.params - smf.ols(formula, clipped).fit().params).abs() / theirs.bse).max() > 1e-3


@pytest.mark.parametrize("bounds", [(1_900, 2_000), (0, 1e-6), (-1e9, 3e9)])
def test_the_response_s_place_and_unit_do_not_matter(bounds):
    low, high = bounds
    frame = table()
    share = (frame["y"].clip(*BOUNDS["y"]) + 20) / 80
    moved = frame.assign(y=low + (high - low) * share)
    one = fit(frame=frame)
    two = dps.dp_ols(
        "y ~ x + C(g)",
        moved,
        math.inf,
        schema=SCHEMA.updated(dps.Schema({"y": dps.Continuous(*bounds)})),
        mechanism="huber",
    )
    unit = (high - low) / 80
    np.testing.assert_allclose(two.params.iloc[1:], unit * one.params.iloc[1:], rtol=1e-4, atol=1e-4 * unit)
    assert two.params.iloc[0] == pytest.approx(low + unit * (one.params.iloc[0] + 20), rel=1e-6, abs=1e-4 * unit)
    np.testing.assert_allclose(two.bse, unit * one.bse, rtol=1e-3)
    assert two.threshold == pytest.approx(0.25 * (high - low))


def test_an_offset_is_taken_from_the_response():
    frame = table()
    plain = dps.dp_ols("y ~ x", frame, math.inf, schema=SCHEMA, mechanism=WIDE, offset="z")
    reference = smf.ols("I(y - z) ~ x", frame).fit()
    np.testing.assert_allclose(plain.params, reference.params, rtol=1e-5)
    new = pd.DataFrame({"x": [0.5], "z": [4.0]})
    assert plain.predict(new)[0] == pytest.approx(plain.params.iloc[0] + 0.5 * plain.params.iloc[1] + 4.0)


def test_residuals_count_up_to_the_threshold():
    """One gross error in twenty: least squares is pulled, Huber's regression hardly."""

    def gross(rng, n):
        return np.where(rng.random(n) < 0.05, 40.0, rng.normal(0, 1, n))

    frame = table(20_000, errors=gross)
    huber, ols = fit("y ~ x + z", frame, mechanism=dps.Huber(threshold=0.05)), fit("y ~ x + z", frame, mechanism="ssp")
    assert huber.params["Intercept"] == pytest.approx(10 + 2 / 3, abs=0.5)
    assert ols.params["Intercept"] > 11.5


# -- what is released, and what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize("robust", [None, dps.HC0(), dps.HC1(share=0.3)], ids=repr)
@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.1)], ids=str)
def test_costs_are_recomputed_from_the_scales_and_stay_within_the_budget(budget, robust):
    plan = plan_huber(design(), dps.Huber(), budget, 4_000, robust)
    minimum = plan.minimum
    exact = cost(plan.loss, minimum.perturbation.gamma, plan.predictors.row_size, plan.ridge)
    assert minimum.epsilon_exact == exact
    released = release_huber(plan, as_source(table()), SimulatedNoise(np.random.default_rng(0)), robust)
    parts = released.fit.costs.values()
    if budget.rho is not None:
        total = math.fsum(part.rho for part in parts)
        assert 0.99 * budget.rho <= total <= budget.rho
    else:
        total = math.fsum(part.epsilon for part in parts)
        assert 0.99 <= total <= 1.0
        assert math.fsum(part.delta or 0.0 for part in parts) <= (budget.delta or 0.0)
    pieces = "; ".join(released.fit.costs)
    assert "minimiser" in pieces
    assert "Hessian" in pieces
    assert "squared residuals" in pieces


def corner_rows():
    """A complete row at the ends of everything, and incomplete ones; the response may be beyond its bounds."""
    ends = itertools.product((-1.0, 3.0), (0.0, 10.0, np.nan), ("a", "c", "?"), (-1e300, -20.0, 20.0, 60.0, np.nan))
    return pd.DataFrame(list(ends), columns=["x", "z", "g", "y"]).assign(h="no")


@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ x * C(g)", "y ~ 0 + C(g) + z", "y ~ bs(x, df=4) + C(g)"])
def test_no_row_moves_a_sum_of_squares_by_more_than_its_range(formula):
    """Brute force over corner rows, at released parameters near and far: (a'z)^2 r^2, the constant's among them."""
    rng = np.random.default_rng(5)
    frame = corner_rows()
    plan = plan_huber(design(formula), dps.Huber(), Budget(epsilon=1.0), len(frame), dps.HC0())
    table_of_rows = as_table(as_source(frame), plan.predictors)
    theta, moments = release_step(plan, as_table(as_source(table()), plan.predictors), SimulatedNoise(rng))
    q = plan.predictors.n_columns
    largest = np.zeros(1 + q * (q + 1) // 2)
    for scale in (0.0, 1.0, 100.0):
        target = squares_target(plan, moments, scale * theta, dps.HC0(), whole=True)
        assert target.ranges[0] == 1.0
        for rows in table_of_rows.kept:
            products = rows.z @ target.forms.matrix.T
            squares = plan.loss.residual(rows.z @ (scale * theta), rows.u)[:, None] ** 2
            terms = products**2 * squares
            largest = np.maximum(largest, (terms / target.ranges).max(axis=0))
            complete = np.abs(rows.z).sum(axis=1) > 0
            np.testing.assert_allclose(products[complete, 0], 1.0, atol=1e-9)
            assert (products[~complete] == 0).all()
            for i in range(len(rows.u)):
                alone = as_alone(table_of_rows, Rows(rows.z[i : i + 1], rows.u[i : i + 1]))
                steps = sum_squared_losses(alone, plan.loss, scale * theta, target.forms, target.ranges, 1_000)
                assert ((steps >= 0) & (steps <= 1_000)).all()
    assert largest[0] == pytest.approx(1.0), "the range of the sum of squared residuals is attained"
    assert (largest <= 1 + 1e-9).all()


@pytest.mark.parametrize("robust", [None, dps.HC1()], ids=repr)
@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ x * C(g)", "y ~ bs(x, df=4) + C(g)"])
def test_no_pair_of_rows_moves_the_sums_together_by_more_than_gaussian_noise_allows_for(formula, robust):
    """The joint bound of the Gaussian stage, over all pairs of corner rows, in units of each sum's weight."""
    frame = corner_rows()
    plan = plan_huber(design(formula), dps.Huber(), Budget(rho=0.5), len(frame), robust)
    kept = as_table(as_source(frame), plan.predictors).kept
    z, u = np.concatenate([rows.z for rows in kept]), np.concatenate([rows.u for rows in kept])
    noise = SimulatedNoise(np.random.default_rng(5))
    theta, moments = release_step(plan, as_table(as_source(table()), plan.predictors), noise)
    nearest = 0.0
    for scale in (0.0, 1.0, 100.0):
        for whole in (True, False):
            target = squares_target(plan, moments, scale * theta, robust, whole=whole)
            terms = (z @ target.forms.matrix.T) ** 2 * plan.loss.residual(z @ (scale * theta), u)[:, None] ** 2
            scaled = np.minimum(terms, target.ranges) / target.weights
            moved = np.linalg.norm(scaled[:, None] - scaled[None], axis=2).max()
            bound = min(np.linalg.norm(target.ranges / target.weights), math.sqrt(2) * target.joint_size)
            assert moved <= bound * (1 + 1e-9)
        nearest = max(nearest, moved / bound)
    assert nearest > 0.5, "the bound is not idle"


def as_alone(whole, rows):
    """A table of one kept block."""
    return type(whole)(whole.source, whole.predictors, [rows])


def test_phi_scales_the_hessian_as_squared_residuals_scale_x_x():
    """phi = sum r^2 / sum w: without clipping, t phi is the mean squared residual."""
    frame = table()
    plan = plan_huber(design(), WIDE, Budget(epsilon=math.inf), len(frame), None)
    released = release_huber(plan, as_source(frame), NoNoise(), None)
    ols = smf.ols("y ~ x + z", frame).fit()
    assert released.sigma2 * 40**2 == pytest.approx(ols.scale, rel=1e-6)
    assert not released.clamped


@pytest.mark.parametrize(("n", "share"), [(1_000_000, HESSIAN_SHARE), (300, LARGEST_SHARE)])
def test_the_hessian_gets_more_where_the_forecast_asks_for_it(n, share):
    plan = planned_huber(design(), dps.Huber(), Budget(epsilon=1.0), n)
    assert plan.stages.hessian / (1 - plan.stages.scores) == pytest.approx(share)
    fixed = planned_huber(design(), dps.Huber(hessian_share=0.4), Budget(epsilon=1.0), n)
    assert fixed.stages.hessian / (1 - fixed.stages.scores) == pytest.approx(0.4)


def test_the_noise_is_that_of_the_coefficients_not_of_all_products():
    """Ten columns at epsilon = 1: less than half as far from least squares as ssp."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, (10_000, 10))
    frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(10)])
    frame["y"] = 0.1 * x.sum(axis=1) + rng.normal(0, 0.2, 10_000)
    schema = dps.Schema({name: dps.Continuous(-1, 1) for name in frame})
    formula = "y ~ " + " + ".join(frame.columns[:-1])
    huber, ssp = (dps.dp_ols(formula, frame, 1.0, schema=schema, mechanism=m, rng=rng) for m in ("huber", "ssp"))
    plain = smf.ols(formula, frame).fit()
    assert np.median(np.abs(huber.params - plain.params)[1:]) < np.median(np.abs(ssp.params - plain.params)[1:]) / 2


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}], ids=str)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_the_sum_of_squared_residuals_rises_above_its_noise(cov_type, budget):
    """All standard errors rest on it: also beside the sums of robust ones, of which some are badly determined."""
    rng = np.random.default_rng(8)
    frame = table(20_000, errors=lambda rng, n: rng.normal(0, 8, n))
    rare = (frame["g"] == "c") & (rng.random(20_000) < 0.9)
    frame.loc[rare, "g"] = "a"
    formula = "y ~ x * C(g) * C(h)"
    exact = smf.ols(formula, frame).fit().scale
    call = {"schema": SCHEMA, "mechanism": "huber", "cov_type": cov_type, "infeasible": "fit", "rng": rng}
    for _ in range(5):
        found = dps.dp_ols(formula, frame, **budget, **call)
        assert not found.scale_clamped
        assert found.scale == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("outcome", ["constant", "linear"])
def test_without_noise_a_perfect_fit_has_no_standard_errors_to_speak_of(outcome, cov_type):
    frame = table(500)
    frame["y"] = 3.0 if outcome == "constant" else 1 + 2 * frame["x"]
    found = fit("y ~ x", frame, cov_type=cov_type)
    assert (found.bse < 1e-4).all()
    assert found.params["x"] == pytest.approx(0.0 if outcome == "constant" else 2.0, abs=1e-3)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fit("y ~ 0 + x", epsilon=1), dps.DesignError, "needs an intercept"),
        (lambda: fit(epsilon=1, weights="z"), dps.OptionError, "weights= needs mechanism='ssp'"),
        (lambda: fit(epsilon=1, cov_type="HC3"), dps.OptionError, "cov_type must be"),
        (lambda: fit(epsilon=1e-200), dps.BudgetError, "so small"),
        (lambda: fit(epsilon=1, mechanism=dps.Huber(noise="gaussian")), dps.BudgetError, "delta or rho"),
        (lambda: fit(epsilon=1, mechanism=dps.Huber), dps.OptionError, "is a class"),
        (lambda: fit(epsilon=1, cov_type=dps.HC1(share=0.99)), dps.BudgetError, "leave nothing for the coefficients"),
        (lambda: fit("C(g) ~ x", epsilon=1), dps.SchemaError, "numeric outcome"),
        (lambda: fit(epsilon=1, privacy_unit="g"), dps.OptionError, "public number of rows"),
        (lambda: fit(epsilon=0.05, frame=table(50)), dps.InfeasibleError, "nothing useful can come out"),
        (
            lambda: dps.Huber(threshold=0),
            dps.OptionError,
            "threshold must be a share of the outcome's range, from 0.01",
        ),
        (lambda: dps.Huber(threshold=1.5), dps.OptionError, "range, from 0.01 to 1, not"),
        (
            lambda: dps.Huber(threshold="1"),
            dps.OptionError,
            "threshold must be a share of the outcome's range, from 0.01",
        ),
        (lambda: dps.Huber(hessian_share=0.9), dps.OptionError, "hessian_share must be a number"),
        (lambda: dps.Huber(noise="normal"), dps.OptionError, "noise must be"),
    ],
)
def test_wrong_arguments_are_refused_in_words(monkeypatch, call, error, message):
    monkeypatch.setattr("dpstats.mechanisms.huber.as_table", None)
    with pytest.raises(error, match=message):
        call()


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def private():
    return fit("y ~ x + z + C(g)", table(10_000), 1.0, rng=np.random.default_rng(2))


def test_the_summary_says_what_was_fitted(private):
    text = str(private.summary())
    words = " ".join(text.split())
    assert "DP Huber Regression Results - NOT PRIVATE: simulated noise" in text
    assert "Loss: Huber, threshold 20" in words
    assert "No. Rows: 10000" in words
    assert "R-squared" not in text
    assert "rows dropped, not counted" in words
    assert "minimiser of the expected Huber loss with threshold 20 over the clipped columns" in words
    assert "noise in the Hessian (Fieller)" in words
    assert "Success" not in text
    real = " ".join(str(fit("y ~ x", epsilon=1.0).summary()).split())
    assert "Spent on minimiser: epsilon = 0.81" in real
    assert "squared residuals: epsilon = 0.03 (pure)" in real


def test_what_was_not_released_says_why(private):
    for name in ("rsquared", "rsquared_adj"):
        with pytest.raises(dps.NotReleasedError, match="releases no total sum of squares"):
            getattr(private, name)
    with pytest.raises(dps.NotReleasedError, match="compare models by wald_test"):
        _ = private.aic
    with pytest.raises(dps.NotReleasedError, match="one number per record"):
        _ = private.resid
    with pytest.raises(dps.NotReleasedError, match="another formula needs a fit"):
        private.refit("y ~ x")


def test_results_keep_the_protocol(private):
    assert (private.bse > private.bse_sampling).all()
    np.testing.assert_allclose(private.bse**2, private.bse_sampling**2 + private.bse_privacy**2)
    new = table(5, seed=9)
    frame = private.get_prediction(new).summary_frame()
    assert list(frame) == ["predicted", "se", "ci_lower", "ci_upper"], "no interval for an observation"
    np.testing.assert_allclose(frame["predicted"], private.predict(new))
    assert ((frame["ci_lower"] < frame["predicted"]) & (frame["predicted"] < frame["ci_upper"])).all()
    with pytest.raises(dps.NotReleasedError, match="new rows"):
        private.get_prediction()
    glance = private.glance()
    assert "r_squared" not in glance
    assert glance["sigma"][0] == pytest.approx(math.sqrt(private.scale))
    assert glance["nobs"][0] == 10_000
    assert private.wald_test_terms().table.loc["x", "pvalue"] < 1e-3
    assert "R-squared" not in dps.regression_table([private])
    again = pickle.loads(pickle.dumps(private))
    pd.testing.assert_series_equal(again.params, private.params)
    assert repr(private.release).startswith("<HuberRelease: 'y ~ x + z + C(g)', huber, block + Laplace")


def test_compare_puts_the_regression_of_statsmodels_beside_it():
    frame = table(errors=lambda rng, n: 3 * rng.standard_t(3, n))
    found = dps.compare(fit("y ~ x + C(g)", frame, mechanism=dps.Huber(threshold=0.05)), frame)
    assert "statsmodels' RLM (H2) on 4,000 complete rows" in " ".join(str(found).split())
    both = found.to_frame()
    assert (both["difference_in_std_err"].abs() < 1e-3).all()
    np.testing.assert_allclose(both["width_ratio"], 1.0, rtol=5e-3)


def test_sources_and_order_give_the_same_integers(tmp_path):
    frame = table(3_000)
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=700)
    shuffled = frame.sample(frac=1, random_state=1)
    fits = [
        fit("y ~ x + C(g)", source, 1.0, cov_type="HC1", rng=np.random.default_rng(4), infeasible="fit")
        for source in (frame, shuffled, tmp_path / "t.parquet")
    ]
    for other in fits[1:]:
        pd.testing.assert_series_equal(other.params, fits[0].params, rtol=0, atol=0)
        pd.testing.assert_series_equal(other.bse, fits[0].bse, rtol=0, atol=0)


# -- coverage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}], ids=str)
def test_intervals_cover(budget, cov_type):
    """Heteroskedastic errors where they are robust; a factor and missing rows in both."""
    truth = {"x": 3.0, "z": -1.0, "C(g)[T.b]": 2.0, "C(g)[T.c]": 0.0}
    rng = np.random.default_rng(6)
    covered, bounded = [], []
    for seed in range(60):
        frame = table(5_000, seed)
        if cov_type == "HC1":
            spread = 0.3 + np.abs(frame["x"] - 1) * 1.2
            frame["y"] += np.random.default_rng(seed + 1_000).normal(0, 3, 5_000) * spread
        frame.loc[::9, "z"] = np.nan
        found = dps.dp_ols(
            "y ~ x + z + C(g)", frame, **budget, schema=SCHEMA, mechanism="huber", cov_type=cov_type, rng=rng
        )
        ends = found.conf_int().loc[list(truth)]
        inside = (ends[0] <= pd.Series(truth)) & (pd.Series(truth) <= ends[1])
        covered.append(inside.mean())
        bounded.append(np.isfinite(ends).all(axis=None))
    assert np.mean(bounded) > 0.95
    assert 0.91 <= np.mean(covered) <= 0.985, "240 intervals, correlated within a fit"
