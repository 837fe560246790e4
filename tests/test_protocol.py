"""One script of calls on a statsmodels fit and on ours without noise: every outcome agrees, or why it is not released.

Ours has normal quantiles throughout, so statsmodels is asked for them too (``use_t=False``).
"""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from statsmodels.iolib.summary2 import summary_col
from statsmodels.stats.anova import anova_lm

import dpstats as dps

FORMULA = "hours_per_week ~ age * C(sex) + C(race) + education_num"
BINARY = "income_gt50k ~ age + C(sex) + education_num"


@dataclass(frozen=True)
class Pair:
    """A fit of statsmodels and ours of the same rows, and some rows to predict."""

    theirs: Any
    ours: Any
    new: pd.DataFrame


def coded(adult):
    race = pd.Categorical(adult.data["race"], adult.schema["race"].levels)
    return adult.data.assign(race=race, income_gt50k=adult.data["income_gt50k"].astype(int))


@pytest.fixture(scope="module")
def linear():
    adult = dps.datasets.load_adult()
    data = coded(adult)
    theirs = smf.ols(FORMULA, data).fit(use_t=False)
    return Pair(theirs, dps.dp_ols(FORMULA, adult.data, math.inf, schema=adult.schema), data.head(6))


@pytest.fixture(scope="module")
def logistic():
    adult = dps.datasets.load_adult()
    data = coded(adult)
    theirs = smf.logit(BINARY, data).fit(disp=0)
    return Pair(theirs, dps.dp_logit(BINARY, adult.data, math.inf, schema=adult.schema), data.head(6))


def same(ours, theirs, rtol=2e-4, atol=2e-5):
    """Compare numbers, arrays, Series and tables; labels too where both have them."""
    if isinstance(theirs, pd.DataFrame | pd.Series):
        assert list(ours.index) == list(theirs.index)
        if isinstance(theirs, pd.DataFrame):
            assert list(ours.columns) == list(theirs.columns)
    np.testing.assert_allclose(
        np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float), rtol=rtol, atol=atol, equal_nan=True
    )


Q = 9  # coefficients
BOTH = {
    "params": lambda f: f.params,
    "bse": lambda f: f.bse,
    "tvalues": lambda f: f.tvalues,
    "pvalues": lambda f: f.pvalues,
    "conf_int()": lambda f: f.conf_int(),
    "conf_int(0.1)": lambda f: f.conf_int(0.1),
    "conf_int(alpha=0.01)": lambda f: f.conf_int(alpha=0.01),
    "cov_params()": lambda f: f.cov_params(),
    "nobs": lambda f: f.nobs,
    "df_model": lambda f: f.df_model,
    "df_resid": lambda f: f.df_resid,
    "t_test(text)": lambda f: f.t_test("age = 0.1").effect,
    "t_test(text).sd": lambda f: np.ravel(f.t_test("age = education_num").sd),
    "t_test(several)": lambda f: f.t_test("age = 0, education_num = 0.5").effect,
    "t_test(p-value)": lambda f: np.ravel(f.t_test("age - education_num = 0").pvalue),
    "t_test(level)": lambda f: f.t_test("C(sex)[T.Male] = 1").conf_int(),
    "t_test(array)": lambda f: f.t_test(np.eye(len(f.params))[1:3]).summary_frame(),
    "t_test(tuple)": lambda f: np.ravel(f.t_test((np.eye(len(f.params))[1:3], np.array([0.1, 0.2]))).tvalue),
    "wald_test": lambda f: f.wald_test("age = 0, education_num = 0", scalar=True, use_f=False).statistic,
    "wald_test(p-value)": lambda f: f.wald_test("age = 0.17, education_num = 0.4", scalar=True, use_f=False).pvalue,
    "f_test": lambda f: f.f_test("age = 0, education_num = 0").fvalue,
    "predict(frame)": lambda f: f.predict,
    "pickle": lambda f: pickle.loads(pickle.dumps(f)).params,
    "copy": lambda f: copy.copy(f).params,
    "deepcopy": lambda f: copy.deepcopy(f).conf_int(),
    "model.endog_names": lambda f: f.model.endog_names,
    "model.exog_names": lambda f: list(f.model.exog_names),
    "model.formula": lambda f: f.model.formula,
}
LINEAR = {
    "rsquared": lambda f: f.rsquared,
    "rsquared_adj": lambda f: f.rsquared_adj,
    "fvalue": lambda f: f.fvalue,
    "f_pvalue": lambda f: f.f_pvalue,
    "scale": lambda f: f.scale,
    "t_test(interaction)": lambda f: f.t_test("age:C(sex)[T.Male] = 0").summary_frame(),
    "wald_test_terms": lambda f: f.wald_test_terms(scalar=True).summary_frame(),
    "wald_test_terms(skip_single)": lambda f: f.wald_test_terms(skip_single=True, scalar=True).summary_frame(),
    "t_test_pairwise": lambda f: f.t_test_pairwise("C(race)").result_frame.drop(columns="reject-hs"),
    "t_test_pairwise(methods)": lambda f: f.t_test_pairwise(
        "C(sex)", method=["holm", "bonferroni"], alpha=0.1
    ).result_frame[["coef", "std err", "pvalue-holm", "pvalue-bonferroni"]],
    "t_test_pairwise(reject)": lambda f: f.t_test_pairwise("C(race)").result_frame["reject-hs"],
}


