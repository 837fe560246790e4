"""Heteroskedasticity-consistent standard errors: exact without noise, private with it, honest about their cost."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from helpers import planned

import dpstats as dps
from dpstats.inference.estimates import fit_least_squares
from dpstats.inference.robust import (
    RobustSampling,
    largest_products,
    robust_sampling,
    score_target,
    with_robust_sampling,
)
from dpstats.mechanisms.robust import ScoreStage, affordable, release_scores
from dpstats.privacy.notions import Budget
from dpstats.records.rows import lattice_rows
from dpstats.records.scores import sum_squared_scores
from dpstats.records.source import Partition, as_source
from dpstats.release.noise import RealNoise
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Categorical, Continuous
from dpstats.specification.sensitivity import row_norms

SCHEMA = {"y": Continuous(-3, 3), "x": Continuous(-1, 1), "g": Categorical(["a", "b", "c"])}
FORMULAS = ["y ~ x", "y ~ x * C(g)", "y ~ bs(x, df=4) + C(g)"]
BUDGETS = [{"epsilon": 1.0}, {"rho": 0.1}, {"epsilon": 1.0, "delta": 1e-6}]


def data(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, n), rng.choice(["a", "b", "c"], n)
    return {"x": x, "g": g, "y": np.clip(0.5 * x + rng.normal(0, 0.1 + 0.5 * np.abs(x)), -3, 3)}


def target_for(case, seed=1, *, whole=True):
    moments = case.noisy(np.random.default_rng(seed))
    fit = fit_least_squares(moments, case.space)
    blocks = case.plan.coding.blocks
    size = row_norms(blocks, np.ones(len(blocks)), case.plan.coding.noise, case.plan.bits).r2
    return score_target(moments, case.space, fit, blocks, size, whole=whole)


def extreme_rows(rng, n):
    """Rows at the corners of the schema, between them, and incomplete."""
    x = np.where(rng.random(n) < 0.7, rng.choice([-1.0, 1.0, 0.0], n), rng.uniform(-1, 1, n))
    y = np.where(rng.random(n) < 0.8, rng.choice([-3.0, 3.0], n), np.inf)
    g = rng.choice(["a", "b", "c", "undeclared"], n)
    return {"x": np.where(rng.random(n) < 0.05, np.nan, x), "g": g, "y": y}


def one_row_steps(case, target, steps, columns):
    """Each row's own contribution in whole steps, shape (rows, q)."""
    row_map = RowMap(case.plan.coding)
    n = len(columns["x"])
    return np.array(
        [
            sum_squared_scores(
                as_source({name: values[i : i + 1] for name, values in columns.items()}),
                row_map,
                case.plan.bits,
                target.forms,
                target.residual,
                target.clip,
                target.ranges,
                steps,
            )
            for i in range(n)
        ]
    )


@pytest.mark.parametrize("cov_type", ["HC0", "HC1"])
def test_without_noise_they_are_statsmodels(cov_type):
    columns = data()
    declared = {"bounds": {"y": (-3, 3), "x": (-1, 1)}, "levels": {"g": ["a", "b", "c"]}}
    ours = dps.dp_ols("y ~ x * C(g)", columns, epsilon=np.inf, cov_type=cov_type, **declared)
    theirs = smf.ols("y ~ x * C(g)", pd.DataFrame(columns)).fit(cov_type=cov_type)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)
    np.testing.assert_allclose(ours.cov_params(), theirs.cov_params(), rtol=1e-4, atol=1e-8)
    contrast = "x:C(g)[T.b] = x:C(g)[T.c]"
    assert ours.t_test(contrast).sd == pytest.approx(float(theirs.t_test(contrast).sd[0, 0]), rel=1e-4)
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=1e-3)
    assert ours.cov_type == cov_type
    assert cov_type in str(ours.summary())


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("formula", FORMULAS)
def test_one_row_moves_the_scores_within_the_stated_ranges(formula, budget, whole):
    case = planned(formula, data(), SCHEMA, **budget)
    target = target_for(case, whole=whole)
    steps = 2**20
    found = one_row_steps(case, target, steps, extreme_rows(np.random.default_rng(2), 150))
    assert found.min() >= 0
    assert found.max() <= steps
    unclipped = found.max(axis=0)
    assert (unclipped <= steps).all()
    weighted = found * (target.ranges / steps / target.weights)
    assert np.linalg.norm(weighted, axis=1).max() <= target.joint_size * (1 + 1e-5)


@pytest.mark.parametrize("whole", [True, False])
def test_the_range_of_one_row_is_attained(whole):
    case = planned("y ~ x", data(), SCHEMA, epsilon=1.0)
    target = target_for(case, whole=whole)
    found = one_row_steps(case, target, 2**20, extreme_rows(np.random.default_rng(3), 400))
    assert found.max() >= 0.95 * 2**20


