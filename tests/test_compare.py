"""A private fit beside statsmodels' on the same rows: equal without noise, marked in every rendering, never stored."""

from __future__ import annotations

import ast
import copy
import gc
import math
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dps
from dpstats.models.comparison import interval_overlap

BOUNDS = {"x": (0, 10), "z": (-2, 2), "y": (-5, 30), "wage": (1, 200)}
LEVELS = {"g": ["a", "b", "c"], "won": ["no", "yes"]}


def dirty(n=3_000, seed=0):
    """Rows with missing entries, undeclared levels, unreadable cells and values beyond the bounds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"x": rng.uniform(-1, 12, n), "z": rng.normal(size=n), "g": rng.choice(["a", "b", "c", "?"], n)}
    )
    eta = 0.5 * frame["x"] - frame["z"] + 2 * (frame["g"] == "b")
    frame["y"] = eta + rng.normal(size=n) * (1 + frame["x"].abs() / 4)
    frame["wage"] = np.exp(1 + 0.2 * frame["x"] + rng.normal(size=n))
    frame["won"] = np.where(rng.random(n) < 1 / (1 + np.exp(2 - eta)), "yes", "no")
    frame["flag"] = rng.random(n) < 0.3
    frame.loc[rng.random(n) < 0.05, "x"] = np.nan
    frame.loc[rng.random(n) < 0.02, "z"] = -np.inf
    frame = frame.astype({"g": object, "won": object})
    frame.loc[rng.random(n) < 0.03, "won"] = None
    return frame


def clean(frame, names):
    """The rows that a fit is about, made by hand."""
    kept = pd.DataFrame(index=frame.index)
    for name in names:
        if name in LEVELS:
            kept[name] = pd.Categorical(frame[name].where(frame[name].isin(LEVELS[name])), LEVELS[name])
        else:
            kept[name] = frame[name].clip(*BOUNDS[name]) if name in BOUNDS else frame[name]
    return kept.dropna()


def assert_beside(table, reference, *, close):
    """The non-private columns are statsmodels' numbers."""
    assert list(table.index) == list(reference.params.index)
    np.testing.assert_allclose(table["coef_nonprivate"], reference.params, rtol=close, atol=close)
    np.testing.assert_allclose(table["std_err_nonprivate"], reference.bse, rtol=close)
    ends = reference.conf_int().to_numpy()
    np.testing.assert_allclose(table[["ci_lower_nonprivate", "ci_upper_nonprivate"]], ends, rtol=close, atol=close)


def assert_equal_sides(table, *, close):
    """Private and non-private columns agree to the lattice's resolution."""
    assert (table["difference"].abs() / table["std_err_nonprivate"]).max() < close
    np.testing.assert_allclose(table["std_err"], table["std_err_nonprivate"], rtol=close)
    np.testing.assert_allclose(table["width_ratio"], 1.0, rtol=close)
    np.testing.assert_allclose(table["overlap"], 1.0, atol=close)
    assert table["same_sign"].all()
    assert table["same_significance"].all()
    assert (table["privacy_share"] == 0).all()


FORMULAS = {
    "y ~ x + z + C(g)": ["y", "x", "z", "g"],
    "y ~ x * C(g) + I(z**2)": ["y", "x", "z", "g"],
    "np.log(wage) ~ x + flag": ["wage", "x", "flag"],
    "y ~ 0 + C(g) + x": ["y", "x", "g"],
    "y ~ 1": ["y"],
    "flag ~ x + z": ["flag", "x", "z"],
}


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_both_sides_are_statsmodels_ols(formula, cov_type):
    frame = dirty()
    bounds = {name: BOUNDS[name] for name in FORMULAS[formula] if name in BOUNDS}
    fit = dps.dp_ols(formula, frame, math.inf, bounds=bounds, levels=LEVELS, cov_type=cov_type)
    table = dps.compare(fit, frame).to_frame()
    rows = clean(frame, FORMULAS[formula])
    assert len(rows) < len(frame) or formula == "y ~ 1"
    numbers = rows.assign(**{name: rows[name].astype(int) for name in ("flag",) if name in rows})
    reference = smf.ols(formula, numbers).fit(cov_type=cov_type, use_t=False)
    reference.params.index = table.index  # a bool is flag[T.True] here and flag there
    assert_beside(table, reference, close=1e-9)
    assert_equal_sides(table, close=1e-4)


