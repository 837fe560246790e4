"""Inputs from public reports (``../shared/cases.md``) that broke somebody's regression, each with its right value.

Case 29 (summary_col_order) is in ``test_tables.py``.
"""

from __future__ import annotations

import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats as dps


def fit(formula: str, data: object, epsilon: float, bounds: dict, seed: int | None = None, **options):
    """Fit with the cases' notation: a list of levels among the bounds declares a category."""
    pairs = {name: declared for name, declared in bounds.items() if not isinstance(declared, list)}
    levels = {name: declared for name, declared in bounds.items() if isinstance(declared, list)}
    rng = None if seed is None else np.random.default_rng(seed)
    return dps.dp_ols(formula, data, epsilon=epsilon, bounds=pairs, levels=levels, rng=rng, infeasible="fit", **options)


def refusal(formula: str, data: object, bounds: dict, epsilon: float = 1) -> str:
    with pytest.raises(dps.DPStatsError) as caught:
        fit(formula, data, epsilon, bounds)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def near(**expected: float):
    return pytest.approx(expected, abs=0.02)


# -- privacy and private results -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_case_1_intervals_know_about_the_noise():
    def covers(seed: int) -> bool:
        r = np.random.default_rng(seed)
        df = pd.DataFrame({"x": r.uniform(0, 1, 2000)})
        df["y"] = np.clip(0.2 + 0.5 * df.x + r.normal(0, 0.1, 2000), 0, 1)
        low, high = fit("y ~ x", df, 1, {"x": (0, 1), "y": (0, 1)}, seed).conf_int(0.05).loc["x"]
        return low <= 0.5 <= high

    assert np.mean([covers(seed) for seed in range(500)]) == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("value", [3.0, math.nan, math.inf, -math.inf, 1e308])
def test_case_2_no_value_is_infinite_enough_to_show(value):
    df = pd.DataFrame({"x": np.linspace(0, 10, 100), "y": np.linspace(0, 5, 100)})
    df.loc[7, "x"] = value
    result = fit("y ~ x", df, 1, {"x": (0, 10), "y": (0, 5)}, seed=3)
    assert np.isfinite(result.params).all()
    assert np.isfinite(result.bse).all()
    assert math.isfinite(result.privacy.spent.epsilon)
    assert result.privacy.spent.epsilon <= 1


def test_case_2_infinity_is_the_bound():
    df = pd.DataFrame({"x": np.linspace(0, 10, 100), "y": np.linspace(0, 5, 100)})
    at_bound, infinite, huge = (df.assign(x=df.x.where(df.index != 7, value)) for value in (10.0, math.inf, 1e308))
    expected = fit("y ~ x", at_bound, math.inf, {"x": (0, 10), "y": (0, 5)}).params
    for data in (infinite, huge):
        np.testing.assert_array_equal(fit("y ~ x", data, math.inf, {"x": (0, 10), "y": (0, 5)}).params, expected)


@pytest.mark.slow
def test_case_3_the_noise_of_a_mirrored_table_is_the_same():
    r = np.random.default_rng(0)
    df = pd.DataFrame({"x": r.uniform(0, 100, 200)})
    df["y"] = 0.05 * df.x + r.normal(0, 1, 200)
    ranges = {"x": (0, 100), "y": (0, 10)}, {"x": (-100, 0), "y": (-10, 0)}
    slopes = [
        [fit("y ~ 0 + x", data, 1, bounds, seed).params["x"] for seed in range(300)]
        for data, bounds in zip((df, -df), ranges, strict=True)
    ]
    spread, mirrored = (np.subtract(*np.percentile(found, [75, 25])) for found in slopes)
    assert spread > 0.001
    assert spread / mirrored == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("formula", ["y ~ x + z", "y ~ 0 + x + z", "y ~ z + x", "y ~ 0 + x", "y ~ x:z"])