def test_the_largest_product_is_that_of_a_row():
    case = planned("y ~ x * C(g)", data(), SCHEMA, epsilon=1.0)
    row_map = RowMap(case.plan.coding)
    columns = extreme_rows(np.random.default_rng(4), 2_000)
    rows, _ = lattice_rows(Partition(columns, 2_000), row_map, case.plan.bits)
    rng = np.random.default_rng(5)
    for _ in range(20):
        weights = rng.normal(size=rows.shape[1] - 1)
        largest = largest_products(np.abs(weights[None]), case.plan.coding.blocks)[0]
        found = np.abs(rows[:, :-1] @ weights).max() / 2.0**case.plan.bits
        assert 0.5 * largest <= found <= largest * (1 + 1e-9)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("cov_type", ["HC0", dps.HC1(share=0.3)], ids=str)
def test_both_releases_together_spend_the_budget(budget, cov_type):
    fit = dps.dp_ols(
        "y ~ x * C(g)",
        data(),
        bounds={"y": (-3, 3), "x": (-1, 1)},
        levels={"g": ["a", "b", "c"]},
        cov_type=cov_type,
        mechanism=dps.SSP(noise="laplace" if budget == {"epsilon": 1.0} else "gaussian"),
        **budget,
    )
    asked, spent = fit.privacy.budget, fit.privacy.spent
    for name in ("epsilon", "delta", "rho"):
        if getattr(asked, name) is not None:
            assert getattr(spent, name) == pytest.approx(getattr(asked, name), rel=1e-4)
            assert getattr(spent, name) <= getattr(asked, name)
    share = 0.1 if cov_type == "HC0" else 0.3
    first, second = ((part.epsilon or part.rho) for part in fit.privacy.parts.values())
    assert second / (first + second) == pytest.approx(share, rel=1e-4)


@pytest.mark.parametrize("budget", BUDGETS[:2], ids=str)
def test_the_noise_of_the_scores_has_the_stated_spread(budget):
    case = planned("y ~ x + C(g)", data(), SCHEMA, **budget)
    target = target_for(case)
    stage = ScoreStage(case.plan.law, case.plan.budget, 0.1, 4_000)
    size = len(target.ranges)
    draws = [release_scores(target, stage, lambda steps: np.zeros(size, np.int64), RealNoise()) for _ in range(800)]
    values = np.array([draw.scores for draw in draws])
    assert len(np.unique(values[:, 0])) == 800
    ratio = values.std(axis=0) / draws[0].sd
    assert (np.abs(ratio - 1) < 0.25).all()


def test_joint_laplace_noise_would_be_twice_as_large():
    """The cube's own norm against Laplace noise per coordinate, for eight coefficients."""
    from dpstats.release.knorm import max_norm_sd

    assert np.sqrt(2) * 8 / max_norm_sd(1.0, 1.0, 8) > 2


def test_a_factor_two_on_non_negative_terms_would_be_waste():
    """Pitfall 10, waste: the change of a sum of terms in [0, U] is at most U, not 2 U."""
    case = planned("y ~ x", data(), SCHEMA, epsilon=1.0)
    target = target_for(case)
    steps = 2**20
    found = one_row_steps(case, target, steps, extreme_rows(np.random.default_rng(6), 200))
    changes = np.abs(found[:, None] - found[None, :]).max()
    assert 0.95 * steps <= changes <= steps


def test_the_clip_of_the_range_is_the_clip_of_the_residual():
    """Pitfall 10, unsafe: ranges computed with a smaller clip than the residual's would be exceeded."""
    from dataclasses import replace

    case = planned("y ~ x", data(), SCHEMA, epsilon=1.0)
    target = target_for(case)
    loose = replace(target, clip=2 * target.clip)
    columns = extreme_rows(np.random.default_rng(7), 200)
    row_map = RowMap(case.plan.coding)
    rows, _ = lattice_rows(Partition(columns, 200), row_map, case.plan.bits)
    rows = rows / 2.0**case.plan.bits
    clipped = np.clip(rows @ loose.residual, -loose.clip, loose.clip) ** 2
    terms = (rows[:, :-1] @ loose.forms.matrix.T) ** 2 * clipped[:, None]
    assert (terms > 1.5 * target.ranges).any()
    assert one_row_steps(case, loose, 2**20, columns).max() <= 2**20, "the integer clip holds all the same"