@pytest.mark.parametrize("call", [c for c in BOTH if c != "predict(frame)"])
def test_calls_on_a_linear_model_agree(linear, call):
    ours, theirs = BOTH[call](linear.ours), BOTH[call](linear.theirs)
    if isinstance(theirs, str | list):
        assert ours == theirs
    else:
        same(ours, theirs, rtol=1e-3)


@pytest.mark.parametrize("call", LINEAR)
def test_calls_that_only_a_linear_model_has_agree(linear, call):
    same(LINEAR[call](linear.ours), LINEAR[call](linear.theirs), rtol=2e-3)


@pytest.mark.parametrize("call", [c for c in BOTH if c != "predict(frame)"])
def test_calls_on_a_logit_agree(logistic, call):
    ours, theirs = BOTH[call](logistic.ours), BOTH[call](logistic.theirs)
    if isinstance(theirs, str | list):
        assert ours == theirs
    else:
        same(ours, theirs, rtol=2e-3, atol=1e-4)


# Prediction -----------------------------------------------------------------------------------------------------------


def test_predictions_and_their_intervals_agree(linear, logistic):
    frame = linear.ours.get_prediction(linear.new).summary_frame(alpha=0.1)
    same(frame, linear.theirs.get_prediction(linear.new).summary_frame(alpha=0.1), rtol=1e-3)
    same(linear.ours.predict(linear.new), linear.theirs.predict(linear.new))
    found, reference = (pair.get_prediction(linear.new) for pair in (linear.ours, linear.theirs))
    same(found.predicted_mean, reference.predicted_mean)
    same(found.se_mean, reference.se_mean, rtol=1e-3)
    same(found.se_obs, reference.se_obs, rtol=1e-3)
    same(found.conf_int(obs=True), reference.conf_int(obs=True), rtol=1e-3)
    same(found.conf_int(), reference.conf_int(), rtol=1e-3)
    same(logistic.ours.predict(logistic.new), logistic.theirs.predict(logistic.new), rtol=2e-3)
    ours, theirs = (fit.get_prediction(logistic.new).summary_frame() for fit in (logistic.ours, logistic.theirs))
    same(ours[["predicted", "se"]], theirs[["predicted", "se"]], rtol=1e-2)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict", "records"])
def test_new_rows_come_in_any_table(linear, kind):
    rows = linear.new[["age", "sex", "race", "education_num"]].astype({"race": str})
    tables = {
        "pandas": rows,
        "polars": pl.from_pandas(rows),
        "pyarrow": pa.Table.from_pandas(rows),
        "dict": rows.to_dict(orient="list"),
        "records": rows.iloc[0],
    }
    found = linear.ours.predict(tables[kind])
    expected = linear.ours.predict(rows)
    np.testing.assert_allclose(found, expected.iloc[: len(found)])
    assert len(found) == (1 if kind == "records" else 6)


