"""Bad calls are refused from public facts before data are read; bad values give an ordinary result."""

from __future__ import annotations

import math
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.records import moments
from dpstats.records.source import FrameSource

INF = math.inf
BOUNDS = {"x": (0, 1), "z": (0, 1), "y": (0, 1)}
LEVELS = {"g": ["a", "b", "c"]}
N = 90


def table(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"x": rng.random(n), "z": rng.random(n), "g": rng.choice(["a", "b", "c"], n)})
    frame["y"] = np.clip(0.2 + 0.5 * frame.x + rng.normal(0, 0.1, n), 0, 1)
    return frame.assign(free=rng.random(n), text=rng.choice(["p", "q"], n), when=pd.Timestamp("2020-01-01"))


def with_cell(column: str, value: object, data: pd.DataFrame | None = None, row: int = 7) -> pd.DataFrame:
    """The table with one cell replaced; the column keeps its dtype if it can hold the value, else it holds objects."""
    data = table() if data is None else data.copy()
    cells = np.empty(len(data), dtype=object)
    cells[:] = list(data[column])
    cells[row] = value
    kept = isinstance(value, float) and data[column].dtype.kind == "f"
    data[column] = pd.Series(cells, index=data.index, dtype=float if kept else object)
    return data


def fit(formula: str = "y ~ x + z + C(g)", data: object = None, **options):
    options = {"bounds": BOUNDS, "levels": LEVELS, "infeasible": "fit", **options}
    if not {"epsilon", "rho"} & set(options):
        options["epsilon"] = 1
    return dps.dp_ols(formula, table() if data is None else data, rng=np.random.default_rng(11), **options)


# -- refused calls -------------------------------------------------------------------------------------------------