@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0", "HC1"])
@pytest.mark.parametrize("formula", ["won ~ x + z + C(g)", "won ~ x * C(g)", "I(y > 3) ~ x + z"])
def test_without_noise_both_sides_are_statsmodels_logit(formula, cov_type):
    frame = dirty(6_000)
    names = ["won", "x", "z", "g"] if "won" in formula else ["y", "x", "z"]
    fit = dps.dp_logit(formula, frame, math.inf, bounds=BOUNDS, levels=LEVELS, cov_type=cov_type)
    table = dps.compare(fit, frame).to_frame()
    rows = clean(frame, names)
    rows["event"] = (rows["won"] == "yes" if "won" in names else rows["y"] > 3).astype(int)
    reference = smf.logit(f"event ~ {formula.split('~')[1]}", rows).fit(disp=0, cov_type=cov_type, tol=1e-12)
    assert_beside(table, reference, close=1e-7)
    robust = cov_type == "HC1"  # whose factor counts the public rows
    assert_equal_sides(table, close=2e-2 if robust else 2e-3)


@pytest.mark.parametrize("formula", ["y ~ bs(x, df=4) + C(g) + z", "y ~ bs(x, df=4) + z"])
def test_splines_and_sub_models_are_compared_on_the_complete_rows_of_their_release(formula):
    frame = dirty()
    release = dps.dp_moments("y ~ bs(x, df=4) + C(g) + z", frame, math.inf, bounds=BOUNDS, levels=LEVELS)
    table = dps.compare(release.fit(formula), frame).to_frame()
    assert list(table.index) == release.fit(formula).model.exog_names
    assert_equal_sides(table, close=1e-3)


def test_a_level_that_never_occurs_is_nan_and_leaves_the_others_alone():
    frame = dirty().query("g != 'c'")
    fit = dps.dp_ols("y ~ x + C(g)", frame, math.inf, bounds=BOUNDS, levels=LEVELS)
    logit = dps.dp_logit("won ~ x + C(g)", frame, math.inf, bounds=BOUNDS, levels=LEVELS)
    for found, outcome in ((fit, "y"), (logit, "won")):
        comparison = dps.compare(found, frame)
        table = comparison.to_frame()
        assert table.loc["C(g)[T.c]"].filter(like="nonprivate").isna().all()
        assert table.loc["C(g)[T.c]", ["same_sign", "same_significance"]].isna().all()
        assert table.drop("C(g)[T.c]").filter(like="nonprivate").notna().all(axis=None)
        assert "same sign 3 of 3" in comparison.headline
        rows = clean(frame, [outcome, "x", "g"])
        event = rows[outcome] == "yes" if outcome == "won" else rows[outcome]
        rows = rows.assign(event=event.astype(float), b=rows["g"] == "b")
        reference = (smf.logit if outcome == "won" else smf.ols)("event ~ b + x", rows).fit(disp=0)
        known = table.loc[["Intercept", "C(g)[T.b]", "x"], "coef_nonprivate"]
        np.testing.assert_allclose(known, reference.params, rtol=1e-6)