def test_new_rows_are_refused_by_column_and_unknown_levels_have_no_prediction(linear):
    with pytest.raises(dps.DataError, match="column 'race' is missing in the new data; predict needs age, sex, race"):
        linear.ours.get_prediction(linear.new.drop(columns="race"))
    odd = linear.new.astype({"race": object}).assign(race="Martian")
    assert linear.ours.predict(odd).isna().all()
    assert linear.ours.get_prediction(odd).summary_frame().drop(columns=["obs_ci_lower"]).isna().all().all()
    with pytest.raises(dps.NotReleasedError, match="new rows"):
        linear.ours.get_prediction()
    with pytest.raises(dps.DataError, match="polars"):
        linear.ours.predict(3)


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.05}], ids=str)
def test_private_predictions_have_intervals_that_hold_the_privacy_noise(budget):
    adult, schema = dps.datasets.load_adult()
    fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, **budget, schema=schema)
    new = {"age": [25, 60], "sex": ["Male", "Female"]}
    frame = fit.get_prediction(new).summary_frame()
    exact = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, math.inf, schema=schema).get_prediction(new)
    assert (frame["mean_se"] > exact.se_mean).all()
    for low, high in (("mean_ci_lower", "mean_ci_upper"), ("obs_ci_lower", "obs_ci_upper")):
        assert (frame[low] < frame["mean"]).all()
        assert (frame["mean"] < frame[high]).all()
    assert (frame["obs_ci_upper"] - frame["obs_ci_lower"] > frame["mean_ci_upper"] - frame["mean_ci_lower"]).all()
    contrast = fit.t_test(np.array([[1.0, 1.0, 25.0]]))
    np.testing.assert_allclose(frame.loc[0, ["mean_ci_lower", "mean_ci_upper"]].astype(float), contrast.conf_int()[0])


def test_intervals_for_new_observations_cover():
    rng = np.random.default_rng(1)
    n, hits, runs = 4000, 0, 60
    for _ in range(runs):
        x = rng.uniform(0, 1, n + 200)
        y = 1 + x + rng.normal(0, 0.3, n + 200)
        fit = dps.dp_ols("y ~ x", {"x": x[:n], "y": y[:n]}, 1, bounds={"x": (0, 1), "y": (-1, 4)}, rng=rng)
        low, high = fit.get_prediction({"x": x[n:]}).conf_int(obs=True).T
        hits += ((low <= y[n:]) & (y[n:] <= high)).mean()
    assert 0.93 <= hits / runs <= 0.98


# Terms, pairs, tables -------------------------------------------------------------------------------------------------


def test_the_table_of_terms_is_that_of_anova_without_sums_of_squares(linear):
    ours, theirs = linear.ours.anova(), anova_lm(linear.theirs, typ=3)
    assert list(ours.index) == list(theirs.index)
    assert list(ours.columns) == [c for c in theirs.columns if c != "sum_sq"]
    same(ours[["df", "F"]], theirs[["df", "F"]], rtol=2e-3)
    same(ours["PR(>F)"], theirs["PR(>F)"], rtol=5e-2, atol=1e-3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"term_name": "age"}, r"term_name must be a factor's term by itself \(here 'C\(sex\)', 'C\(race\)'\)"),
        ({"term_name": "age:C(sex)"}, "term_name must be"),
        ({"term_name": "C(sex)", "method": "magic"}, "method must be a correction"),
        ({"term_name": "C(sex)", "alpha": 2}, "alpha must lie between"),
        ({"term_name": "C(sex)", "factor_labels": ["one"]}, "factor_labels must be a list that names the 2 levels"),
    ],
)
def test_pairs_of_levels_are_asked_for_properly(linear, arguments, message):
    with pytest.raises(dps.OptionError, match=message):
        linear.ours.t_test_pairwise(**arguments)