def test_case_3_every_column_is_noisy_whatever_its_range_and_position(formula):
    data = pd.DataFrame({name: np.linspace(0, 1, 50) for name in ("x", "z", "y")})
    expected = fit(formula, data, 1, {"x": (0, 100), "z": (0, 1), "y": (0, 1)}, seed=1)._moments.variances
    assert (expected > 0).all()
    for pair in ((-100, 0), (-100, 100), (-1e-3, 1e9)):
        bounds = {"x": pair, "z": (0, 1), "y": (0, 1)}
        np.testing.assert_array_equal(fit(formula, data, 1, bounds, seed=1)._moments.variances, expected)


def test_case_4_a_constant_column_gives_an_answer_like_any_other():
    df = pd.DataFrame({"x": np.zeros(50), "z": np.arange(50.0)})
    df["y"] = df.z / 10
    for data in (df, df.assign(x=df.x.where(df.index != 0, 1.0))):
        result = fit("y ~ x + z", data, 1, {"x": (0, 1), "z": (0, 50), "y": (0, 5)}, seed=0)
        assert list(result.params.index) == ["Intercept", "x", "z"]
        assert np.isfinite(result.params).all()


def test_case_5_an_undeclared_level_shows_nowhere():
    df = pd.DataFrame({"x": np.linspace(0, 1, 200), "y": np.linspace(0, 1, 200), "g": ["a", "b"] * 100})
    rare = df.assign(g=df.g.where(df.index != 5, "rare-disease"))
    bounds = {"x": (0, 1), "y": (0, 1), "g": ["a", "b"]}
    first, second = (fit("y ~ x + C(g)", data, 1, bounds, seed=0) for data in (df, rare))
    assert list(first.params.index) == list(second.params.index) == ["Intercept", "C(g)[T.b]", "x"]
    assert "rare-disease" not in f"{second.summary()} {second!r}"
    assert b"rare-disease" not in pickle.dumps(second)


def test_case_5_an_undeclared_level_is_a_missing_value():
    df = pd.DataFrame({"x": np.linspace(0, 1, 200), "y": np.linspace(0, 1, 200), "g": ["a", "b"] * 100})
    bounds = {"x": (0, 1), "y": (0, 1), "g": ["a", "b"]}
    rare = fit("y ~ x + C(g)", df.assign(g=df.g.where(df.index != 5, "rare-disease")), math.inf, bounds)
    dropped = fit("y ~ x + C(g)", df.drop(index=5), math.inf, bounds)
    assert rare.nobs == 199
    np.testing.assert_array_equal(rare.params, dropped.params)


