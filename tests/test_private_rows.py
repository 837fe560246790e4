"""One private cell, whatever it holds, changes one coded row and nothing else: no error, no warning, no other row."""

from __future__ import annotations

import datetime
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records.moments import sum_atoms
from dpstats.records.rows import lattice_rows
from dpstats.records.source import Partition, as_source, silence
from dpstats.specification.allowlist import ARITY
from dpstats.specification.coercion import array_of, coerce, kind_of, to_codes
from dpstats.specification.design import build_design
from dpstats.specification.evaluate import RowEvaluator
from dpstats.specification.grids import as_frame
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Categorical, Continuous, Schema

N, ROW = 40, 7


class Loud:
    """A cell that shouts whatever is done to it."""

    def __float__(self):
        warnings.warn("SECRET", stacklevel=1)
        raise KeyboardInterrupt("SECRET")

    __hash__ = __eq__ = __int__ = __index__ = __bool__ = __str__ = __array__ = __len__ = __float__


class FloatInDisguise(float):
    """A subclass of float is not a float."""

    def __float__(self):
        raise SystemExit("SECRET")


CELLS = {
    "loud": Loud(),
    "subclass": FloatInDisguise(0.5),
    "masked": np.ma.masked,
    "complex": 1 + 2j,
    "numpy complex": np.complex128(1 + 2j),
    "longdouble": np.longdouble("1e400"),
    "huge": 10**400,
    "signalling nan": Decimal("sNaN"),
    "beyond floats": Decimal("1e999"),
    "fraction": Fraction(1, 3),
    "list": [1, 2],
    "array": np.array([1.0, 2.0]),
    "frame": pd.DataFrame({"a": [1]}),
    "date": datetime.date(2020, 1, 1),
    "timestamp": pd.Timestamp("2020"),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "None": None,
    "bytes": b"a",
    "text": "SECRET",
    "lambda": lambda: 0,
    "unsigned": np.uint64(2**64 - 1),
}


def coded(formula, schema, columns):
    """The lattice rows of a dict of columns, and the warnings that were given."""
    source = as_source(columns)
    plan = plan_moments(build_design(formula, Schema(schema), source.facts), Budget(epsilon=1.0), N)
    row_map = RowMap(plan.coding)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = source.map_reduce(
            row_map.variables, lambda part: lattice_rows(part, row_map, plan.bits)[0], lambda a, b: np.vstack([a, b])
        )
    return rows, caught


