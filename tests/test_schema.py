"""Declarations: what bounds, levels and dtypes are accepted, how they are resolved, and what messages say to write."""

from __future__ import annotations

import dataclasses
import math
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.specification.coercion import to_codes
from dpstats.specification.schema import TableFacts, complete_schema

INF, NAN = math.inf, math.nan
UNIT = {"x": (0, 1), "y": (0, 1)}


def table() -> pd.DataFrame:
    x = np.linspace(0, 1, 40)
    return pd.DataFrame({"x": x, "y": x, "g": ["a", "b"] * 20})


def fit(formula: str = "y ~ x", data: pd.DataFrame | None = None, **options):
    options = {"epsilon": INF, "bounds": UNIT, **options}
    return dps.dp_ols(formula, table() if data is None else data, **options)


def names(formula: str = "y ~ x", data: pd.DataFrame | None = None, **options) -> list[str]:
    return list(fit(formula, data, **options).params.index)


def refusal(formula: str = "y ~ x", data: pd.DataFrame | None = None, error=dps.SchemaError, **options) -> str:
    with pytest.raises(error) as caught:
        fit(formula, data, **options)
    return str(caught.value)


# -- Continuous ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lower", "upper", "says"),
    [
        (1, 0, ["(1, 0) are reversed", "write (0, 1)"]),
        (5.5, -2, ["(5.5, -2) are reversed", "write (-2, 5.5)"]),
        (1, 1, ["(1, 1) is a single value", "duplicates the intercept", "leave the column out"]),
        (0, -0.0, ["is a single value"]),
        (NAN, 1, ["(nan, 1) are not finite", "finite public range"]),
        (0, NAN, ["are not finite"]),
        (0, INF, ["(0, inf) are not finite"]),
        (-INF, INF, ["(-inf, inf) are not finite"]),
        ("low", "high", ["two numbers", "'low'", "'high'"]),
        (None, 1, ["two numbers", "None"]),
        ([0], [1], ["two numbers"]),
        (1j, 2, ["two numbers"]),
        (pd.NA, 1, ["two numbers"]),
        (pd.Timestamp("2020"), pd.Timestamp("2021"), ["two numbers"]),
        (-1e308, 1e308, ["not a usable float", "rescale the column"]),
        (0, 5e-324, ["not a usable float", "rescale the column"]),
    ],
)
def test_impossible_bounds_are_refused_with_the_cure(lower, upper, says):
    with pytest.raises(dps.SchemaError) as caught:
        dps.Continuous(lower, upper)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize("pair", [("0", "1"), (0, 10**400), (-(10**400), 0)])
def test_text_and_numbers_beyond_floats_are_no_bounds(pair):
    with pytest.raises(dps.SchemaError):
        dps.Continuous(*pair)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (np.int8(-100), np.int8(100)),
        (np.float32(0), np.float32(0.5)),
        (Decimal("0.25"), Fraction(3, 4)),
        (False, True),
        (np.array(0), np.array(1)),
        (0, 1e308),
        (1e16, 1e16 + 2),
    ],
)
def test_bounds_become_plain_floats(lower, upper):
    column = dps.Continuous(lower, upper)
    assert type(column.lower) is float
    assert type(column.upper) is float
    assert (column.lower, column.upper) == (float(lower), float(upper))
    assert column.lower < column.upper


@pytest.mark.parametrize("pair", [(0, 1e308), (0, 1e200), (0, 1e100), (0, 1e-100), (0, 1e-200), (0, 1e-300)])
@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + I(x**2)"])
def test_bounds_at_the_edge_of_floats_work_or_are_refused_by_column(pair, formula):
    data = table().assign(x=lambda d: d.x * pair[1])
    try:
        result = fit(formula, data, bounds={"x": pair, "y": (0, 1)})
    except dps.DPStatsError as error:
        assert re.search(r"\bx\b", str(error))  # noqa: PT017 - either outcome is right
        return
    assert np.isfinite(pd.concat([result.params, result.bse])).all()


def test_middle_and_half_width_of_bounds():
    assert (dps.Continuous(-5, 65).mid, dps.Continuous(-5, 65).half) == (30, 35)
    assert math.isfinite(dps.Continuous(0, 1.7e308).mid)
    assert dps.Continuous(np.int8(-100), np.int8(100)).half == 100