def test_case_6_the_error_of_a_logit_falls_as_epsilon_rises():
    r = np.random.default_rng(2)
    n = 20_000
    df = pd.DataFrame({"age": r.uniform(18, 90, n), "hours": r.uniform(0, 80, n)})
    eta = -4 + 0.05 * df.age + 0.03 * df.hours
    df["hi"] = (r.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    bounds = {"age": (18, 90), "hours": (0, 80), "hi": (0, 1)}

    def age(epsilon: float, seed: int) -> float:
        rng = np.random.default_rng(seed)
        return dps.dp_logit("hi ~ age + hours", df, epsilon, bounds=bounds, rng=rng, infeasible="fit").params["age"]

    exact = dps.dp_logit("hi ~ age + hours", df, math.inf, bounds=bounds).params["age"]
    errors = [np.mean([abs(age(e, seed) - exact) for seed in range(20)]) for e in (0.1, 1, 10, 1000)]
    assert errors == sorted(errors, reverse=True)
    assert errors == pytest.approx([1.383e-3, 1.328e-4, 1.282e-5, 1.154e-7], rel=0.03), "the curve is pinned"
    assert errors[-1] < 0.01 * exact
    assert exact == pytest.approx(0.05, rel=0.1)


# -- missing and non-finite values ---------------------------------------------------------------------------------


def log_table(with_zero: bool) -> pd.DataFrame:
    first = 0.0 if with_zero else 1.0
    return pd.DataFrame({"x": [first, 1.0, 2.0, 3.0, 4.0] * 40, "y": [first, 1.0, 2.0, 2.0, 3.0] * 40})


@pytest.mark.parametrize(
    ("formula", "term", "declared"), [("y ~ np.log(x)", "x", "(0, 5)"), ("np.log(y) ~ x", "y", "(0, 4)")]
)
def test_case_7_a_logarithm_is_refused_by_the_declared_range_alone(formula, term, declared):
    bounds = {"x": (0, 5), "y": (0, 4)}
    messages = {refusal(formula, log_table(zero), bounds) for zero in (True, False)}
    assert len(messages) == 1
    message = messages.pop()
    assert f"np.log({term}) is unbounded on the declared range" in message
    assert declared in message
    assert "lower bound > 0" in message


def test_case_7_log1p_takes_its_range_from_the_bounds():
    result = fit("y ~ np.log1p(x)", log_table(True), 1, {"x": (0, 5), "y": (0, 4)}, seed=0)
    assert list(result.params.index) == ["Intercept", "np.log1p(x)"]
    symbol = result.release.coding.design.scalars["np.log1p(x)"]
    assert (symbol.lower, symbol.upper) == (pytest.approx(0, abs=0.01), pytest.approx(math.log(6), abs=0.01))


def test_case_8_none_among_numbers_is_missing():
    df = pd.DataFrame(np.array([(1, 3), (2, 6), (4, 2), (6, None)], dtype=object), columns=["y", "x"])
    result = fit("y ~ x", pd.concat([df] * 30, ignore_index=True), 1e6, {"y": (0, 10), "x": (0, 10)})
    assert list(result.params.index) == ["Intercept", "x"]
    assert result.params["x"] == pytest.approx(-0.308, abs=0.02)
    assert result.nobs == pytest.approx(90, abs=0.1)


# -- categories and contrasts --------------------------------------------------------------------------------------


def test_case_9_one_declared_level_is_a_statement_about_the_schema():
    df = pd.DataFrame({"g": ["only"] * 40, "x": np.linspace(0, 1, 40)}).assign(y=np.linspace(0, 1, 40))
    message = refusal("y ~ x + C(g)", df, {"x": (0, 1), "y": (0, 1), "g": ["only"]})
    assert message == "C(g): one declared level ('only'), nothing to estimate; drop it or declare more levels"


def test_case_9_one_level_in_the_data_is_nothing_special():
    df = pd.DataFrame({"g": ["only"] * 40, "x": np.linspace(0, 1, 40)}).assign(y=np.linspace(0, 1, 40))
    result = fit("y ~ x + C(g)", df, 1, {"x": (0, 1), "y": (0, 1), "g": ["only", "other"]}, seed=0)
    assert list(result.params.index) == ["Intercept", "C(g)[T.other]", "x"]
    assert np.isfinite(result.params).all()


def test_case_10_a_factor_beside_an_intercept_is_identified():
    df = pd.DataFrame({"cat": ["a", "a", "b", "b"] * 25, "y": [0.0, 1.0, 1.0, 2.0] * 25})
    params = fit("y ~ C(cat)", df, 1e6, {"cat": ["a", "b"], "y": (0, 3)}).params
    assert params.to_dict() == near(**{"Intercept": 0.5, "C(cat)[T.b]": 1.0})


def test_case_11_the_reference_is_the_first_declared_level():
    df = pd.DataFrame({"s": ["high", "low", "mid"] * 60, "y": [3.0, 1.0, 2.0] * 60})
    bounds = {"s": ["low", "mid", "high"], "y": (0, 5)}
    expected = near(**{"Intercept": 1.0, "C(s)[T.mid]": 1.0, "C(s)[T.high]": 2.0})
    for data in (df, df[::-1]):
        assert fit("y ~ C(s)", data, 1e6, bounds).params.to_dict() == expected


@pytest.mark.parametrize("order", [["low", "mid", "high"], ["high", "low", "mid"]])
def test_case_11_an_ordered_category_is_coded_like_any_other(order):
    df = pd.DataFrame(
        {"s": pd.Categorical(["high", "low", "mid"] * 60, order, ordered=True), "y": [3.0, 1.0, 2.0] * 60}
    )
    params = fit("y ~ s", df, 1e6, {"s": ["low", "mid", "high"], "y": (0, 5)}).params
    assert params.to_dict() == near(**{"Intercept": 1.0, "s[T.mid]": 1.0, "s[T.high]": 2.0})


def test_case_12_one_new_row_can_be_predicted():
    df = pd.DataFrame({"g": ["a", "b"] * 50, "x": np.linspace(0, 1, 100)}).assign(y=lambda d: d.x + (d.g == "b"))
    result = fit("y ~ x + C(g)", df, 1e6, {"g": ["a", "b"], "x": (0, 1), "y": (0, 2)})
    assert result.predict(pd.DataFrame({"g": ["b"], "x": [0.5]})).tolist() == [pytest.approx(1.5, abs=0.02)]


def hours() -> pd.DataFrame:
    return pd.DataFrame({"hour": pd.Categorical(list(range(24)) * 20)}).assign(y=lambda d: d.hour.astype(float) / 10)


def test_case_13_the_declaration_says_whether_a_category_is_a_number():
    number = fit("y ~ hour", hours(), 1e6, {"hour": (0, 23), "y": (0, 3)}).params
    assert number.to_dict() == near(Intercept=0.0, hour=0.1)
    levels = fit("y ~ C(hour)", hours(), 1e6, {"hour": list(range(24)), "y": (0, 3)}).params
    assert list(levels.index) == ["Intercept", *(f"C(hour)[T.{k}]" for k in range(1, 24))]
    np.testing.assert_allclose(levels.iloc[1:], np.arange(1, 24) / 10, atol=0.02)


def test_case_13_mixed_declarations_are_refused_by_column():
    message = refusal("y ~ C(hour)", hours(), {"hour": (0, 23), "y": (0, 3)})
    assert "column 'hour' has declared bounds but no levels" in message
    with pytest.raises(dps.SchemaError, match="column 'hour' is declared twice"):
        dps.dp_ols("y ~ hour", hours(), 1, bounds={"hour": (0, 23), "y": (0, 3)}, levels={"hour": list(range(24))})


# -- rank, scale, tiny n -------------------------------------------------------------------------------------------


def test_case_14_the_order_of_terms_and_their_scales_change_nothing():
    r = np.random.default_rng(9)
    df = pd.DataFrame({"small": r.random(50_000), "big": 1e8 * r.random(50_000), "mid": 1e3 * r.random(50_000)})
    df["y"] = df.small + 1e-8 * df.big + 1e-3 * df.mid
    bounds = {"small": (0, 1), "big": (0, 1e8), "mid": (0, 1e3), "y": (0, 3)}
    for formula in ("y ~ small + big + mid", "y ~ mid + big + small"):
        params = fit(formula, df, 1e6, bounds).params
        expected = pytest.approx({"small": 1.0, "big": 1e-8, "mid": 1e-3}, rel=0.01, abs=0)
        assert params.drop("Intercept").to_dict() == expected


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float64"])
def test_case_15_squares_of_small_integers_do_not_wrap(dtype):
    df = pd.DataFrame({"age": np.tile(np.arange(20, 90, dtype=dtype), 20)})
    df["y"] = 1 + 0.001 * df.age.astype(float) ** 2
    params = fit("y ~ age + I(age**2)", df, 1e8, {"age": (0, 100), "y": (0, 20)}).params
    assert params["I(age ** 2)"] == pytest.approx(0.001, rel=0.05)
    assert params["age"] == pytest.approx(0.0, abs=0.005)


def test_case_16_a_declared_constant_is_refused_by_column():
    df = pd.DataFrame({"const": 1.0, "x": np.linspace(0, 1, 100)}).assign(y=lambda d: 2 + d.x)
    message = refusal("y ~ const + x", df, {"const": (1, 1), "x": (0, 1), "y": (0, 4)})
    assert "'const'" in message
    assert "single value" in message
    assert "duplicates the intercept" in message


def test_case_16_a_constant_inside_declared_bounds_is_a_column():
    df = pd.DataFrame({"const": 1.0, "x": np.linspace(0, 1, 100)}).assign(y=lambda d: 2 + d.x)
    params = fit("y ~ 0 + const + x", df, 1e6, {"const": (0, 1), "x": (0, 1), "y": (0, 4)}).params
    assert params.to_dict() == near(const=2.0, x=1.0)


def test_case_17_what_collinear_columns_do_not_identify_is_not_claimed():
    r = np.random.default_rng(3)
    df = pd.DataFrame({"x1": r.uniform(0, 1, 2000), "x2": (r.random(2000) < 0.5).astype(float)})
    df["x3"] = 1 - df.x2
    df["y"] = df.x1 + df.x2 + r.normal(0, 0.1, 2000)
    bounds = {"x1": (0, 1), "x2": (0, 1), "x3": (0, 1), "y": (-1, 3)}
    result = fit("y ~ x1 + x2 + x3", df, 10, bounds, seed=0)
    assert np.isfinite(result.params).all()
    assert result.params["x1"] == pytest.approx(1, abs=0.2)
    low, high = result.conf_int().loc["x1"]
    assert 0.5 < low < 1 < high < 1.5
    lost = ["Intercept", "x2", "x3"]
    assert (result.bse[lost] > 10 * result.bse["x1"]).all()
    assert (result.pvalues[lost] > 0.05).all()


# -- names and formula grammar -------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["y ~ .", "y ~ . - id"])
def test_case_18_a_dot_is_every_declared_column_in_table_order(formula):
    df = pd.DataFrame({"id": range(60), "y": np.linspace(0, 1, 60), "b": np.linspace(1, 0, 60), "a": [0.0, 1.0] * 30})
    result = fit(formula, df, 1, {"y": (0, 1), "a": (0, 1), "b": (0, 1)}, seed=0)
    assert list(result.params.index) == ["Intercept", "b", "a"]


def test_case_19_a_column_named_intercept_is_refused_beside_the_constant():
    df = pd.DataFrame({"Intercept": np.linspace(0, 1, 100)}).assign(y=lambda d: 1 + d.Intercept)
    message = refusal("y ~ Intercept", df, {"Intercept": (0, 1), "y": (0, 3)})
    assert "'Intercept'" in message
    assert "rename" in message
    assert "0 +" in message


def aged() -> tuple[pd.DataFrame, dict]:
    df = pd.DataFrame({"age": np.linspace(20, 80, 200)}).assign(y=lambda d: 1 + 0.001 * d.age**2)
    return df, {"age": (0, 100), "y": (0, 10)}


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("y ~ age + age**2", "age**2 is the same as age in a formula; write I(age**2)"),
        ("y ~ age + age^2", "age^2 is the same as age in a formula; write I(age**2)"),
        ("y ~ age*age", "age*age is the same as age in a formula; write I(age**2)"),
        ("y ~ age + I(age^2)", "'^' is not a power inside 'I(age ^ 2)'; write I(age**2)"),
    ],
)
def test_case_20_a_power_that_would_vanish_is_refused(formula, says):
    assert refusal(formula, *aged()) == says