@pytest.mark.parametrize("rows", ["unreadable", "constant", "separated", "one complete"])
@pytest.mark.parametrize("model", ["dp_ols", "dp_logit"])
def test_whatever_the_rows_are_a_comparison_comes_out(model, rows):
    n = 3_000
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, n)
    y = (x > 5).astype(float)
    if rows == "unreadable":
        x = np.full(n, np.nan)
    elif rows == "constant":
        x, y = np.full(n, 3.0), np.ones(n)
    elif rows == "one complete":
        x[1:] = np.nan
    data = {"x": x, "y": y}
    fit = getattr(dps, model)(
        "y ~ x", data, 2.0, bounds={"x": (0, 10), "y": (0, 1)}, infeasible="fit", rng=np.random.default_rng(0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = dps.compare(fit, data)
        shown = [str(comparison), comparison._repr_html_(), comparison.to_latex()]
    assert all("NOT PRIVATE" in text for text in shown)
    known = comparison.to_frame()["coef_nonprivate"].notna()
    assert known.any() == (model == "dp_ols" and rows == "separated")
    assert ("identifies no coefficient" in comparison.headline) == (not known.any())


# -- real tables -----------------------------------------------------------------------------------------------------


def test_a_private_fit_of_adult_beside_statsmodels():
    adult, schema = dps.datasets.load_adult()
    formula = "hours_per_week ~ age + education_num + C(sex)"
    fit = dps.dp_ols(formula, adult, epsilon=1, schema=schema)
    comparison = dps.compare(fit, adult, alpha=0.1)
    table = comparison.to_frame()
    reference = smf.ols(formula, adult).fit()  # nothing is missing, and nothing beyond the bounds
    np.testing.assert_allclose(table["coef_nonprivate"], reference.params, rtol=1e-9)
    np.testing.assert_allclose(table["std_err_nonprivate"], reference.bse, rtol=1e-9)
    np.testing.assert_array_equal(table["coef"], fit.params)
    np.testing.assert_array_equal(table["std_err"], fit.bse)
    np.testing.assert_array_equal(table[["ci_lower", "ci_upper"]], fit.conf_int(0.1))
    np.testing.assert_allclose(table["privacy_share"], fit.bse_privacy**2 / fit.bse**2)
    np.testing.assert_allclose(table["difference"], fit.params - reference.params, atol=1e-9)
    np.testing.assert_allclose(table["difference_in_std_err"], (fit.params - reference.params) / fit.bse, atol=1e-6)
    width = fit.conf_int(0.1)[1] - fit.conf_int(0.1)[0]
    np.testing.assert_allclose(table["width_ratio"], width / (2 * 1.6448536 * reference.bse), rtol=1e-6)
    assert (table["width_ratio"] > 1).all()
    assert table["overlap"].between(0, 1).all()
    assert "48,842 complete rows" in comparison.nonprivate
    for part in (f"{table['width_ratio'].median():.3g}", f"{table['overlap'].mean():.2f}", "of 4"):
        assert part in comparison.headline


def test_a_private_logit_of_bank_beside_statsmodels():
    bank, schema = dps.datasets.load_bank()
    formula = "y ~ age + C(housing)"
    for mechanism, cov_type in (("objective", "nonrobust"), ("wkl-objective", "HC0"), ("functional", "nonrobust")):
        fit = dps.dp_logit(formula, bank, epsilon=8, schema=schema, mechanism=mechanism, infeasible="fit")
        comparison = dps.compare(fit, bank)
        rows = bank.assign(event=(bank["y"] == "yes").astype(int))
        assert bank["age"].between(schema["age"].lower, schema["age"].upper).all()
        reference = smf.logit("event ~ age + C(housing)", rows).fit(disp=0, cov_type=cov_type, tol=1e-12)
        assert_beside(comparison.to_frame(), reference, close=1e-6)
        assert f"statsmodels' Logit ({cov_type})" in comparison.nonprivate
        assert fit.estimand in comparison.estimand


# -- what it must not do ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    adult, schema = dps.datasets.load_adult()
    fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    return fit, dps.compare(fit, adult), adult


def test_every_rendering_says_not_private_and_reminds_of_the_cost_of_choosing(pair):
    _, comparison, _ = pair
    assert comparison.headline.startswith("NOT PRIVATE")
    summary = comparison.summary()
    for text in (
        *(str(comparison), repr(comparison), f"{comparison}", comparison._repr_html_(), comparison.to_latex()),
        *(summary.as_text(), summary.as_html(), summary.as_latex(), summary.as_csv()),
    ):
        assert text.count("NOT PRIVATE") >= 4  # both tables, the headline and the reminder
        assert "spends privacy" in " ".join(text.replace("<br/>", " ").replace("\\newline", " ").split())
    frame = comparison.to_frame()
    for text in (str(frame), frame.to_string(), frame.to_html(), frame.reset_index().to_csv(), frame.T.to_string()):
        assert "NOT PRIVATE" in text
    assert "spends privacy" in frame.attrs["NOT PRIVATE"]
    assert "NOT PRIVATE" in pickle.loads(pickle.dumps(frame)).attrs
    assert r"C(sex)[T.Male]" in comparison.to_latex()


def test_names_are_escaped():
    n = 500
    rng = np.random.default_rng(0)
    data = {"x_1": rng.uniform(0, 1, n), "g": rng.choice(["a&b", "<50%"], n).astype(object), "y": rng.uniform(0, 1, n)}
    fit = dps.dp_ols(
        "y ~ x_1 + C(g)", data, math.inf, bounds={"x_1": (0, 1), "y": (0, 1)}, levels={"g": ["a&b", "<50%"]}
    )
    comparison = dps.compare(fit, data)
    assert "C(g)[T.&lt;50%]" in comparison._repr_html_()
    assert r"C(g)[T.\textless{}50\%]" in comparison.to_latex()
    assert r"x\_1" in comparison.to_latex()


def test_it_cannot_be_pickled_or_copied(pair):
    fit, comparison, _ = pair
    attempts = [lambda protocol=p: pickle.dumps(comparison, protocol) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    attempts += [lambda: copy.copy(comparison), lambda: copy.deepcopy(comparison), lambda: pickle.dumps([comparison])]
    for attempt in attempts:
        with pytest.raises(dps.NotPrivateError, match=r"dps.compare\(fit, data\)"):
            attempt()
    twin = copy.copy(fit)
    twin.beside = comparison
    with pytest.raises(dps.NotPrivateError):
        pickle.dumps(twin)
    with pytest.raises(AttributeError):
        comparison.formula = "y ~ x"


def reachable(thing):
    seen, queue = {}, [thing]
    while queue:
        item = queue.pop()
        if id(item) in seen or isinstance(item, type) or callable(item) or type(item).__name__ == "module":
            continue
        seen[id(item)] = item
        queue += gc.get_referents(item)
    return seen


def test_a_fit_does_not_know_that_it_was_compared_and_a_comparison_holds_no_rows(pair):
    fit, comparison, adult = pair
    from_fit = reachable(fit)
    assert id(fit.release) in from_fit
    assert id(comparison) not in from_fit
    assert not any(isinstance(item, pd.DataFrame) for item in from_fit.values())
    assert repr(comparison.to_frame()["coef_nonprivate"].iloc[0]).encode() not in pickle.dumps(fit)
    from_comparison = reachable(comparison)
    assert id(adult) not in from_comparison
    assert not any(isinstance(item, np.ndarray) and item.size > 200 for item in from_comparison.values())


def test_private_objects_show_nothing(pair):
    from dpstats.models.compare import PlainFit
    from dpstats.models.comparison import Estimates
    from dpstats.records.model_table import ModelTable

    numbers = np.full(3, 31.4159)
    estimates = Estimates(numbers, numbers, np.full((3, 2), 31.4159), numbers)
    for thing in (ModelTable(numbers[None], numbers, numbers), PlainFit(314159, estimates)):
        assert "314159" not in repr(thing).replace(".", "")


def test_rows_off_the_lattice_are_read_for_comparisons_only():
    """No sensitivity holds for them, so no release may come near."""
    package = Path(dps.__file__).parent
    users = {
        str(module.relative_to(package))
        for module in package.rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dpstats.records.model_table"
    }
    assert users == {"models/compare.py"}


def test_comparing_charges_no_ledger_and_draws_no_noise(tmp_path):
    adult, schema = dps.datasets.load_adult()
    with dps.Ledger(tmp_path / "adult.budget", epsilon=3) as ledger:
        fit = dps.dp_ols("hours_per_week ~ age", adult, epsilon=1, schema=schema)
        first, second = dps.compare(fit, adult), dps.compare(fit, adult)
        assert len(ledger.history()) == 1
    pd.testing.assert_frame_equal(first.to_frame(), second.to_frame())


# -- the overlap of intervals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "overlap"),
    [
        ((0, 4), (1, 3), (2 / 4 + 2 / 2) / 2),
        ((0, 2), (1, 5), (1 / 2 + 1 / 4) / 2),
        ((0, 1), (0, 1), 1.0),
        ((0, 1), (2, 3), 0.0),
        ((0, 1), (1, 2), 0.0),
        ((-math.inf, math.inf), (0, 1), 0.5),
        ((-math.inf, 0.5), (0, 1), 0.25),
        ((2, 2), (0, 4), 0.5),
        ((2, 2), (2, 2), 1.0),
        ((2, 2), (3, 3), 0.0),
        ((0, 1), (math.nan, math.nan), math.nan),
    ],
)
def test_overlap_against_values_by_hand(one, other, overlap):
    for first, second in ((one, other), (other, one)):
        ends = [np.array([end], dtype=float) for end in (*first, *second)]
        np.testing.assert_allclose(interval_overlap(*ends), [overlap])


# -- wrong arguments ---------------------------------------------------------------------------------------------------


def test_fits_without_counterpart_are_refused_with_the_cure(pair):
    fit, comparison, adult = pair
    schema = dps.datasets.load_adult().schema
    svm = dps.dp_svm("income ~ age", adult, epsilon=4, schema=schema, infeasible="fit")
    with pytest.raises(dps.OptionError, match=r"no support vector machine.*dp_logit"):
        dps.compare(svm, adult)
    point = dps.dp_ols("hours_per_week ~ age", adult, 1, 1e-6, schema=schema, mechanism="adassp")
    with pytest.raises(dps.OptionError, match="mechanism='ssp'"):
        dps.compare(point, adult)
    with pytest.raises(dps.OptionError, match=r"dps.compare\(release.fit\(\), data\)"):
        dps.compare(fit.release, adult)
    for wrong in (adult, comparison, None, "fit"):
        with pytest.raises(dps.OptionError, match="fit must be a result of dp_ols or dp_logit"):
            dps.compare(wrong, adult)
    for alpha in (0, 1, "0.05", True):
        with pytest.raises(dps.OptionError, match="alpha"):
            dps.compare(fit, adult, alpha=alpha)


def test_a_table_that_does_not_fit_the_formula_is_refused_by_its_names_and_types(pair):
    fit, _, adult = pair
    with pytest.raises(dps.DPStatsError, match="'age'"):
        dps.compare(fit, adult.drop(columns="age"))
    with pytest.raises(dps.SchemaError, match="'age' holds text"):
        dps.compare(fit, adult.astype({"age": "string"}))
    with pytest.raises(dps.DataError, match=r"data must be a DataFrame of .*, not list"):
        dps.compare(fit, [1, 2])


def test_a_table_that_cannot_be_read_says_nothing_of_its_cells(pair):
    class Broken(np.ndarray):
        def __getitem__(self, key):
            raise OSError("sentinel")

    fit, _, adult = pair
    columns = {name: adult[name].to_numpy() for name in ("hours_per_week", "age", "sex")}
    with pytest.raises(dps.ReleaseError, match="could not be read") as caught:
        dps.compare(fit, {**columns, "age": columns["age"].view(Broken)})
    assert "sentinel" not in str(caught.value)
    assert caught.value.__cause__ is None


# What calls say of rows ----------------------------------------------------------------------------------------------


RULES = {
    "weights": {"weights": "w"},
    "offset": {"offset": "np.exp(o)"},
    "complete": {"missing": "none"},
    "persons": {"privacy_unit": "person", "contributions": 2},
    "length": {"neighboring_relation": "add_or_remove_one"},
    "all": {"weights": "w", "offset": "o", "missing": "none", "privacy_unit": "person", "contributions": 3},
}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC1"])
def test_both_sides_read_rows_by_the_same_rules(rules, cov_type):
    frame = dirty()
    rng = np.random.default_rng(5)
    frame = frame.assign(w=rng.uniform(0, 3, len(frame)), o=rng.uniform(-1, 1, len(frame)))
    frame["person"] = rng.integers(0, 800, len(frame))
    frame.loc[::97, "w"] = np.nan
    bounds = BOUNDS | {"w": (0, 3), "o": (-1, 1)}
    fit = dps.dp_ols("y ~ x + C(g)", frame, math.inf, bounds=bounds, levels=LEVELS, cov_type=cov_type, **RULES[rules])
    comparison = dps.compare(fit, frame)
    assert_equal_sides(comparison.to_frame(), close=1e-3)
    assert f"{fit.nobs:,.0f} complete rows" in comparison.nonprivate
    assert ("WLS" in comparison.nonprivate) == ("weights" in RULES[rules])