def test_declarations_cannot_be_changed_afterwards():
    with pytest.raises(dataclasses.FrozenInstanceError):
        dps.Continuous(0, 1).lower = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        dps.Categorical(["a"]).levels = ("b",)


def test_a_schema_does_not_follow_the_dictionary_it_was_made_from():
    columns = {"x": dps.Continuous(0, 1)}
    schema = dps.Schema(columns)
    columns["z"] = dps.Binary()
    assert list(schema) == ["x"]


# -- Categorical and Binary ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ([], ["levels is empty", "list the levels"]),
        ("ab", ["must be a list such as ['a', 'b']", "'ab'"]),
        (b"ab", ["must be a list"]),
        ({"a", "b"}, ["must be a list"]),
        ({"a": 1}, ["must be a list"]),
        (iter(["a", "b"]), ["must be a list"]),
        (5, ["must be a list"]),
        (None, ["must be a list", "None"]),
        (["a", "b", "a"], ["a level is declared twice"]),
        ([1, 1.0], ["declared twice"]),
        ([0, False], ["declared twice"]),
        (["a", NAN], ["a level is nan", "missing values need no level"]),
        ([np.float64("nan")], ["a level is nan"]),
        ([None, "a"], ["level of type NoneType is not a string, number or bool"]),
        ([pd.NA], ["is not a string, number or bool"]),
        ([("a", "b")], ["is not a string, number or bool"]),
        ([["a"], ["b"]], ["is not a string, number or bool"]),
        ([b"a"], ["is not a string, number or bool"]),
        ([pd.Timestamp("2020")], ["is not a string, number or bool"]),
        ([Decimal(1)], ["is not a string, number or bool"]),
        (np.array([[1, 2]]), ["is not a string, number or bool"]),
    ],
)
def test_impossible_levels_are_refused_with_the_cause(levels, says):
    with pytest.raises(dps.SchemaError) as caught:
        dps.Categorical(levels)
    for part in says:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("levels", "plain"),
    [
        (np.array(["a", "b"]), ["a", "b"]),
        (np.array([2, 1]), [2, 1]),
        (np.array(["a", 1], dtype=object), ["a", 1]),
        ([np.str_("a"), np.int64(1), np.float64(1.5), np.bool_(False)], ["a", 1, 1.5, False]),
        (("b", "a"), ["b", "a"]),
        (range(3), [0, 1, 2]),
    ],
)
def test_levels_keep_their_order_and_lose_their_numpy_types(levels, plain):
    found = dps.Categorical(levels).levels
    assert list(found) == plain
    assert [type(level) for level in found] == [type(level) for level in plain]


def test_numpy_levels_are_printed_as_plain_ones():
    data = table().assign(k=np.tile([1, 2], 20))
    assert names("y ~ C(k)", data, levels={"k": np.array([1, 2])}) == ["Intercept", "C(k)[T.2]"]
    assert names("y ~ g", levels={"g": np.array(["a", "b"])}) == ["Intercept", "g[T.b]"]


@pytest.mark.parametrize("levels", [(1, 0), (0, 2), ("a", "b"), (0,), (True, False), (0, 1, 2)])
def test_binary_is_zero_and_one_only(levels):
    with pytest.raises(dps.SchemaError, match=r"0/1 or False/True; declare Categorical\("):
        dps.Binary(levels)


@pytest.mark.parametrize("levels", [None, 5, "01"])
def test_binary_levels_of_another_type_are_a_schema_error(levels):
    with pytest.raises(dps.SchemaError):
        dps.Binary(levels)


def test_a_binary_column_is_a_number_bare_and_a_factor_in_c():
    data = table().assign(k=np.tile([0, 1], 20))
    schema = dps.Schema({"y": dps.Continuous(0, 1), "k": dps.Binary()})
    assert names("y ~ k", data, bounds=None, schema=schema) == ["Intercept", "k"]
    assert names("y ~ C(k)", data, bounds=None, schema=schema) == ["Intercept", "C(k)[T.1]"]
    number, factor = (fit(f"y ~ {term}", data, bounds=None, schema=schema) for term in ("k", "C(k)"))
    np.testing.assert_allclose(number.params, factor.params)


