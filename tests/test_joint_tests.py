"""Joint tests: equal to statsmodels without noise, to single tests for one hypothesis, uniform under the null."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from helpers import planned
from scipy import stats

import dpstats as dps
from dpstats.inference.diagnostics import kappa, word, word_for_signal
from dpstats.inference.estimates import fit_least_squares
from dpstats.inference.joint_test import score_test
from dpstats.inference.moment_test import contrasts
from dpstats.specification.schema import Continuous

FORMULA = "hours_per_week ~ age + education_num + C(sex) + C(race)"


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


@pytest.fixture(scope="module")
def exact(adult):
    return dps.dp_ols(FORMULA, adult.data, epsilon=np.inf, schema=adult.schema)


@pytest.fixture(scope="module")
def reference(adult):
    data = adult.data.assign(race=adult.data.race.astype("category").cat.set_categories(adult.schema["race"].levels))
    return smf.ols(FORMULA, data).fit()


@pytest.mark.parametrize(
    "constraints",
    ["age = 0", "age = 0, education_num = 0.5", ["age = 0.01", "age = education_num"], np.eye(8)[1:6]],
    ids=str,
)
def test_without_noise_the_tests_are_statsmodels(exact, reference, constraints):
    if isinstance(constraints, list):
        theirs = reference.wald_test(", ".join(constraints), use_f=False, scalar=True)
    else:
        theirs = reference.wald_test(constraints, use_f=False, scalar=True)
    ours = exact.wald_test(constraints)
    # the sampling variance is that of released moments with n - q in the denominator, as statsmodels'
    assert ours.statistic == pytest.approx(theirs.statistic, rel=2e-3)
    assert ours.df_denom == theirs.df_denom
    assert exact.f_test(constraints).fvalue == pytest.approx(ours.statistic / ours.df_num)


def test_terms_are_tested_under_statsmodels_names(exact, reference):
    ours, theirs = exact.wald_test_terms(), reference.wald_test_terms(scalar=True)
    assert list(ours.table.index) == list(theirs.table.index)
    assert list(ours.table["df_constraint"]) == list(theirs.table["df_constraint"])
    np.testing.assert_allclose(
        ours.table["statistic"], theirs.table["statistic"] * theirs.table["df_constraint"], rtol=2e-3
    )
    assert "chi2" in repr(ours)


def test_the_summary_has_a_line_for_all_slopes(exact):
    slopes = exact.slopes_test()
    text = str(exact.summary())
    assert f"{slopes.fvalue:.4g} (m = 7)" in text
    assert "Prob (chi2):" in text


def test_a_model_without_slopes_has_no_such_test(adult):
    alone = dps.dp_ols("hours_per_week ~ 1", adult.data, epsilon=np.inf, schema=adult.schema)
    assert alone.slopes_test() is None
    assert "Wald chi2 / m:" in str(alone.summary())


def test_dependent_constraints_are_refused(exact):
    with pytest.raises(dps.OptionError, match="linearly dependent"):
        exact.wald_test("age = 0, 2*age = 0")


def case_with(p=3, n=4_000, budget=None, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, p))
    columns = {f"x{j}": column for j, column in enumerate(x.T)}
    columns["y"] = np.clip(0.2 * x[:, 0] + rng.normal(0, 0.25, n), -1, 1)
    schema = {name: Continuous(-1, 1) for name in columns}
    return planned(f"y ~ {' + '.join(f'x{j}' for j in range(p))}", columns, schema, **(budget or {"rho": 0.05}))


@pytest.mark.parametrize("budget", [{"rho": 0.05}, {"epsilon": 1.0}], ids=str)
def test_one_hypothesis_gives_the_single_test_without_its_cap(budget):
    case = case_with(budget=budget)
    moments = case.noisy(np.random.default_rng(1))
    fit = fit_least_squares(moments, case.space)
    rows = np.array([[0.0, 1.0, -0.5, 0.0]])
    single = contrasts(moments, case.space, fit, rows)[0]
    for value in (0.0, 0.05, single.estimate + 0.01):
        t = value - single.estimate
        joint = score_test(moments, case.space, fit, rows, np.array([value]))
        assert joint.statistic == pytest.approx(t**2 / (single.q0 + single.q1 * t + single.q2 * t**2), rel=1e-6)
        if joint.pvalue > 0.01:
            assert joint.pvalue == pytest.approx(single.p_value(value), abs=0.02)


@pytest.mark.parametrize("budget", [{"rho": 0.05}, {"epsilon": 1.0}], ids=str)
def test_equivalent_hypotheses_give_one_answer(budget):
    case = case_with(budget=budget)
    moments = case.noisy(np.random.default_rng(2))
    fit = fit_least_squares(moments, case.space)
    rows, values = np.eye(4)[1:3], np.array([0.1, -0.1])
    mix = np.array([[2.0, 1.0], [-1.0, 3.0]])
    first = score_test(moments, case.space, fit, rows, values)
    second = score_test(moments, case.space, fit, mix @ rows, mix @ values)
    assert first.statistic == pytest.approx(second.statistic, rel=1e-8)
    assert first.pvalue == pytest.approx(second.pvalue, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{"rho": 0.05}, {"epsilon": 1.5}], ids=str)
def test_p_values_are_uniform_under_the_null(budget):
    rng = np.random.default_rng(3)
    case = case_with(budget=budget)
    assert kappa(case.noisy(rng), case.space) < 0.3
    values, rows = [], np.eye(4)[1:3]
    truth = np.array([0.2, 0.0])
    for seed in range(300):
        drawn = replace(case, data=case_with(seed=1_000 + seed).data)
        moments = drawn.noisy(rng)
        fit = fit_least_squares(moments, case.space)
        values.append(score_test(moments, case.space, fit, rows, truth).pvalue)
    assert stats.kstest(values, "uniform").pvalue > 1e-3
    assert 0.02 < np.mean(np.array(values) < 0.05) < 0.09


def test_a_weak_moment_matrix_is_said_in_the_test(adult):
    data, schema = adult
    fit = dps.dp_ols(FORMULA, data.head(300), epsilon=1, schema=schema, infeasible="fit", rng=np.random.default_rng(4))
    found = fit.wald_test("age = 0, education_num = 0")
    assert found.weak
    assert "approximate" in repr(found)


def test_kappa_falls_with_n_and_is_zero_without_noise():
    found = [kappa(case_with(n=n).exact_with_noise(), case_with(n=n).space) for n in (1_000, 4_000, 16_000)]
    assert found[0] > 3 * found[1] > 9 * found[2] > 0
    case = case_with()
    assert kappa(case.exact(), case.space) == 0


def test_kappa_is_two_root_p_times_noise_over_signal():
    case = case_with(p=3, n=4_000)
    moments = case.exact_with_noise()
    z, _ = case.coded()
    x = z[:, 1:-1] - z[:, 1:-1].mean(axis=0)
    smallest = np.linalg.eigvalsh(x.T @ x)[0]
    off_diagonal = np.sqrt(moments.variances[moments.index[1, 2]])
    assert kappa(moments, case.space) == pytest.approx(2 * np.sqrt(3) * off_diagonal / smallest, rel=0.15)


def test_words():
    assert [word(k) for k in (0.0, 0.2, 0.21, 0.5, 0.51, np.inf)] == [
        "good",
        "good",
        "usable",
        "usable",
        "weak",
        "weak",
    ]
    assert [word_for_signal(s) for s in (7.9, 8.0, 20.0, np.inf)] == ["weak", "usable", "good", "good"]


def test_the_slopes_test_leaves_out_a_constant_that_columns_add_up_to():
    """As statsmodels' fvalue does for ``0 + C(g)``."""
    adult, schema = dps.datasets.load_adult()
    ours = dps.dp_ols("hours_per_week ~ 0 + C(race)", adult, epsilon=float("inf"), schema=schema).slopes_test()
    theirs = smf.ols("hours_per_week ~ 0 + C(race)", adult).fit()
    assert ours.df_num == theirs.df_model
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=1e-3)