def test_case_20_the_power_that_was_meant_works():
    df, bounds = aged()
    assert fit("y ~ age + I(age**2)", df, 1e8, bounds).params["I(age ** 2)"] == pytest.approx(0.001, rel=0.05)


@pytest.mark.parametrize("formula", ["y ~ class + lambda", 'y ~ C(Q("class")) + Q("lambda")', "y ~ `class` + `lambda`"])
def test_case_21_columns_named_like_keywords_work(formula):
    df = pd.DataFrame({"class": ["u", "v"] * 50, "lambda": np.linspace(0, 1, 100)}).assign(y=np.linspace(0, 1, 100))
    params = fit(formula, df, 1e6, {"class": ["u", "v"], "lambda": (0, 1), "y": (0, 1)}).params
    assert params.to_list() == [pytest.approx(value, abs=0.02) for value in (0, 0, 1)]


def test_case_21_a_keyword_inside_a_call_is_refused_with_how_to_quote_it():
    df = pd.DataFrame({"class": ["u", "v"] * 50, "y": np.linspace(0, 1, 100)})
    message = refusal("y ~ C(class)", df, {"class": ["u", "v"], "y": (0, 1)})
    assert "keyword" in message
    assert re.search(r"Q\(.class.\)", message)


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ np.log1p(x)", "y ~ Q('x')"])
def test_case_22_a_name_that_stands_twice_is_refused(formula):
    df = pd.DataFrame(np.random.default_rng(0).random((60, 3)), columns=["y", "x", "x"])
    assert "column name 'x' appears twice in data" in refusal(formula, df, {"x": (0, 1), "y": (0, 1)})