# -- Schema --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [(0, 1), dps.Binary, None, ["a", "b"], "Binary"])
def test_a_schema_takes_column_types_only(value):
    with pytest.raises(dps.SchemaError, match="column 'x': write Continuous"):
        dps.Schema({"x": value})


def test_column_names_of_a_schema_are_text():
    with pytest.raises(dps.SchemaError, match="column names must be strings, not 1"):
        dps.Schema({1: dps.Binary()})


@pytest.mark.parametrize("columns", [None, [("x", dps.Binary())], dps.Schema({}), "x"])
def test_a_schema_of_something_else_than_a_dictionary_is_a_schema_error(columns):
    with pytest.raises(dps.SchemaError):
        dps.Schema(columns)


def test_entries_of_the_updating_schema_come_first():
    first = dps.Schema({"x": dps.Continuous(0, 5), "z": dps.Binary()})
    both = first.updated(dps.Schema({"x": dps.Continuous(0, 1)}))
    assert both["x"] == dps.Continuous(0, 1)
    assert "z" in both
    assert first["x"] == dps.Continuous(0, 5)


def test_a_bool_column_needs_no_declaration_and_may_have_one():
    facts = TableFacts(("b", "c", "x"), {"b": "bool", "c": "bool", "x": "number"})
    declared = dps.Schema({"c": dps.Continuous(0, 1)})
    completed = complete_schema(declared, facts)
    assert completed["b"] == dps.Binary((False, True))
    assert completed["c"] == dps.Continuous(0, 1)
    assert "x" not in completed


# -- bounds=, levels= and schema= of a fit -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        ({"x": (1, 0)}, ["bounds of 'x'", "reversed", "write (0, 1)"]),
        ({"x": (0, INF)}, ["bounds of 'x'", "not finite"]),
        ({"x": (NAN, 1)}, ["bounds of 'x'", "not finite"]),
        ({"x": (1, 1)}, ["bounds of 'x'", "single value"]),
        ({"x": (0, 1, 2)}, ["bounds of 'x'", "write a pair such as (0, 100)", "levels={'x': [...]}"]),
        ({"x": 1}, ["bounds of 'x'", "write a pair"]),
        ({"x": None}, ["bounds of 'x'", "write a pair"]),
        ({"x": "01"}, ["bounds of 'x'", "write a pair"]),
        ({"x": {0, 1}}, ["bounds of 'x'", "write a pair"]),
        ({"x": {"lower": 0, "upper": 1}}, ["bounds of 'x'", "write a pair"]),
        ({"x": ("0", "1")}, ["bounds of 'x'", "must be numbers, not text", "levels={'x': [...]}"]),
        ({"x": ("2020-01-01", "2020-12-31")}, ["bounds of 'x'", "not text", "days since a fixed day"]),
        ({"g": ["a", "b"]}, ["bounds of 'g'", "levels={'g': [...]}"]),
        ({"g": ["a", "b", "c"]}, ["bounds of 'g'", "levels={'g': [...]}"]),
        ({"nosuch": (1, 0)}, ["bounds of 'nosuch'", "reversed"]),
        ([("x", (0, 1))], ["bounds must be a dict keyed by column name, not list"]),
        ("x", ["bounds must be a dict keyed by column name, not str"]),
    ],
    ids=str,
)
def test_a_message_about_bounds_names_the_column_and_what_to_write(bounds, says):
    message = refusal(bounds={**UNIT, **bounds} if isinstance(bounds, dict) else bounds)
    for part in says:
        assert part in message


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        ({"g": "ab"}, ["levels of 'g'", "must be a list such as ['a', 'b']"]),
        ({"g": []}, ["levels of 'g'", "levels is empty"]),
        ({"g": ["a", "a"]}, ["levels of 'g'", "a level is declared twice"]),
        ({"g": ["a", NAN]}, ["levels of 'g'", "nan"]),
        ({"g": {"a", "b"}}, ["levels of 'g'", "must be a list"]),
        ({"x": [0, 1]}, ["column 'x' is declared twice", "bounds=", "levels=", "keep one"]),
        (["g"], ["levels must be a dict keyed by column name, not list"]),
    ],
    ids=str,
)
def test_a_message_about_levels_names_the_column_and_what_to_write(levels, says):
    message = refusal("y ~ x + g", levels=levels)
    for part in says:
        assert part in message


