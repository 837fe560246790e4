"""What a call says of rows: weights and offset as in statsmodels, and columns that are declared complete."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dps

INF = math.inf
BOUNDS = {"x": (0, 1), "y": (-3, 5), "w": (0, 4), "o": (-1, 1)}
LEVELS = {"g": ["a", "b", "c"], "h": ["u", "v"]}
DECLARED = {"bounds": BOUNDS, "levels": LEVELS}


def make(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(0, 1, n),
            "g": rng.choice(["a", "b", "c"], n),
            "h": rng.choice(["u", "v"], n),
            "w": rng.uniform(0.2, 3, n),
            "o": rng.uniform(-1, 1, n),
        }
    )
    noise = rng.normal(0, 0.3, n) / np.sqrt(frame["w"])
    return frame.assign(y=frame["x"] + (frame["g"] == "b") + frame["o"] + noise)


@pytest.fixture(scope="module")
def frame():
    return make()


# Weights -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "formula", ["y ~ x", "y ~ 0 + x", "y ~ 1", "y ~ x + C(g)", "y ~ x * C(g) + C(h)", "y ~ C(g):x"]
)
def test_without_noise_weighted_least_squares_is_that_of_statsmodels(frame, formula):
    ours = dps.dp_ols(formula, frame, INF, **DECLARED, weights="w")
    theirs = smf.wls(formula, frame, weights=frame["w"]).fit()
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-5)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)
    assert ours.scale == pytest.approx(theirs.scale, rel=1e-5)
    assert ours.rsquared == pytest.approx(theirs.rsquared, abs=1e-5)
    assert ours.rsquared_adj == pytest.approx(theirs.rsquared_adj, abs=1e-5)
    assert ours.nobs == theirs.nobs == 4000
    assert ours.df_resid == theirs.df_resid


@pytest.mark.parametrize("kind", ["HC0", "HC1"])
def test_robust_errors_of_weighted_rows_are_those_of_statsmodels(frame, kind):
    ours = dps.dp_ols("y ~ x + C(g)", frame, INF, **DECLARED, weights="w", cov_type=kind)
    theirs = smf.wls("y ~ x + C(g)", frame, weights=frame["w"]).fit(cov_type=kind)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-3)


def test_a_weight_of_zero_or_missing_leaves_the_row_out_of_the_sums(frame):
    changed = frame.copy()
    changed.loc[:99, "w"] = 0.0
    changed.loc[100:199, "w"] = np.nan
    ours = dps.dp_ols("y ~ x", changed, INF, **DECLARED, weights="w")
    kept = changed.iloc[200:]
    theirs = smf.wls("y ~ x", kept, weights=kept["w"]).fit()
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-5)
    assert ours.nobs == 3900, "rows of weight 0 are complete, as in statsmodels; rows of unknown weight are not"


@pytest.mark.parametrize("budget", [{"epsilon": 3}, {"rho": 0.5}], ids=str)
def test_weighted_intervals_cover(budget):
    rng = np.random.default_rng(7)
    frame, hits, counts = make(8000, 1), 0, []
    runs = 150
    for seed in range(runs):
        again = frame.assign(
            y=frame["x"] + (frame["g"] == "b") + np.random.default_rng(seed).normal(0, 0.3, 8000) / np.sqrt(frame["w"])
        )
        fit = dps.dp_ols("y ~ x + C(g)", again, **budget, **DECLARED, weights="w", rng=rng)
        low, high = fit.conf_int().loc["x"]
        hits += low <= 1 <= high
        counts.append((fit.nobs - 8000) / fit.nobs_sd)
    assert 0.90 <= hits / runs <= 0.99
    assert abs(np.mean(counts)) < 0.35
    assert 0.8 < np.std(counts) < 1.25


def test_a_weighted_summary_says_so_and_a_release_keeps_the_weights(frame, tmp_path):
    release = dps.dp_moments("y ~ x + C(g)", frame, 2, **DECLARED, weights="w", offset="o")
    fit = release.fit("y ~ x")
    text = " ".join(str(fit.summary()).split())
    assert "DP WLS Regression Results" in text
    assert "Weighted by w, clipped to (0, 4)." in text
    assert "Offset: o, taken from the outcome before the fit." in text
    release.save(tmp_path / "r.json")
    again = dps.load_release(tmp_path / "r.json")
    pd.testing.assert_series_equal(again.fit("y ~ x").params, fit.params)
    assert str(again.fit("y ~ x").summary()).splitlines()[8:] == str(fit.summary()).splitlines()[8:]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": "nothing"}, "'nothing' is not a column of data"),
        ({"weights": "g"}, "weights need bounds from 0 on"),
        ({"weights": "o"}, "weights need bounds from 0 on"),
        ({"weights": 3}, "weights must be the name of a column"),
        ({"weights": "w", "mechanism": "functional"}, "weights= needs mechanism='ssp'"),
        ({"offset": 3}, "offset must be a column or an expression"),
        ({"offset": "g"}, "is no number"),
        ({"offset": "x"}, "offset's column 'x' also stands on the right"),
        ({"offset": "np.log(o)"}, "unbounded on the declared range"),
        ({"offset": "open('f')"}, "open"),
        ({"offset": "nothing"}, "'nothing' is not a column of data"),
        ({"missing": "ignore"}, "missing must be 'drop' or 'none'"),
        ({"missing": None}, "missing must be 'drop' or 'none'"),
    ],
)
def test_wrong_arguments_name_themselves_and_the_cure(frame, arguments, message):
    with pytest.raises(dps.DPStatsError, match=message.replace("(", r"\(").replace(")", r"\)")):
        dps.dp_ols("y ~ x", frame, 1.0, **DECLARED, **arguments)


def test_undeclared_weights_ask_for_bounds(frame):
    with pytest.raises(dps.SchemaError, match=r"bounds=\{'w': "):
        dps.dp_ols("y ~ x", frame, 1.0, bounds={"x": (0, 1), "y": (-3, 5)}, weights="w")


# Offset --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", ["o", "np.exp(o)", "2 * o + 1"])
@pytest.mark.parametrize("mechanism", ["ssp", "functional"])
def test_an_offset_is_taken_from_the_outcome_and_given_back(frame, offset, mechanism):
    ours = dps.dp_ols("y ~ x + C(g)", frame, INF, **DECLARED, offset=offset, mechanism=mechanism)
    known = eval(offset, {"np": np}, {"o": frame["o"]})  # noqa: S307
    theirs = smf.ols("z ~ x + C(g)", frame.assign(z=frame["y"] - known)).fit()
    np.testing.assert_allclose(ours.params, theirs.params, atol=1e-4)
    assert ours.model.endog_names == "y"
    new = frame.head(5)
    np.testing.assert_allclose(ours.predict(new), theirs.predict(new) + known.head(5), atol=1e-4)
    with pytest.raises(dps.DataError, match="'o' is missing"):
        ours.predict(new[["x", "g"]])


def test_a_missing_offset_makes_the_row_incomplete(frame):
    changed = frame.assign(o=frame["o"].where(frame.index >= 50))
    assert dps.dp_ols("y ~ x", changed, INF, **DECLARED, offset="o").nobs == 3950


# Columns that are declared complete ----------------------------------------------------------------------------------


def test_a_missing_entry_becomes_the_middle_or_the_first_level(frame):
    changed = frame.copy()
    changed.loc[:9, "x"] = np.nan
    changed.loc[5:15, "g"] = None
    changed.loc[20:25, "g"] = "elsewhere"
    changed.loc[30:33, "y"] = np.nan
    filled = changed.assign(x=changed["x"].fillna(0.5), y=changed["y"].fillna(1.0))
    filled["g"] = filled["g"].where(filled["g"].isin(LEVELS["g"]), "a")
    for weights in (None, "w"):
        ours = dps.dp_ols("y ~ x + C(g)", changed, INF, **DECLARED, missing="none", weights=weights)
        known = filled["w"] if weights else np.ones(len(filled))
        theirs = smf.wls("y ~ x + C(g)", filled, weights=known).fit()
        np.testing.assert_allclose(ours.params, theirs.params, atol=1e-5)
        np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-4)
        assert ours.nobs == 4000


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + C(g)", "y ~ 0 + x", "y ~ C(g) * x + C(h)"])
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.1}], ids=str)
def test_the_number_of_rows_is_then_public_and_exact(frame, formula, budget):
    fit = dps.dp_ols(formula, frame, **budget, **DECLARED, missing="none", infeasible="fit")
    assert fit.nobs == 4000
    assert fit.nobs_sd == 0
    text = " ".join(str(fit.summary()).split())
    assert "Missing: none (declared)" in text
    assert "No. Observations: 4000 Privacy" in text
    assert "complete cases" not in text
    assert "a missing number was read as the middle of its range" in text


def test_a_private_length_stays_private_when_nothing_is_missing(frame):
    fit = dps.dp_ols("y ~ x", frame, 1, **DECLARED, missing="none", neighboring_relation="add_or_remove_one")
    assert fit.nobs_sd > 0


def test_intervals_cover_when_the_count_is_public():
    rng = np.random.default_rng(3)
    frame, hits, runs = make(6000, 2), 0, 150
    for seed in range(runs):
        y = frame["x"] + (frame["g"] == "b") + np.random.default_rng(seed).normal(0, 0.3, 6000)
        fit = dps.dp_ols("y ~ x + C(g)", frame.assign(y=y), 1, **DECLARED, missing="none", rng=rng)
        low, high = fit.conf_int().loc["C(g)[T.b]"]
        hits += low <= 1 <= high
    assert 0.90 <= hits / runs <= 0.99


@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm])
def test_a_classifier_reads_missing_entries_the_same_way(frame, model):
    data = frame.assign(out=np.where(frame["y"] > 1, "yes", "no"))
    data.loc[:39, "x"] = np.nan
    data.loc[20:59, "out"] = None
    filled = data.assign(x=data["x"].fillna(0.5), out=data["out"].fillna("no"))
    levels = {"out": ["no", "yes"]}
    one = model("out ~ x", data, INF, bounds={"x": (0, 1)}, levels=levels, missing="none")
    two = model("out ~ x", filled, INF, bounds={"x": (0, 1)}, levels=levels)
    three = model("out ~ x", data, INF, bounds={"x": (0, 1)}, levels=levels)
    np.testing.assert_allclose(one.params, two.params, rtol=1e-4)
    assert np.abs(one.params - three.params).max() > 1e-3
    assert "none (declared)" in str(one.summary())