SCHEMAS = {
    "y ~ x": {"x": Continuous(0, 1), "y": Continuous(0, 1)},
    "y ~ C(x)": {"x": Categorical(["a", "b"]), "y": Continuous(0, 1)},
    "y ~ np.sqrt(x) + bs(x, df=4)": {"x": Continuous(0, 1), "y": Continuous(0, 1)},
}


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("formula", SCHEMAS)
@pytest.mark.parametrize("container", ["frame", "array", "list"])
def test_a_hostile_cell_is_one_row_and_silent(formula, cell, container):
    base = np.empty(N, dtype=object)
    base[:] = list(np.tile(["a", "b"], N // 2) if "C(x)" in formula else np.linspace(0, 1, N))
    changed = base.copy()
    changed[ROW] = CELLS[cell]

    def table(cells):
        columns = {"x": list(cells) if container == "list" else cells, "y": np.linspace(0, 1, N)}
        return (
            pd.DataFrame({"x": pd.Series(cells, dtype=object), "y": columns["y"]}) if container == "frame" else columns
        )

    before, _ = coded(formula, SCHEMAS[formula], table(base))
    after, caught = coded(formula, SCHEMAS[formula], table(changed))
    others = np.arange(N) != ROW
    assert np.array_equal(before[others], after[others])
    assert not caught


SPECIAL = 0.123456789
EXPRESSIONS = [
    f"I(2 ** (1*(x > 5) - 2*(x == {SPECIAL})))",
    f"np.power(2, np.where(x == {SPECIAL}, -1, np.where(x > 5, 1, 2)))",
    f"I(((1*(x > 5) + 3**19) // (1 - 1*(x == {SPECIAL}))) * 3**18 % 1000)",
    f"I((1*(x > 5) + 7) % (2 - 1*(x == {SPECIAL})))",
    f"np.sqrt(np.abs(x - {SPECIAL})) + np.log1p(1*(x > 3))",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_value_between_grid_points_changes_its_own_row_only(expression):
    """Integer powers raised, and integer // changed the dtype of every row, when the formula library evaluated rows."""
    schema = Schema({"x": Continuous(0, 10), "y": Continuous(0, 1)})
    x = np.linspace(0, 10, N)
    special = np.where(np.arange(N) == ROW, SPECIAL, x)
    y = np.linspace(0, 1, N)
    try:
        plan = plan_moments(
            build_design(f"y ~ {expression}", schema, as_source({"x": x, "y": y}).facts), Budget(epsilon=1.0), N
        )
    except dps.DPStatsError:
        return  # refused from public facts, which is as good
    row_map = RowMap(plan.coding)
    rows = [lattice_rows(Partition({"x": v, "y": y}, N), row_map, plan.bits)[0] for v in (x, special)]
    others = np.arange(N) != ROW
    assert np.array_equal(rows[0][others], rows[1][others])


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "Float64", "boolean", "int64[pyarrow]"])
def test_a_missing_entry_does_not_change_how_other_entries_match_levels(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    values = pd.array([1, 0, 1] * 10, dtype="Int64").astype(dtype)
    holed = values.copy()
    holed[2] = pd.NA
    before, after = to_codes(values, [1, 0]), to_codes(holed, [1, 0])
    assert after[2] == -1
    others = np.arange(30) != 2
    assert np.array_equal(before[others], after[others])
    assert (before >= 0).all()


def test_levels_are_matched_at_the_columns_own_precision():
    tenths = np.tile(np.float32([0.1, 0.2]), 10)
    assert np.array_equal(to_codes(tenths, [0.1, 0.2]), np.tile([0, 1], 10))
    sparse = pd.arrays.SparseArray(tenths, fill_value=np.nan)
    assert np.array_equal(to_codes(sparse, [0.1, 0.2]), np.tile([0, 1], 10))
    with pytest.raises(dps.SchemaError, match="too large"):
        Categorical([2**53 + 1, 1])


def test_signalling_nan_in_float32_is_silent():
    x = np.linspace(0, 1, N, dtype=np.float32)
    x.view(np.uint32)[3] = 0x7F800001
    _, caught = coded("y ~ x", SCHEMAS["y ~ x"], {"x": x, "y": np.linspace(0, 1, N)})
    assert not caught


def test_underflow_raises_nothing_even_if_numpy_is_told_to():
    schema = {"a": Continuous(-1, 1), "b": Continuous(-1, 1), "y": Continuous(0, 1)}
    columns = {"a": np.full(N, 1e-200), "b": np.full(N, 1e-200), "y": np.linspace(0, 1, N)}
    with np.errstate(all="raise"):
        rows, caught = coded("y ~ a * b", schema, columns)
    assert not caught
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_signalling_nan_says_nothing(dtype):
    bits = np.array([0x7FA007A2] * 3, "u4").view("f4") if dtype == "f4" else np.array([0x7FF00000000007A2] * 3, "u8")
    cells = bits.view(dtype)  # R's NA_real_ is such a number
    schema = Schema({"x": Continuous(0, 1), "whole": Categorical([1, 2]), "half": Categorical([0.5, 1.5])})
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        values, complete = coerce(schema, dict.fromkeys(schema, cells), 3)
    assert not complete.any()
    assert all(np.isfinite(column).all() for column in values.values())


def test_silence_covers_warnings_and_floating_point():
    with silence(), warnings.catch_warnings(record=True) as caught:
        warnings.warn("SECRET", stacklevel=1)
        np.array([1.0]) / np.array([0.0])
    assert not caught


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (np.array(["1"] * 4, dtype=object), "object"),
        (["1", 2, None, "x"], "object"),
        (pd.Series(["a", "b"] * 2), "text"),
        (pd.Series([True, False] * 2), "bool"),
        (pd.Series(pd.Categorical([True, False] * 2)), "category"),
        (pd.Series(pd.date_range("2020", periods=4)), "datetime"),
        (np.array([1j] * 4), "other"),
        (pd.Series(pd.interval_range(0, 4)), "other"),
    ],
)
def test_a_kind_depends_on_the_dtype_alone(column, kind):
    assert as_source({"x": column}).facts.kinds["x"] == kind


@pytest.mark.parametrize("other", ["0.5", 0.5, None, Loud()])
def test_object_columns_have_one_kind_whatever_they_hold(other):
    cells = np.array(["1"] * 4, dtype=object)
    cells[0] = other
    assert as_source({"x": cells}).facts.kinds["x"] == "object"
    assert as_source({"x": list(cells)}).facts.kinds["x"] == "object"


@pytest.mark.parametrize("data", [{"x": range(4)}, {"x": "abcd"}, {"x": {1: 2}}, {"x": iter([1])}])
def test_containers_without_a_dtype_of_their_own_are_refused(data):
    with pytest.raises(dps.DataError, match="column 'x' of data must be a numpy array, a pandas Series or a list"):
        as_source(data)