REFUSED = {
    "unknown column": ({"formula": "y ~ nosuch"}, ["'nosuch' is not a column of data", "'x'", "'z'"]),
    "unknown column in a function": ({"formula": "y ~ np.log1p(nosuch)"}, ["'nosuch'", "column"]),
    "unknown response": ({"formula": "nosuch ~ x"}, ["'nosuch' is not a column of data"]),
    "text in a numeric column": (
        {"formula": "y ~ text", "bounds": {**BOUNDS, "text": (0, 1)}},
        ["column 'text' holds text", "pandas.to_numeric", "levels={'text': [...]}"],
    ),
    "a date in a numeric column": (
        {"formula": "y ~ when", "bounds": {**BOUNDS, "when": (0, 1)}},
        ["column 'when' is a datetime", "days since a fixed day"],
    ),
    "undeclared levels": ({"formula": "y ~ C(text)"}, ["column 'text'", "levels={'text': ['...', '...']}"]),
    "undeclared bounds": (
        {"formula": "y ~ free"},
        ["no bounds are declared for 'free'", "bounds={'free': (lowest, highest)}"],
    ),
    "one level": ({"levels": {"g": ["a"]}}, ["C(g)", "one declared level ('a')", "declare more levels"]),
    "reversed bounds": ({"bounds": {**BOUNDS, "x": (1, 0)}}, ["bounds of 'x'", "reversed", "write (0, 1)"]),
    "infinite bounds": ({"bounds": {**BOUNDS, "x": (0, INF)}}, ["bounds of 'x'", "not finite"]),
    "missing bound": ({"bounds": {**BOUNDS, "x": (math.nan, 1)}}, ["bounds of 'x'", "not finite"]),
    "equal bounds": ({"bounds": {**BOUNDS, "x": (1, 1)}}, ["bounds of 'x'", "single value", "leave the column out"]),
    "text as bounds": ({"bounds": {**BOUNDS, "x": ("0", "1")}}, ["bounds of 'x'", "numbers, not text"]),
    "a logarithm of 0": ({"formula": "y ~ np.log(x)"}, ["np.log(x)", "x: (0, 1)", "lower bound > 0"]),
    "a logarithm of 0 as response": ({"formula": "np.log(y) ~ x"}, ["np.log(y)", "y: (0, 1)", "lower bound > 0"]),
    "a division by 0": ({"formula": "y ~ I(z / x)"}, ["z / x", "x: (0, 1)", "give bounds"]),
    "the root of a negative": ({"formula": "y ~ np.sqrt(x - 0.5)"}, ["np.sqrt(x - 0.5)", "x: (0, 1)", "give bounds"]),
    "a mean": ({"formula": "y ~ I(x - x.mean())"}, ["x.mean", "row-wise", "I(x - 50)"]),
    "a rank": ({"formula": "y ~ x.rank()"}, ["x.rank", "row-wise"]),
    "a lag": ({"formula": "y ~ lag(x)"}, ["lag", "row-wise"]),
    "two responses": ({"formula": "y + z ~ x"}, ["y + z ~ x", "one response", "I(...)"]),
    "no response": ({"formula": "~ x"}, ["no response", "write 'y ~ x'"]),
    "the response on the right": ({"formula": "y ~ x + y"}, ["'y' also stands on the right"]),
    "a text response": ({"formula": "g ~ x"}, ["dp_ols needs a numeric outcome", "'g' is text"]),
    "dependent columns": ({"formula": "y ~ x + I(2 * x)"}, ["x, I(2 * x)", "linearly dependent", "drop one"]),
    "no budget": ({"epsilon": None}, ["epsilon=1", "delta=1e-6", "rho=0.1"]),
    "epsilon of 0": ({"epsilon": 0}, ["epsilon must be above 0", "not 0"]),
    "negative epsilon": ({"epsilon": -1}, ["epsilon must be above 0", "not -1"]),
    "epsilon of nan": ({"epsilon": math.nan}, ["epsilon must be above 0"]),
    "text as epsilon": ({"epsilon": "1"}, ["epsilon must be a number", "'1'"]),
    "truth as epsilon": ({"epsilon": True}, ["epsilon must be a number", "True"]),
    "delta without epsilon": ({"epsilon": None, "delta": 1e-6}, ["delta needs an epsilon", "epsilon=1, delta=1e-6"]),
    "delta of 0": ({"delta": 0}, ["delta must be above 0"]),
    "delta of 1": ({"delta": 1}, ["delta must be below 1"]),
    "epsilon and rho": ({"rho": 0.1, "epsilon": 1}, ["either epsilon", "or rho, not both"]),
    "rho and delta": ({"epsilon": None, "rho": 0.1, "delta": 1e-6}, ["rho needs no delta"]),
    "rho of 0": ({"epsilon": None, "rho": 0}, ["rho must be above 0"]),
    "a budget too small": ({"epsilon": 1e-30}, ["budget is so small", "larger epsilon"]),
    "unknown mechanism": ({"mechanism": "nosuch"}, ["mechanism must be one of 'auto', 'ssp'", "'nosuch'"]),
    "bounds of no column": (
        {"formula": "y ~ x + free", "bounds": {**BOUNDS, "fre": (0, 1)}},
        ["bounds= names 'fre'", "not a column of data", "'free' has no declaration", "found privately"],
    ),
    "a schema that is a dict": ({"schema": {"x": (0, 1)}}, ["must be a dpstats.Schema, not dict", "dps.Continuous("]),
    "bounds as a list": ({"bounds": [("x", 0, 1)]}, ["bounds must be a dict keyed by column name"]),
}
NEIGHBOURS = {
    "missing": {"x": math.nan, "z": math.nan, "y": math.nan, "free": math.nan},
    "infinite": {"x": INF, "z": -INF, "y": INF, "free": INF},
    "huge": {"x": 1e308, "z": -1e308, "y": 1e308, "free": 1e308},
    "zero": {"x": 0.0, "z": 0.0, "y": 0.0, "free": 0.0},
    "another level": {"g": "rare", "text": "rare", "when": pd.Timestamp("1900-01-01")},
}


def neighbour(name: str) -> pd.DataFrame:
    """The table with one row replaced; all dtypes stay."""
    data = table()
    for column, value in NEIGHBOURS[name].items():
        data.loc[7, column] = value
    assert list(data.dtypes) == list(table().dtypes)
    return data


def message(call: dict, data: object = None) -> str:
    with pytest.raises(dps.DPStatsError) as caught:
        fit(**call, data=data)
    return str(caught.value)


def looked(*args, **options):
    raise pytest.fail.Exception("the data were read")


class Sealed(pd.DataFrame):
    """A table whose names, dtypes and length are known, and whose cells cannot be looked at."""

    __getitem__ = to_numpy = items = itertuples = __array__ = looked
    iloc = loc = values = property(looked)


def test_a_sealed_table_notices_a_fit():
    with pytest.raises(dps.ReleaseError):
        fit(data=Sealed(table()))