def test_pairs_of_levels_do_not_depend_on_their_coding():
    adult, schema = dps.datasets.load_adult()
    frames = [
        dps.dp_ols(f"hours_per_week ~ age + {term}", adult, math.inf, schema=schema).t_test_pairwise(term).result_frame
        for term in ("C(race)", "C(race, Sum)", "C(race, Helmert)", "C(race, Treatment('Black'))")
    ]
    for frame in frames[1:]:
        pd.testing.assert_frame_equal(frame, frames[0], rtol=1e-3, atol=1e-4)
    private = dps.dp_ols("hours_per_week ~ C(sex)", adult, 1, schema=schema)
    pairs = private.t_test_pairwise("C(sex)", factor_labels=["f", "m"])
    assert list(pairs.result_frame.index) == ["m-f"]
    assert pairs.result_frame["coef"].iloc[0] == pytest.approx(private.params["C(sex)[T.Male]"])
    assert "NOT PRIVATE" not in repr(pairs)
    exact = dps.dp_ols("hours_per_week ~ C(sex)", adult, math.inf, schema=schema)
    assert "NOT PRIVATE" in repr(exact.t_test_pairwise("C(sex)"))


def test_summaries_take_the_options_of_statsmodels(linear):
    names = [f"b{i}" for i in range(Q)]
    text = str(linear.ours.summary(yname="hours", xname=names, title="A title", alpha=0.1))
    reference = str(linear.theirs.summary(yname="hours", xname=names, title="A title", alpha=0.1))
    for part in ("A title", "hours", "b0", "b8", "[0.05", "0.95]"):
        assert part in text
        assert part in reference
    assert "NOT PRIVATE" in text.splitlines()[0], "a title of one's own does not hide what is not private"
    slim, full = (str(linear.ours.summary(slim=slim)) for slim in (True, False))
    assert len(slim.splitlines()) < len(full.splitlines()) - 6
    for part in ("NOT PRIVATE", "Privacy unit", "Estimand", "C(sex)[T.Male]"):
        assert part in slim
    assert str(linear.ours.summary2(alpha=0.1)) == str(linear.ours.summary(alpha=0.1))
    for arguments, message in (
        ({"xname": ["a"]}, "xname must be a list of 9 texts"),
        ({"xname": "a"}, "xname must be a list of 9 texts"),
        ({"yname": 3}, "yname must be a text"),
        ({"title": 3}, "title must be a text"),
        ({"alpha": 0}, "alpha must lie"),
    ):
        with pytest.raises(dps.OptionError, match=message):
            linear.ours.summary(**arguments)


def test_a_summary_renders_in_notebooks_html_and_latex(linear):
    for options in ({}, {"slim": True}):
        summary = linear.ours.summary(**options)
        assert "<table" in summary._repr_html_()
        assert r"\begin{tabular}" in summary.as_latex()
        assert "age:C(sex)[T.Male]" in summary.as_csv()


def test_side_by_side_tables_of_statsmodels_take_both(linear):
    table = str(summary_col([linear.theirs, linear.ours], regressor_order=["age", "education_num"]))
    lines = [line.split() for line in table.splitlines() if line.startswith("age ")]
    assert lines[0][1] == lines[0][2]


# Saving ---------------------------------------------------------------------------------------------------------------


def test_results_are_saved_and_loaded(linear, tmp_path):
    path = tmp_path / "fit.pickle"
    linear.ours.save(path, remove_data=True)
    again = dps.DPResults.load(path)
    same(again.conf_int(), linear.ours.conf_int(), rtol=0, atol=0)
    assert linear.ours.remove_data() is None
    with pytest.raises(dps.DataError, match="does not hold a DPLogitResults"):
        dps.DPLogitResults.load(path)


# What is not released -------------------------------------------------------------------------------------------------

NOT_RELEASED = {
    "linear": (
        *("resid", "fittedvalues", "llf", "aic", "bic", "ssr", "ess", "centered_tss", "condition_number"),
        *("eigenvals", "get_influence", "outlier_test", "normalized_cov_params", "resid_pearson", "wresid"),
    ),
    "logistic": (
        *("llf", "llnull", "llr", "prsquared", "aic", "bic", "resid_dev", "resid_response", "pred_table"),
        *("get_margeff", "mle_retvals", "fittedvalues", "resid_pearson"),
    ),
}


@pytest.mark.parametrize("kind", NOT_RELEASED)
def test_what_statsmodels_has_and_we_do_not_release_is_explained(request, kind):
    pair = request.getfixturevalue(kind)
    for name in NOT_RELEASED[kind]:
        assert hasattr(pair.theirs, name), "statsmodels has it"
        assert not hasattr(pair.ours, name)
        with pytest.raises(dps.NotReleasedError, match=name):
            getattr(pair.ours, name)