def test_ratios_are_shrunk_and_not_below_their_noise():
    case = planned("y ~ x", data(), SCHEMA, epsilon=1.0)
    target = target_for(case, whole=False)
    model = target.model

    def ratios(released, sd):
        found = robust_sampling(target, released, sd, 1.0)
        assert found.covariance is None
        return found.ratios

    assert ratios(model, 0 * model) == pytest.approx(1.0)
    assert ratios(40 * model, 0 * model) == pytest.approx(40.0)
    assert ratios(0.01 * model, 0 * model) == pytest.approx(0.01)
    assert ratios(-model, 0.01 * model) == pytest.approx(0.02)
    assert ratios(-5 * model, 0.4 * model) == pytest.approx(0.2)
    assert ratios(3 * model, 1e9 * model) == pytest.approx(1.0, abs=1e-6)


def test_covariances_are_measured_where_their_noise_is_little():
    case = planned("y ~ x * C(g)", data(), SCHEMA, epsilon=1.0)
    m = case.space.n_params

    def measured(budget):
        stage = ScoreStage("laplace" if budget.rho is None else "gaussian", budget, 0.1, 4_000)
        return len(affordable(lambda whole: target_for(case, whole=whole), m, stage).forms)

    assert [measured(budget) for budget in (Budget(epsilon=1.0), Budget(rho=0.1))] == [m, m]
    for budget in (Budget(epsilon=1e4), Budget(rho=1e6), Budget(epsilon=np.inf)):
        assert measured(budget) == m * (m + 1) / 2
    assert measured(Budget(epsilon=1e12)) == m, "max-norm noise far below one step would never be drawn"


@pytest.mark.parametrize("noise", [0.0, 0.05, 10.0])
def test_a_measured_covariance_is_one_and_that_of_the_model_where_the_model_holds(noise):
    case = planned("y ~ x * C(g)", data(), SCHEMA, epsilon=1.0)
    fit = fit_least_squares(case.noisy(np.random.default_rng(1)), case.space)
    target, rng = target_for(case), np.random.default_rng(3)
    released = target.model + noise * rng.normal(size=len(target.model))
    robust = robust_sampling(target, released, np.full(len(released), noise), 1.0)
    found = with_robust_sampling(fit, case.space, robust).sampling
    inside = np.linalg.inv(np.linalg.cholesky(fit.sampling))
    ratios = np.linalg.eigvalsh(inside @ found @ inside.T)
    assert ratios.min() > 0.1
    np.testing.assert_allclose(ratios, 1.0, atol=1e-6 if noise == 0 else 0.5)


def test_rescaling_keeps_correlations_and_the_privacy_part():
    case = planned("y ~ x * C(g)", data(), SCHEMA, epsilon=1.0)
    fit = fit_least_squares(case.noisy(np.random.default_rng(8)), case.space)
    ratios = np.linspace(0.5, 2, case.space.n_params)
    robust = with_robust_sampling(fit, case.space, RobustSampling(ratios))
    back = np.linalg.inv(case.space.r)
    before, after = (back @ f.sampling @ back.T for f in (fit, robust))
    np.testing.assert_allclose(np.diag(after), ratios * np.diag(before), rtol=1e-9)
    np.testing.assert_allclose(robust.covariance - robust.sampling, fit.covariance - fit.sampling, atol=1e-12)


@pytest.mark.parametrize("wrong", ["HC3", None, 1, "robust"])
def test_an_unknown_covariance_is_refused(wrong):
    with pytest.raises(dps.OptionError, match="cov_type must be 'nonrobust', 'HC0', 'HC1'"):
        dps.dp_ols("y ~ x", data(), epsilon=1, bounds={"y": (-3, 3), "x": (-1, 1)}, cov_type=wrong)


@pytest.mark.parametrize("share", [0, 1, -0.1, 2])
def test_a_share_lies_between_nothing_and_all(share):
    with pytest.raises(dps.OptionError, match="share"):
        dps.HC0(share=share)


def test_robust_errors_see_heteroskedasticity():
    rng = np.random.default_rng(9)
    declared = {"bounds": {"y": (-3, 3), "x": (-1, 1)}}
    columns = data(50_000)
    plain, robust = (
        dps.dp_ols("y ~ x", columns, epsilon=5, rng=rng, cov_type=cov_type, **declared)
        for cov_type in ("nonrobust", "HC1")
    )
    truth = smf.ols("y ~ x", pd.DataFrame(columns)).fit(cov_type="HC1").bse["x"]
    assert robust.bse_sampling["x"] == pytest.approx(truth, rel=0.1)
    assert plain.bse_sampling["x"] < 0.85 * truth