def test_the_table_in_the_place_of_the_formula_is_told_apart():
    with pytest.raises(dps.DataError, match="the formula comes first"):
        dps.dp_ols(table(), "y ~ x", epsilon=1)


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_names_the_cause_and_what_to_write_and_reads_nothing(case, monkeypatch):
    monkeypatch.setattr(FrameSource, "map_reduce", looked)
    monkeypatch.setattr(moments, "sum_cells", looked)
    call, parts = REFUSED[case]
    found = message(call, Sealed(table()))
    for part in parts:
        assert part in found


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_call_says_the_same_for_every_neighbouring_table(case):
    call, _ = REFUSED[case]
    assert len({message(call), *(message(call, neighbour(name)) for name in NEIGHBOURS)}) == 1


@pytest.mark.parametrize("case", REFUSED)
def test_every_refusal_is_a_value_error_in_one_plain_line(case):
    call, _ = REFUSED[case]
    with pytest.raises(ValueError, match=r"\A[^\n\x1b]+\Z"):
        fit(**call)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (table(0), "data has no rows"),
        ({}, "data has no columns"),
        ({"x": [], "y": []}, "data has no rows"),
        (table().x, "data must be a DataFrame of pandas, polars or Dask, .*, not Series"),
        (table()[["x", "y"]].to_numpy(), "not ndarray"),
        ([[0, 1]], "not list"),
        ("table.csv", "there is no file 'table.csv'"),
        (5, "not int"),
        ({"x": [0.5, 0.5], "y": [0.5]}, "differ in length"),
        ({"x": np.ones((2, 2)), "y": [0.5, 0.5]}, "column 'x' of data must be one-dimensional"),
        ({"x": 0.5, "y": 0.5}, "column 'x' of data must be a numpy array"),
    ],
    ids=[
        "no rows",
        "no columns",
        "empty lists",
        "series",
        "array",
        "list",
        "text",
        "number",
        "ragged",
        "matrix",
        "scalars",
    ],
)
def test_an_unusable_table_is_refused_with_what_is_expected(data, says):
    with pytest.raises(dps.DataError, match=says):
        fit("y ~ x", data)


def test_an_empty_table_is_refused_before_its_columns_are_looked_at():
    with pytest.raises(dps.DataError, match="no rows"):
        fit("y ~ x", table().head(0))


@pytest.mark.parametrize("epsilon", [10**400, 5e-324])
def test_an_extreme_epsilon_is_refused_without_a_warning(epsilon):
    with pytest.raises(dps.BudgetError):
        fit(epsilon=epsilon)


@pytest.mark.parametrize("rng", [1, np.random.RandomState(1), "seed"])
def test_a_seed_in_place_of_a_generator_is_refused_with_what_to_write(rng):
    with pytest.raises(dps.OptionError, match=r"numpy.random.default_rng\(1\)"):
        dps.dp_ols("y ~ x", table(), epsilon=1, bounds=BOUNDS, rng=rng)


# -- values that must not show -------------------------------------------------------------------------------------


class Hostile:
    """A cell that raises on everything that one could do with it."""

    def fail(self, *args):
        raise RuntimeError("secret")

    __float__ = __hash__ = __eq__ = __bool__ = __repr__ = __str__ = __int__ = __index__ = __len__ = fail


class RaisesKeyError:
    def __float__(self):
        raise KeyError("secret")

    def __hash__(self):
        raise MemoryError("secret")


class Endless:
    def __float__(self):
        return float(self)

    def __hash__(self):
        return hash(self)


class HashesLikeA:
    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        return np.array([True, False])


class Warns:
    def __float__(self):
        warnings.warn("secret", stacklevel=1)
        return 0.5

    def __hash__(self):
        warnings.warn("secret", stacklevel=1)
        return 5


CELLS = {
    "None": None,
    "nan": math.nan,
    "inf": INF,
    "-inf": -INF,
    "1e308": 1e308,
    "-1e308": -1e308,
    "tiny": 5e-324,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "hostile": Hostile(),
    "raises KeyError": RaisesKeyError(),
    "endless": Endless(),
    "hashes like a": HashesLikeA(),
    "Decimal": Decimal("0.5"),
    "Decimal nan": Decimal("sNaN"),
    "Decimal inf": Decimal("-Infinity"),
    "Fraction": Fraction(1, 3),
    "huge integer": 10**400,
    "text": "half",
    "text that is a number": "0.5",
    "long text": "9" * 5000,
    "bytes": b"0.5",
    "bool": True,
    "complex": 1j,
    "numpy complex": np.complex128(1 + 1j),
    "masked": np.ma.masked,
    "date": pd.Timestamp("2020-01-01"),
    "numpy date": np.datetime64("2020"),
    "list": [1, 2],
    "array of one": np.array([0.5]),
    "dict": {},
    "frame": pd.DataFrame(),
    "type": int,
}
BUDGETS = {
    "pure": {"epsilon": 1},
    "approximate": {"epsilon": 1, "delta": 1e-6},
    "zCDP": {"rho": 0.1},
    "none": {"epsilon": INF},
}
NAMES = ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "z"]