def test_reprs_say_what_is_a_bound_and_which_test_it_is():
    adult, schema = dps.datasets.load_adult()
    fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=5, schema=schema)
    strong = fit.wald_test("age = 0, C(sex)[T.Male] = 0")
    assert strong.is_floor
    assert "p-value<=0.0001" in repr(strong)
    assert "Wald test (F): F=" in repr(fit.f_test("age = 0"))
    terms = fit.wald_test_terms()
    assert terms.floored == ("Intercept", "C(sex)", "age")
    assert repr(terms).count("<=0.0001") == 3
    weak = fit.wald_test([[0.0, 0.0, 1.0]])
    null = fit.wald_test(([[0.0, 0.0, 1.0]], [float(fit.params["age"])]))
    assert not null.is_floor
    assert "p-value=" in repr(null)
    assert weak.statistic > null.statistic


@pytest.mark.parametrize("right_hand_side", ["0 + C(k) * C(h) + C(g)", "0 + cr(x, df=4)", "0 + C(g):cr(x, df=4)"])
def test_slopes_of_a_model_whose_columns_add_up_to_1_are_those_about_the_constant(right_hand_side):
    rng = np.random.default_rng(0)
    levels = {"g": list("abc"), "h": list("uv"), "k": list("pqr")}
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 2000), **{name: rng.choice(c, 2000) for name, c in levels.items()}})
    frame["y"] = 30 + rng.normal(0, 3, 2000)
    ours, noisy = (
        dps.dp_ols(f"y ~ {right_hand_side}", frame, budget, bounds={"x": (0, 1), "y": (0, 60)}, levels=levels, rng=rng)
        for budget in (np.inf, 100.0)
    )
    theirs = smf.ols(f"y ~ {right_hand_side}", frame).fit()
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=0.02)  # knots of splines are not those of the data
    assert ours.slopes_test().df_denom == theirs.df_model
    assert noisy.kappa < 0.5


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_an_empty_level_leaves_the_others_tests_as_statsmodels_has_them(cov_type):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.uniform(0, 1, 300), "g": rng.choice(list("abc"), 300)})
    frame["y"] = 5 + frame["x"] + (frame["g"] == "b") + rng.normal(0, 1, 300)
    declared = {"bounds": {"x": (0, 1), "y": (-10, 20)}, "levels": {"g": ["a", "b", "c", "never"]}}
    ours = dps.dp_ols("y ~ x + g", frame, np.inf, cov_type=cov_type, **declared)
    theirs = smf.ols("y ~ x + g", frame).fit(cov_type=cov_type)
    identified = list(theirs.params.index)
    np.testing.assert_allclose(ours.bse[identified], theirs.bse, rtol=1e-5)
    found = ours.wald_test_terms().table.loc["g"]
    expected = theirs.wald_test_terms(scalar=True).table.loc["g"]
    assert found["df_constraint"] == expected["df_constraint"] == 2
    assert found["statistic"] / 2 == pytest.approx(expected["statistic"] / (2 if cov_type == "HC1" else 1), rel=1e-4)
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=1e-4)
    assert (ours.df_resid, ours.df_model) == (theirs.df_resid, theirs.df_model)
    assert np.isinf(ours.conf_int().loc["g[T.never]"]).all()


def test_a_column_named_intercept_is_no_intercept():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"Intercept": rng.uniform(0, 1, 500), "x": rng.uniform(0, 1, 500)})
    frame["y"] = 3 + frame["x"] + rng.normal(0, 1, 500)
    bounds = {"Intercept": (0, 1), "x": (0, 1), "y": (-10, 20)}
    ours = dps.dp_ols("y ~ 0 + Intercept + x", frame, np.inf, bounds=bounds)
    theirs = smf.ols("y ~ 0 + Intercept + x", frame).fit()
    assert ours.k_constant == theirs.k_constant == 0
    assert ours.rsquared == pytest.approx(theirs.rsquared, rel=1e-5)
    assert ours.fvalue == pytest.approx(theirs.fvalue, rel=1e-4)