def test_the_second_release_never_fails_after_the_first_is_paid_for():
    """Noise can leave a coefficient without a model variance; its scale overflowed then."""
    rng = np.random.default_rng(0)
    table = {"g": rng.choice(["a", "b", "c"], 50), "y": rng.uniform(-3, 3, 50)}
    for seed in range(60):
        fit = dps.dp_ols(
            "y ~ C(g)", table, epsilon=1, delta=1e-6, schema=dps.Schema(SCHEMA), cov_type=dps.HC1(share=0.9),
            infeasible="fit", rng=np.random.default_rng(seed),
        )  # fmt: skip
        assert np.isfinite(fit.bse_sampling).all()


@pytest.mark.parametrize("share", [1e-300, 1e-14])
def test_a_share_too_small_for_integers_is_refused_beforehand(share, monkeypatch):
    monkeypatch.setattr("dpstats.models.ols.release_moments", None)
    with pytest.raises(dps.BudgetError, match="share"):
        dps.dp_ols("y ~ x", data(), epsilon=1, schema=dps.Schema(SCHEMA), cov_type=dps.HC1(share=share))


def unequal_groups(n, rng):
    g = rng.integers(0, 3, n)
    y = np.clip(20 + np.array([0.5, 3.0, 3.0])[g] * rng.normal(size=n), 0, 40)
    return pd.DataFrame({"y": y, "g": np.array(list("abc"))[g]})


GROUPS = {"bounds": {"y": (0, 40)}, "levels": {"g": list("abc")}}


@pytest.mark.parametrize("mechanism", ["ssp", "huber"])
def test_intervals_of_contrasts_cover_where_errors_are_unequal(mechanism):
    """Found in review: with the correlations of the model far more of these intervals missed."""
    rng, missed = np.random.default_rng(4), 0
    for _ in range(200):
        fit = dps.dp_ols(
            "y ~ g", unequal_groups(30_000, rng), 20, cov_type="HC1", mechanism=mechanism, rng=rng, **GROUPS
        )
        low, high = fit.t_test("g[T.c] = g[T.b]").conf_int()[0]
        missed += not low <= 0 <= high
    assert missed <= 21, "with 5 % more are as likely as .0005"


def test_the_summary_says_which_covariances_are_robust():
    frame = unequal_groups(2_000, np.random.default_rng(5))
    for epsilon, kept in ((np.inf, False), (2.0, True)):
        fit = dps.dp_ols("y ~ g", frame, epsilon, cov_type="HC1", rng=np.random.default_rng(6), **GROUPS)
        assert fit.has_model_correlations is kept
        assert ("keep the correlations of the model" in " ".join(str(fit.summary()).split())) is kept


def test_a_variance_many_times_that_of_the_model_is_not_cut_off():
    rng = np.random.default_rng(7)
    rare = rng.random(4_000) < 0.05
    frame = pd.DataFrame({"y": 20 + np.where(rare, 6.0, 0.2) * rng.normal(size=4_000), "g": np.where(rare, "b", "a")})
    frame["y"] = frame["y"].clip(0, 40)
    declared = {"bounds": {"y": (0, 40)}, "levels": {"g": ["a", "b"]}}
    plain, robust = (dps.dp_ols("y ~ g", frame, np.inf, cov_type=kind, **declared) for kind in ("nonrobust", "HC0"))
    assert robust.bse["g[T.b]"] > 3 * plain.bse["g[T.b]"]
    assert robust.bse["Intercept"] < 0.3 * plain.bse["Intercept"]
    np.testing.assert_allclose(robust.bse, smf.ols("y ~ g", frame).fit(cov_type="HC0").bse, rtol=1e-5)


def test_predictions_do_not_depend_on_where_a_column_is_measured_from():
    """Found in review: in terms of raw coefficients their variances are small differences of large ones."""
    errors = []
    for origin in (0.0, 2_000.0, 1e6):
        rng = np.random.default_rng(3)
        u = rng.uniform(0, 1, 20_000)
        frame = pd.DataFrame({"x": origin + 24 * u, "y": np.clip(4 + u + rng.normal(0, 0.1 + 0.6 * u), 0, 10)})
        bounds = {"x": (origin, origin + 24), "y": (0, 10)}
        fit = dps.dp_ols("y ~ x", frame, 20, cov_type="HC1", bounds=bounds, rng=rng)
        assert not fit.has_model_correlations
        errors.append(fit.get_prediction({"x": [origin + 7.2]}).summary_frame()["mean_se"].iloc[0])
    exact = (
        smf.ols("y ~ I(x - 1e6)", frame).fit(cov_type="HC1").get_prediction(pd.DataFrame({"x": [1e6 + 7.2]})).se_mean[0]
    )
    np.testing.assert_allclose(errors, exact, rtol=0.05)