@pytest.mark.parametrize("schema", [{"x": (0, 1)}, "schema", 5, [dps.Binary()]])
def test_the_schema_argument_is_a_schema(schema):
    assert "schema must be a dpstats.Schema, not" in refusal(schema=schema)


def test_bounds_and_levels_come_before_the_schema():
    wide = dps.Schema({"x": dps.Continuous(0, 50), "y": dps.Continuous(0, 50)})
    near, far = fit(schema=wide, epsilon=1, rng=np.random.default_rng(1)), fit(epsilon=1, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(near.params, far.params)
    whole = table().assign(x=lambda d: d.x.round())
    assert names("y ~ x", whole, schema=wide, bounds=None, levels={"x": [0, 1]}) == ["Intercept", "x[T.1]"]


def test_declared_columns_that_the_table_does_not_have_are_harmless():
    assert names(bounds={**UNIT, "elsewhere": (0, 1)}, levels={"nowhere": ["a"]}) == ["Intercept", "x"]


def test_sequences_of_two_numbers_are_bounds():
    expected = fit().params
    for pair in ([0, 1], (0, 1), np.array([0, 1]), (np.int64(0), np.float32(1))):
        np.testing.assert_array_equal(fit(bounds={"x": pair, "y": (0, 1)}).params, expected)


@pytest.mark.parametrize("term", ["g", "C(g)", "C(g, Sum)", "x:g"])
def test_one_level_has_nothing_to_estimate(term):
    message = refusal(f"y ~ x + {term}", levels={"g": ["a"]})
    assert "one declared level ('a')" in message
    assert "declare more levels" in message


def test_one_level_is_harmless_where_the_formula_does_not_use_the_column():
    assert names("y ~ x", levels={"g": ["a"]}) == ["Intercept", "x"]


# -- undeclared columns --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["g", "C(g)", "x:g", "C(g, Sum)", "Q('g')", "C(Q('g'))"])
def test_undeclared_text_prints_the_levels_line_to_write(term):
    message = refusal(f"y ~ x + {term}")
    assert "column 'g' has no declared levels" in message
    assert "levels={'g': ['...', '...']}" in message


@pytest.mark.parametrize("values", [pd.Categorical(["a", "b"] * 20), pd.Categorical([1, 2] * 20)])
def test_an_undeclared_category_prints_the_levels_line_and_none_of_its_levels(values):
    message = refusal("y ~ g", table().assign(g=values))
    assert "levels={'g': ['...', '...']}" in message
    assert "'a'" not in message


@pytest.mark.parametrize("term", ["x", "I(x**2)", "x:y2", "Q('x')", "`x`"])
def test_an_undeclared_number_in_a_short_table_prints_the_bounds_line_to_write(term):
    message = refusal(
        f"y ~ {term}", table().assign(y2=0.5), bounds={"y": (0, 1), "y2": (0, 1)}, epsilon=1, error=dps.InfeasibleError
    )
    assert "no bounds are declared for 'x'" in message
    assert "bounds={'x': (lowest, highest)}" in message
    assert "levels={...}" in message


@pytest.mark.parametrize("term", ["np.log1p(x)", "bs(x, df=4)", "np.exp(x) * y2"])
def test_an_undeclared_number_inside_a_transform_prints_the_bounds_line_to_write(term):
    message = refusal(f"y ~ {term}", table().assign(y2=0.5), bounds={"y": (0, 1), "y2": (0, 1)})
    assert "needs a declared range of 'x'" in message
    assert "bounds={'x': (lowest, highest)}" in message


def test_an_undeclared_response_is_named_too():
    assert "bounds={'y': (lowest, highest)}" in refusal(bounds={"x": (0, 1)}, epsilon=1, error=dps.InfeasibleError)


def test_an_undeclared_object_column_may_be_a_number_or_a_category():
    message = refusal("y ~ o", table().assign(o=pd.Series([1, "a"] * 20, dtype=object)))
    assert "bounds={'o': (lowest, highest)}" in message
    assert "levels={'o': [...]}" in message


@pytest.mark.parametrize("dtype", [bool, "boolean"])
def test_a_bool_column_needs_no_bounds(dtype):
    data = table().assign(b=pd.Series([True, False] * 20, dtype=dtype))
    assert names("y ~ x + b", data) == ["Intercept", "x", "b"]
    assert names("y ~ x + C(b)", data) == ["Intercept", "C(b)[T.True]", "x"]


# -- dtypes --------------------------------------------------------------------------------------------------------

N = 40
DATES = pd.date_range("2020-01-01", periods=N)
DTYPES = {
    "text": pd.array(["0.5"] * N, dtype="str"),
    "nullable text": pd.array(["0.5", None] * 20, dtype="string"),
    "datetime": DATES,
    "datetime with zone": DATES.tz_localize("UTC"),
    "timedelta": pd.timedelta_range("1D", periods=N),
    "period": pd.period_range("2020-01-01", periods=N, freq="D"),
    "complex": np.full(N, 0.5 + 0j),
    "interval": pd.arrays.IntervalArray.from_breaks(range(N + 1)),
}


@pytest.mark.parametrize("kind", DTYPES)
def test_a_dtype_that_is_no_number_is_refused_by_column_with_the_cure(kind):
    message = refusal("y ~ x", table().assign(x=DTYPES[kind]))
    assert "column 'x'" in message
    cure = {"text": "pandas.to_numeric", "nullable text": "pandas.to_numeric"}.get(kind, "turn it into")
    assert cure in message


@pytest.mark.parametrize("kind", ["datetime", "datetime with zone", "timedelta", "period", "complex", "interval"])
def test_such_a_dtype_is_refused_as_a_category_too(kind):
    message = refusal("y ~ C(x)", table().assign(x=DTYPES[kind]), bounds={"y": (0, 1)}, levels={"x": ["a", "b"]})
    assert "column 'x'" in message


def test_the_response_is_held_to_its_dtype_too():
    assert "column 'y' holds text" in refusal("y ~ x", table().assign(y=DTYPES["text"]))


NUMBERS = {
    "int8": np.tile(np.array([0, 1], dtype="int8"), 20),
    "uint64": np.tile(np.array([0, 1], dtype="uint64"), 20),
    "float16": np.tile(np.array([0, 1], dtype="float16"), 20),
    "longdouble": np.tile(np.array([0, 1], dtype=np.longdouble), 20),
    "bool": np.tile([False, True], 20),
    "nullable integer": pd.array([0, 1] * 20, dtype="Int64"),
    "nullable float": pd.array([0, 1] * 20, dtype="Float32"),
    "nullable bool": pd.array([False, True] * 20, dtype="boolean"),
    "sparse": pd.arrays.SparseArray([0.0, 1.0] * 20),
    "objects": pd.array([0, Decimal(1)] * 20, dtype=object),
    "category of numbers": pd.Categorical([0, 1] * 20),
    "category of texts": pd.Categorical(["0", "1"] * 20),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_numeric_dtype_is_read_as_the_same_numbers(kind):
    expected = fit("y ~ x", table().assign(x=np.tile([0.0, 1.0], 20)))
    found = fit("y ~ x", table().assign(x=NUMBERS[kind]))
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.nobs == N


@pytest.mark.parametrize("kind", [kind for kind in NUMBERS if kind != "category of texts"])
def test_every_numeric_dtype_is_read_as_the_same_levels(kind):
    declared = {"bounds": {"y": (0, 1)}, "levels": {"x": [0, 1]}}
    expected = fit("y ~ C(x)", table().assign(x=np.tile([0, 1], 20)), **declared)
    found = fit("y ~ C(x)", table().assign(x=NUMBERS[kind]), **declared)
    assert list(found.params.index) == ["Intercept", "C(x)[T.1]"]
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.nobs == N


@pytest.mark.parametrize("dtype", ["str", "string", object, "category"])
def test_every_text_dtype_is_read_as_the_same_levels(dtype):
    expected = fit("y ~ g", levels={"g": ["b", "a"]})
    found = fit("y ~ g", table().assign(g=pd.Series(["a", "b"] * 20, dtype=dtype)), levels={"g": ["b", "a"]})
    assert list(found.params.index) == ["Intercept", "g[T.a]"]
    np.testing.assert_array_equal(found.params, expected.params)


def test_declared_order_decides_the_reference_and_not_the_order_of_the_category():
    data = table().assign(g=pd.Categorical(["a", "b"] * 20, categories=["b", "a"], ordered=True))
    assert names("y ~ g", data, levels={"g": ["a", "b"]}) == ["Intercept", "g[T.b]"]


@pytest.mark.parametrize(
    ("formula", "levels", "says"),
    [
        ("y ~ C(x)", {"x": ["a", "b"]}, ["column 'x' holds numbers", "levels are text"]),
        ("y ~ C(g)", {"g": [1, 2]}, ["column 'g' holds text", "levels are numbers"]),
    ],
)
def test_levels_of_another_type_than_the_column_are_refused(formula, levels, says):
    message = refusal(formula, bounds={"y": (0, 1)}, levels=levels)
    for part in [*says, "as they stand in the column"]:
        assert part in message


def test_text_declared_numeric_is_refused_with_both_ways_out():
    message = refusal("y ~ g", bounds={**UNIT, "g": (0, 1)})
    assert "column 'g' holds text but is declared numeric" in message
    assert "pandas.to_numeric" in message
    assert "levels={'g': [...]}" in message


def test_a_column_of_levels_is_no_number():
    for term in ("I(g + 1)", "np.log1p(g)", "bs(g, df=4)", "x:I(g)"):
        message = refusal(f"y ~ {term}", levels={"g": ["a", "b"]})
        assert "column 'g' has declared levels" in message
        assert "C(g)" in message


# -- names in the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["x", "np.log1p(x)", "x:z", "bs(x, df=4)", "Q('x')", "`x`", "."])
def test_a_name_that_stands_twice_in_the_table_is_refused_where_it_is_used(term):
    data = pd.DataFrame(np.random.default_rng(0).random((60, 4)), columns=["y", "x", "x", "z"])
    message = refusal(f"y ~ {term}", data, bounds={**UNIT, "z": (0, 1)})
    assert "column name 'x' appears twice in data" in message
    assert "rename" in message


def test_a_response_that_stands_twice_is_refused_and_unused_duplicates_are_not():
    data = pd.DataFrame(np.random.default_rng(0).random((60, 4)), columns=["y", "x", "z", "z"])
    assert names("y ~ x", data) == ["Intercept", "x"]
    assert "'y' appears twice" in refusal("y ~ x", data.set_axis(["y", "x", "z", "y"], axis=1))


def test_names_that_are_no_text_are_read_as_text():
    data = pd.DataFrame(np.linspace(0, 1, 40), columns=[7]).assign(y=np.linspace(0, 1, 40))
    slope = fit("y ~ Q('7')", data, bounds={"y": (0, 1), "7": (0, 1)}).params.iloc[1]
    assert slope == pytest.approx(1, abs=1e-5)
    twice = pd.DataFrame(np.random.default_rng(0).random((40, 3)), columns=["y", 7, "7"])
    assert "'7' appears twice" in refusal("y ~ Q('7')", twice, bounds={"y": (0, 1), "7": (0, 1)})


# -- the shipped schemas -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [dps.datasets.load_adult, dps.datasets.load_bank])
def test_a_shipped_schema_declares_every_column_of_its_table(load):
    data, schema = load()
    assert list(schema) == list(data.columns)
    for name in schema:
        column = schema[name]
        if isinstance(column, dps.Continuous):
            assert data[name].dtype.kind in "if"
        else:
            assert set(data[name].dropna()) <= set(column.levels)


@pytest.mark.parametrize(
    ("dtype", "levels"), [(np.float16, [0, 2048, 2049, 2050]), (np.float32, [0, 16_777_216, 16_777_217])]
)
def test_levels_that_collide_in_a_narrow_dtype_stay_in_range(dtype, levels):
    codes = to_codes(np.array([*levels, 7], dtype=dtype), levels)
    assert codes.max() < len(levels)
    assert codes[0] == 0
    assert codes[-1] == -1
    found = np.array(levels, dtype=dtype)[codes[:-1]]
    np.testing.assert_array_equal(found, np.array(levels, dtype=dtype))


@pytest.mark.parametrize("declared", [{"levels": {"g": ["a", "\ud800"]}}, {"bounds": {"\ud800": (0, 1)}}], ids=ascii)
def test_names_and_levels_that_are_no_unicode_are_refused(declared):
    with pytest.raises(dps.SchemaError, match="surrogate pair"):
        dps.plan("y ~ x", 100, 1, **declared)


@pytest.mark.parametrize("formula", ["y ~ C(g)", "y ~ x * g"])
def test_levels_that_the_formula_library_would_drop_are_refused(formula):
    levels = {"g": ["a", "__other__", "c"]}
    with pytest.raises(dps.SchemaError, match=r"'__other__' begins with two underscores.*rename"):
        dps.plan(formula, 100, 1, bounds={"x": (0, 1), "y": (0, 1)}, levels=levels)


# -- level codes: the quick ways give what one look at each cell gives ---------------------------------------------


def codes_one_by_one(cells, levels):
    return [levels.index(cell) if type(cell) in (str, int, float, bool) and cell in levels else -1 for cell in cells]


@pytest.mark.parametrize("levels", [["a", "b", ""], [0, 1, 2.5], [True, "True"], [-1, 0.0, 3, "x"]])
def test_codes_of_cells_do_not_depend_on_how_they_are_looked_up(levels):
    cells = ["a", "b", "", None, np.nan, 0, 1, True, 2.5, -0.0, "True", "x", -1, 3, float("inf"), "zz"] * 3
    expected = codes_one_by_one(cells, levels)
    plain = np.array(cells, dtype=object)
    strange = np.array([*cells, {}], dtype=object)
    assert to_codes(plain, levels).tolist() == expected
    assert to_codes(strange, levels).tolist() == [*expected, -1]
    texts = [cell if isinstance(cell, str) else None for cell in cells]
    for dtype in ("str", "string[python]", "string[pyarrow]", "category"):
        assert to_codes(pd.array(texts, dtype=dtype), levels).tolist() == codes_one_by_one(texts, levels)


def test_codes_of_numbers_among_many_levels():
    rng = np.random.default_rng(0)
    levels = [*rng.permutation(400).tolist(), 0.5, "text"]
    numbers = np.concatenate([rng.integers(-20, 450, 500), [0.5, np.nan, np.inf, -0.0]])
    known = {level: code for code, level in enumerate(levels)}
    assert to_codes(numbers, levels).tolist() == [known.get(number, -1) for number in numbers.tolist()]
    assert to_codes(np.array([0.1, 0.3], dtype="f4"), [0.3, 0.1, 0.2]).tolist() == [1, 0]


@pytest.mark.parametrize(
    "levels", [[3, -5, 0, 7], [0], [10_000, 99_999], [0, 2**17 - 1], [0, 2**17], [2**53 - 1, 2**53]]
)
def test_codes_of_numbers_among_whole_levels(levels):
    near = [np.nextafter(level, side) for level in levels for side in (-np.inf, np.inf)]
    beyond = [1e-17, -0.0, 0.5, 1e300, -1e300, np.inf, -np.inf, np.nan, 2.0**63, -(2.0**63)]
    numbers = np.array([*levels, *near, *(level + step for level in levels for step in (-1, 1)), *beyond])
    known = {float(level): code for code, level in enumerate(levels)}
    assert to_codes(numbers, levels).tolist() == [known.get(number, -1) for number in numbers.tolist()]


def test_levels_with_an_equality_of_their_own_are_looked_up_on_their_own():
    class Rounded(float):
        def __eq__(self, other):
            return round(float(self)) == round(float(other))

        def __hash__(self):
            return hash(round(float(self)))

    numbers = np.array([1.25, 2.25, 1.0, 2.0])
    for levels, codes in (((Rounded(1.25), Rounded(2.25)), [0, 1, -1, -1]), ((1.0, 2.0), [-1, -1, 0, 1])) * 2:
        assert to_codes(numbers, levels).tolist() == codes