def test_case_22_duplicates_that_the_formula_does_not_use_are_harmless():
    df = pd.DataFrame(np.random.default_rng(0).random((60, 4)), columns=["y", "x", "z", "z"])
    assert list(fit("y ~ x", df, 1, {"x": (0, 1), "y": (0, 1)}, seed=0).params.index) == ["Intercept", "x"]


# -- column types and containers -----------------------------------------------------------------------------------


def test_case_23_booleans_are_regressors_without_bounds():
    df = pd.DataFrame({"x": np.linspace(0, 1, 60), "sp": ["a", "b", "c"] * 20}).assign(y=lambda d: d.x + (d.sp == "b"))
    df = pd.concat([df[["x", "y"]], pd.get_dummies(df.sp, prefix="sp")], axis=1)
    params = fit("y ~ x + sp_b + sp_c", df, 1e6, {"x": (0, 1), "y": (0, 2)}).params
    assert params.to_dict() == near(Intercept=0.0, x=1.0, sp_b=1.0, sp_c=0.0)


@pytest.mark.parametrize("kind", [Decimal, Fraction])
def test_case_24_numbers_kept_as_objects_are_numbers(kind):
    df = pd.DataFrame({"price": [kind("1.5"), kind("2.5"), kind("3.5")] * 30, "y": [1.0, 2.0, 3.0] * 30})
    params = fit("y ~ price", df, 1e6, {"price": (0, 5), "y": (0, 5)}).params
    assert params.to_dict() == near(Intercept=-0.5, price=1.0)