def assert_ordinary(
    data: object, formula: str = "y ~ x + z + C(g)", expected: list[str] | None = None, **budget
) -> None:
    """Finite coefficients and errors under the usual names, intervals, and no warning, whatever the filter."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = fit(formula, data, **budget)
        numbers = pd.concat([result.params, result.bse])
        intervals, p = result.conf_int(), result.pvalues
        printed = str(result.summary())
    assert seen == []
    assert list(result.params.index) == (expected or NAMES)
    assert np.isfinite(numbers).all()
    assert not intervals.isna().any(axis=None)
    assert p.between(0, 1).all()
    assert "secret" not in printed


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("column", ["x", "y", "g"])
@pytest.mark.parametrize("cell", ["None", "-inf", "1e308", "hostile"])
def test_one_odd_cell_gives_an_ordinary_result_for_every_budget(cell, column, budget):
    assert_ordinary(with_cell(column, CELLS[cell]), **BUDGETS[budget])


@pytest.mark.parametrize("column", ["x", "y", "g"])
@pytest.mark.parametrize("cell", CELLS)
def test_odd_cells_give_an_ordinary_result(cell, column):
    cells = np.empty(N, dtype=object)
    cells[:] = [CELLS[cell]] * N
    assert_ordinary(with_cell(column, CELLS[cell]), epsilon=1)
    assert_ordinary(table().assign(**{column: pd.Series(cells, dtype=object)}), epsilon=1)


@pytest.mark.parametrize("column", ["x", "g"])
def test_a_cell_that_warns_when_it_is_read_shows_no_warning(column):
    assert_ordinary(with_cell(column, Warns()), epsilon=1)


@pytest.mark.parametrize("budget", BUDGETS)
def test_mixed_types_in_one_column_give_an_ordinary_result(budget):
    mixed = pd.Series([0.5, "0.25", None, Decimal("0.75"), True, "text", 10**400, [1], pd.NA] * 10, dtype=object)
    levels = pd.Series(["a", "b", "c", None, 1, 0.5, ("a",), pd.NA, "rare"] * 10, dtype=object)
    assert_ordinary(table().assign(x=mixed), **BUDGETS[budget])
    assert_ordinary(table().assign(g=levels), **BUDGETS[budget])


@pytest.mark.parametrize(
    "formula", ["np.log1p(y) ~ np.sqrt(x) + z", "y ~ x*C(g)", "y ~ bs(x, df=4)", "y ~ I(x**2) + x"]
)
@pytest.mark.parametrize("value", [math.nan, INF, -INF, 1e308, None])
def test_odd_numbers_pass_through_transforms_without_a_trace(formula, value):
    expected = list(fit(formula).params.index)
    for column in ("x", "y"):
        assert_ordinary(with_cell(column, value), formula, expected, epsilon=1)
        assert_ordinary(table().assign(**{column: np.nan if value is None else value}), formula, expected, epsilon=1)


def test_infinite_and_huge_values_are_clipped_and_missing_ones_dropped():
    clipped = fit(data=with_cell("x", 1.0), epsilon=INF)
    for value in (INF, 1e308, Decimal("Infinity"), 5, 10**400):
        np.testing.assert_array_equal(fit(data=with_cell("x", value), epsilon=INF).params, clipped.params)
    dropped = fit(data=table().drop(index=7), epsilon=INF)
    for value in (math.nan, None, pd.NA, "text", Hostile(), 1j, np.complex128(1 + 1j)):
        found = fit(data=with_cell("x", value), epsilon=INF)
        assert found.nobs == N - 1
        np.testing.assert_array_equal(found.params, dropped.params)


DEGENERATE = {
    "an all-zero column": lambda d: d.assign(x=0.0),
    "a column at its upper bound": lambda d: d.assign(x=1.0),
    "a constant column inside its bounds": lambda d: d.assign(x=0.3),
    "an all-zero response": lambda d: d.assign(y=0.0),
    "a constant response": lambda d: d.assign(y=0.3),
    "all columns zero": lambda d: d.assign(x=0.0, z=0.0, y=0.0),
    "a level that never occurs": lambda d: d.assign(g=d.g.where(d.g != "b", "a")),
    "one level only": lambda d: d.assign(g="a"),
    "no declared level at all": lambda d: d.assign(g="rare"),
    "equal columns": lambda d: d.assign(z=d.x),
    "columns that add up to one": lambda d: d.assign(z=1 - d.x),
    "a column that is a level": lambda d: d.assign(x=(d.g == "b").astype(float)),
    "a perfect fit": lambda d: d.assign(y=d.x),
    "one row": lambda d: d.head(1),
    "two rows": lambda d: d.head(2),
    "three rows": lambda d: d.head(3),
    "one row many times": lambda d: pd.concat([d.head(1)] * 50),
    "all rows missing": lambda d: d.assign(x=np.nan),
    "all values infinite": lambda d: d.assign(x=INF, y=-INF),
    "repeated index labels": lambda d: d.set_axis([0] * len(d), axis=0),
    "an index of two levels": lambda d: d.set_index(["x", "z"], drop=False),
}


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("data", DEGENERATE)
def test_degenerate_data_give_an_ordinary_result_for_every_budget(data, budget):
    assert_ordinary(DEGENERATE[data](table()), **BUDGETS[budget])


@pytest.mark.parametrize("formula", ["y ~ x*C(g)", "y ~ bs(x, df=4) + z"])
@pytest.mark.parametrize("data", DEGENERATE)
def test_degenerate_data_give_an_ordinary_result_for_interactions_and_splines(data, formula):
    expected = list(fit(formula).params.index)
    for epsilon in (1, INF):
        assert_ordinary(DEGENERATE[data](table()), formula, expected, epsilon=epsilon)


@pytest.mark.parametrize("data", ["an all-zero column", "a level that never occurs", "equal columns"])
def test_what_degenerate_data_identify_is_right_without_noise(data):
    frame = DEGENERATE[data](table())
    found = fit(data=frame, epsilon=INF).predict(frame)
    kept = [np.ones(N), frame.z, *(frame.g == level for level in "bc"), frame.x]
    design = np.column_stack(kept)
    expected = design @ np.linalg.lstsq(design, frame.y, rcond=None)[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_noise_does_not_depend_on_the_values():
    """The same seed gives the same noisy count for three tables of complete rows, whatever their cells."""
    counts = {fit(data=table().assign(x=x), epsilon=1).nobs for x in (0.0, 1.0, 1e308)}
    assert len(counts) == 1
    assert counts != {N}


# -- no dtype is inferred from values ------------------------------------------------------------------------------

CONTAINERS = {
    "lists": list,
    "tuples": tuple,
    "object arrays": lambda cells: np.array([*cells, None], dtype=object)[:-1],
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    ("cell", "other"),
    [
        ("0.5", 0.5),
        (0.5, "text"),
        (0.5, None),
        (0.5, 1j),
        (True, None),
        (True, 2),
        (pd.Timestamp("2020-01-01"), 0.5),
        (Decimal("0.5"), "text"),
    ],
)
def test_columns_given_in_a_dict_end_the_same_way_whatever_one_cell_holds(container, cell, other):
    """A dtype found by looking at the values would tell a table from its neighbour."""
    make = CONTAINERS[container]
    y = np.linspace(0, 1, N)
    outcomes = []
    for cells in ([cell] * N, [cell] * (N - 1) + [other]):
        try:
            outcomes.append(list(fit("y ~ x", {"x": make(cells), "y": y}).params.index))
        except dps.DPStatsError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("container", CONTAINERS)
def test_levels_given_in_a_dict_end_the_same_way_whatever_one_cell_holds(container):
    make = CONTAINERS[container]
    y = np.linspace(0, 1, N)
    for cells in (["a", "b", "c"] * 30, ["a", "b", "c"] * 29 + ["a", "b", 7], ["a", "b", "c"] * 29 + ["a", "b", None]):
        found = fit("y ~ C(g)", {"g": make(cells), "y": y})
        assert list(found.params.index) == ["Intercept", "C(g)[T.b]", "C(g)[T.c]"]