def test_reading_that_fails_says_nothing():
    """A broken source releases nothing and shows neither message nor frames of the private zone."""
    import traceback

    from dpstats.release.noise import RealNoise
    from dpstats.release.release import NoisePlan, release_integers

    def statistic():
        cell = "SECRET"  # noqa: F841 - a local of the private zone
        raise MemoryError("SECRET")

    plan = NoisePlan("laplace", np.array([1.0]), np.array([1.0]))
    with pytest.raises(dps.ReleaseError) as caught:
        release_integers(statistic, plan, RealNoise())
    text = "".join(
        str(frame.locals) + frame.name
        for frame in traceback.TracebackException.from_exception(caught.value, capture_locals=True).stack[1:]
    )
    assert "SECRET" not in text + str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_neighbouring_tables_give_integers_that_differ_by_one_row():
    rng = np.random.default_rng(3)
    schema = Schema({"x": Continuous(0, 10), "g": Categorical(["a", "b", "c"]), "y": Continuous(0, 1)})
    data = pd.DataFrame({"x": rng.uniform(0, 10, N), "g": rng.choice(["a", "b", "c"], N), "y": rng.random(N)})
    plan = plan_moments(
        build_design("y ~ np.log1p(x) * C(g) + bs(x, df=4)", schema, as_source(data).facts), Budget(epsilon=1.0), N
    )
    row_map = RowMap(plan.coding)

    def sums(frame):
        return sum_atoms(as_source(frame), row_map, plan.atoms, plan.bits)

    changed = data.copy()
    changed.loc[ROW] = [np.inf, "z", 0.5]
    assert np.array_equal(sums(data) - sums(changed), sums(data.loc[[ROW]]) - sums(changed.loc[[ROW]]))
    assert kind_of(data["g"].dtype) == "text"
    assert array_of(data["x"]) is not None


# -- a row's value does not depend on where it stands -----------------------------------------------------------------

CALLS = {1: "{name}(x)", 2: "{name}(x, z)", 3: "{name}(x, -0.5, z)"}
POSITIONED = {
    **{name: CALLS[arity].format(name=name) for name, arity in ARITY.items() if name != "np.where"},
    "np.where": "np.where(x > z, x, z)",
    **{operator: f"I(x {operator} z)" for operator in ("+", "-", "*", "/", "**", "%", "//", "<", "==")},
    "signs of zeros": "np.arctan2(np.maximum(x, -x * 0), np.minimum(z, x * 0))",
}


def bits_of(values):
    """Numbers as bits, all nan alike."""
    return np.where(np.isnan(values), np.nan, values).view(np.int64)


@pytest.mark.parametrize("name", POSITIONED)
def test_no_function_depends_on_a_row_s_place_or_on_the_number_of_rows(name):
    """numpy's vector loops end in scalar ones, which may choose another sign of zero or another last bit."""
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 1e308, 0.5]
    x, z = rng.choice([*special, *rng.normal(size=40), *rng.normal(size=20) * 1e5], (2, 240))
    evaluate = RowEvaluator(POSITIONED[name], {}, {})
    whole = evaluate({"x": x, "z": z}, 240)
    for start in range(0, 240, 7):
        for length in (1, 2, 3, 5, 9, 31):
            part = slice(start, start + length)
            found = evaluate({"x": x[part], "z": z[part]}, len(x[part]))
            assert np.array_equal(bits_of(found), bits_of(whole[part]))


@pytest.mark.parametrize("length", range(1, 20))
def test_a_clipped_zero_has_one_sign_wherever_it_stands(length):
    cells = np.full(length, -0.0)
    for bounds in ((0, 1), (-1, 0), (-1, 1)):
        schema = Schema({"x": Continuous(*bounds)})
        values, _ = coerce(schema, {"x": cells}, length)
        assert (RowEvaluator("1 / x", {}, {})(values, length) == np.inf).all()
        assert not np.signbit(as_frame(schema, values)["x"]).any()


def test_a_removed_row_leaves_the_others_as_they_were():
    """Found by fuzzing: fmax(-0.0, 0.0) was 0.0 in a vector loop and -0.0 after it, half a turn apart for arctan2."""
    schema = Schema({"x": Continuous(0, 1), "z": Continuous(0, 2), "y": Continuous(0, 1)})
    columns = {name: np.zeros(8) for name in ("x", "y")} | {"z": np.array([0.0, 1.0, 0.5, 0.3, -0.0, 2.0, 1.0, 2.0])}
    source = as_source(columns)
    plan = plan_moments(build_design("y ~ np.arctan2(x, z)", schema, source.facts), Budget(epsilon=1.0), 8)
    rows = [
        lattice_rows(Partition({name: column[:n] for name, column in columns.items()}, n), RowMap(plan.coding), 20)[0]
        for n in (8, 7, 5)
    ]
    assert np.array_equal(rows[0][:5], rows[1][:5])
    assert np.array_equal(rows[0][:5], rows[2])