def test_case_24_text_is_refused_by_its_dtype_alone():
    df = pd.DataFrame({"txt": ["1.5", "2.5", "3.5"] * 30, "y": [1.0, 2.0, 3.0] * 30})
    broken = df.assign(txt=df.txt.where(df.index != 7, "no number"))
    messages = {refusal("y ~ txt", data, {"txt": (0, 5), "y": (0, 5)}) for data in (df, broken)}
    assert len(messages) == 1
    assert "column 'txt' holds text" in messages.pop()


def test_case_25_a_text_outcome_of_a_logit():
    r = np.random.default_rng(1)
    x = r.random(4000)
    df = pd.DataFrame({"x": x, "out": np.where(x + r.normal(0, 0.3, 4000) > 0.5, "success", "fail")})
    found = dps.dp_logit("out ~ x", df, 1e4, bounds={"x": (0, 1)}, levels={"out": ["fail", "success"]})
    assert found.params["x"] > 0
    assert "Success is out = success." in str(found.summary())
    with pytest.raises(dps.SchemaError, match=r"'out' has no declared levels; add levels=\{'out': \['\.\.\.'"):
        dps.dp_logit("out ~ x", df, 1, bounds={"x": (0, 1)})


def test_case_25_a_text_outcome_is_refused_by_name():
    df = pd.DataFrame({"x": np.linspace(0, 1, 40), "out": ["fail", "success"] * 20})
    message = refusal("out ~ x", df, {"x": (0, 1), "out": ["fail", "success"]})
    assert "dp_ols needs a numeric outcome; 'out' is text" in message


def test_case_26_dates_are_refused_and_never_become_dummies():
    df = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=100)}).assign(y=np.linspace(0, 1, 100))
    assert "'when'" in refusal("y ~ when", df, {"when": ("2020-01-01", "2020-12-31"), "y": (0, 1)})
    message = refusal("y ~ when", df, {"when": (0, 1), "y": (0, 1)})
    assert "column 'when' is a datetime" in message
    assert "days since" in message
    message = refusal("y ~ C(when)", df, {"y": (0, 1)})
    assert "column 'when' has no declared" in message
    assert "levels={'when': [...]}" in message


# -- predict and new data ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["center(age)", "scale(age)", "standardize(age)"])
def test_case_27_stateful_transforms_learn_from_the_public_range(term):
    """Equal coefficients on two tables of different means: nothing was learned from the rows."""
    young = pd.DataFrame({"age": np.linspace(18, 30, 500)}).assign(y=lambda d: d.age / 90)
    old = pd.DataFrame({"age": np.linspace(60, 90, 500)}).assign(y=lambda d: d.age / 90)
    fits = [fit(f"y ~ {term}", data, math.inf, {"age": (18, 90), "y": (0, 1)}).params for data in (young, old)]
    np.testing.assert_allclose(fits[0], fits[1], rtol=1e-4)
    assert fits[0]["Intercept"] == pytest.approx(54 / 90, abs=1e-4)


def test_case_27_a_mean_of_the_rows_is_refused_with_the_cure():
    df = pd.DataFrame({"age": np.linspace(18, 90, 500)}).assign(y=lambda d: d.age / 90)
    message = refusal("y ~ I(age - age.mean())", df, {"age": (18, 90), "y": (0, 1)})
    assert "unpaid release" in message
    assert "centre at a public constant" in message


def test_case_27_a_public_constant_is_accepted():
    df = pd.DataFrame({"age": np.linspace(18, 90, 500)}).assign(y=lambda d: d.age / 90)
    params = fit("y ~ I(age - 54)", df, math.inf, {"age": (18, 90), "y": (0, 1)}).params
    assert params.to_dict() == pytest.approx({"Intercept": 0.6, "I(age - 54)": 1 / 90}, abs=1e-5)


def test_case_28_new_rows_come_as_dict_frame_or_series_without_the_outcome():
    df = pd.DataFrame({"x": np.linspace(0, 1, 100), "g": ["a", "b"] * 50}).assign(y=lambda d: d.x + (d.g == "b"))
    result = fit("y ~ x + C(g)", df, 1e6, {"x": (0, 1), "g": ["a", "b"], "y": (0, 2)})
    assert result.predict({"x": [0.5], "g": ["b"]}).tolist() == [pytest.approx(1.5, abs=0.02)]
    assert result.predict(df[["x", "g"]].iloc[[1]]).tolist() == [pytest.approx(1.01, abs=0.02)]
    assert result.predict(df[["x", "g"]].iloc[1]).tolist() == [pytest.approx(1.01, abs=0.02)]


# -- tables --------------------------------------------------------------------------------------------------------


def awkward():
    df = pd.DataFrame({"net_pay": np.linspace(0, 1, 80), "R&D_%": np.linspace(0, 1, 80) ** 2, "g": ["a_1", "50%"] * 40})
    bounds = {"net_pay": (0, 1), "R&D_%": (0, 1), "g": ["a_1", "50%"]}
    return fit('net_pay ~ Q("R&D_%") + C(g)', df, 10, bounds, seed=0).summary()


def test_case_30_latex_escapes_every_special_character():
    tex = awkward().as_latex()
    assert r"net\_pay" in tex
    assert r"R\&D\_\%" in tex
    assert r"50\%" in tex
    plain = re.sub(r"\$[^$]*\$|%\\caption.*", "", tex)  # without mathematics and comments
    assert not re.search(r"(?<!\\)[_%#$]", plain)
    assert "R&D" not in plain


def test_case_30_html_is_escaped_and_text_is_not():
    summary = awkward()
    assert "R&amp;D_%" in summary.as_html()
    assert "R&D_%" in summary.as_text()
    assert "R&D_%" in summary.as_csv()
    assert "net_pay" in summary.as_text()


# -- rules that hold in every case ---------------------------------------------------------------------------------


def test_a_fit_with_a_seed_says_that_it_is_no_private_release():
    df = pd.DataFrame({"x": np.linspace(0, 1, 100), "y": np.linspace(0, 1, 100)})
    seeded, real = (fit("y ~ x", df, 1, {"x": (0, 1), "y": (0, 1)}, seed=seed) for seed in (1, None))
    for text in (repr(seeded), seeded.summary().as_text(), seeded.summary().as_latex(), seeded.summary().as_html()):
        assert "NOT PRIVATE" in text
    assert "NOT PRIVATE" not in f"{real!r}{real.summary()}"
