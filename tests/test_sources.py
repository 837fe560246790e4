"""One table in any container gives the same integers; what cannot be read is refused before anything is spent."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import dask
import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.models import progress
from dpstats.privacy.notions import Budget
from dpstats.records.levels import count_levels
from dpstats.records.limited import LimitedSource
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.records.sources import parquet
from dpstats.records.sources.arrow_columns import array_of_arrow, kind_of_arrow
from dpstats.records.sources.partitions import FREED_BYTES, Count, Partition, quick_rows
from dpstats.specification import arrow_text
from dpstats.specification.coercion import to_codes, to_distinct, to_numbers
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Categorical, Continuous, Schema, complete_schema

N = 20_000
TYPES = pa.schema(
    {
        "y": pa.float64(),
        "large": pa.int64(),
        "unsigned": pa.uint64(),
        "single": pa.float32(),
        "money": pa.decimal128(12, 3),
        "holed": pa.int64(),
        "text": pa.string(),
        "group": pa.dictionary(pa.int8(), pa.string()),
        "flag": pa.bool_(),
        "maybe": pa.bool_(),
        "person": pa.int64(),
    }
)
KINDS = {
    **dict.fromkeys(["y", "large", "unsigned", "single", "holed", "person"], "number"),
    **{"money": "object", "text": "text", "group": "category", "flag": "bool", "maybe": "bool"},
}
SCHEMA = Schema(
    {
        "y": Continuous(0, 1),
        "large": Continuous(2**52, 2**53 + 500),
        "unsigned": Continuous(0, 2**64),
        "single": Continuous(0, 1),
        "money": Continuous(0, 1_000),
        "holed": Continuous(2**52, 2**53 + 1_900),
        "text": Categorical(["a", "ä", ""]),
        "group": Categorical(["u", "v"]),
    }
)
FORMULA = "y ~ large + unsigned + single * flag + money + holed + C(text) + C(group) + maybe"


def frame() -> pd.DataFrame:
    """Columns of every kind, whose entries are missing, undeclared, beyond 2**53, or not to be told apart in floats."""
    rng = np.random.default_rng(0)
    cents = rng.integers(0, 10**6, N).tolist()
    return pd.DataFrame(
        {
            "y": np.where(rng.random(N) < 0.02, np.nan, rng.random(N)),
            "large": rng.integers(2**53 - 600, 2**53 + 600, N),
            "unsigned": rng.integers(0, 2**64, N, dtype=np.uint64),
            "single": rng.random(N).astype(np.float32),
            "money": pd.Series([None if i % 97 == 0 else Decimal(c) / 1000 for i, c in enumerate(cents)], dtype=object),
            "holed": pd.array(2**53 + rng.integers(0, 2_000, N), dtype="Int64"),
            "text": pd.array(rng.choice(["a", "ä", "", "undeclared"], N), dtype="string"),
            "group": pd.Categorical(rng.choice(["u", "v", "w"], N), categories=["w", "v", "u", "never"]),
            "flag": rng.random(N) < 0.5,
            "maybe": pd.array(rng.random(N) < 0.5, dtype="boolean"),
            "person": rng.integers(0, N // 3, N),
        }
    ).assign(
        holed=lambda table: table["holed"].mask(table.index % 31 == 0),
        text=lambda table: table["text"].mask(table.index % 41 == 0),
        group=lambda table: table["group"].mask(table.index % 43 == 0),
        maybe=lambda table: table["maybe"].mask(table.index % 47 == 0),
    )


@pytest.fixture(scope="module")
def containers(tmp_path_factory):
    """The same rows in every container."""
    folder = tmp_path_factory.mktemp("parquet")
    data = frame()
    table = pa.Table.from_pandas(data, schema=TYPES, preserve_index=False)
    order = np.random.default_rng(1).permutation(N)
    pq.write_table(table, folder / "one.parquet")
    pq.write_table(table, folder / "groups.parquet", row_group_size=777)
    parts = [folder / f"part{i}.parquet" for i in range(3)]
    for i, part in enumerate(parts):
        pq.write_table(table.slice(i * 7_000, 7_000), part)
    with dask.config.set({"dataframe.convert-string": False}):  # the library would turn decimals into text
        dasks = {f"dask, {k} partitions": dd.from_pandas(data, npartitions=k) for k in (1, 3, 17)}
    return {
        "pandas": data,
        "pandas, shuffled": data.iloc[order],
        "pandas of arrow": table.drop_columns(["money", "group"])
        .to_pandas(types_mapper=pd.ArrowDtype)
        .assign(money=data["money"], group=data["group"]),
        "dict": {name: data[name] for name in data},
        "polars": pl.from_arrow(table),
        "polars, lazy": pl.from_arrow(table).lazy(),
        "polars, scan": pl.scan_parquet(folder / "groups.parquet"),
        "arrow table": table,
        "arrow table, chunks": pa.concat_tables([table.slice(0, 3), table.slice(3, 9_000), table.slice(9_003)]),
        "arrow table, shuffled": table.take(order),
        "arrow dataset": ds.dataset(parts),
        "arrow dataset in memory": ds.dataset(table),
        "parquet": str(folder / "one.parquet"),
        "parquet, many row groups": folder / "groups.parquet",
        "parquet, several files": parts[::-1],
        "duckdb": duckdb.from_arrow(table),
        "duckdb, file": duckdb.read_parquet(str(folder / "groups.parquet")),
        **dasks,
    }


NAMES = [
    *("pandas", "pandas, shuffled", "pandas of arrow", "dict", "polars", "polars, lazy", "polars, scan"),
    *("arrow table", "arrow table, chunks", "arrow table, shuffled", "arrow dataset", "arrow dataset in memory"),
    *("parquet", "parquet, many row groups", "parquet, several files", "duckdb", "duckdb, file"),
    *("dask, 1 partitions", "dask, 3 partitions", "dask, 17 partitions"),
]
QUERIES = ["polars, lazy", "polars, scan", "duckdb", "duckdb, file"]
ORDERED = [name for name in NAMES if name not in {"parquet, several files", *QUERIES} and "shuffled" not in name]


def integers(data, partition_rows=5_000):
    source = as_source(data, partition_rows)
    facts = as_source(frame().head(1)).facts
    plan = plan_moments(build_design(FORMULA, complete_schema(SCHEMA, facts), facts), Budget(epsilon=1.0), N)
    return sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)


@pytest.mark.parametrize("name", NAMES)
def test_every_container_gives_identical_integers(containers, name):
    expected = integers(containers["pandas"], 16_384)
    assert expected.any()
    assert np.array_equal(integers(containers[name]), expected)


@pytest.mark.parametrize("name", NAMES)
def test_kinds_and_lengths_follow_from_declared_types(containers, name):
    source = as_source(containers[name])
    kinds = dict(source.facts.kinds)
    if name.startswith("duckdb"):
        kinds["group"] = {"text": "category"}[kinds["group"]]  # the engine takes a dictionary for a way of storing text
    assert kinds == KINDS
    assert source.n_rows == N
    assert "20000" not in repr(source)
    assert "20,000" not in repr(source)


@pytest.mark.parametrize("name", NAMES)
def test_every_container_gives_the_same_fit_under_the_same_simulated_noise(containers, name):
    fits = [
        dps.dp_ols(FORMULA, data, 5, schema=SCHEMA, cov_type="HC1", rng=np.random.default_rng(2))
        for data in (containers["pandas"], containers[name])
    ]
    assert fits[0].params.equals(fits[1].params)
    assert fits[0].bse.equals(fits[1].bse)
    assert fits[0].conf_int().equals(fits[1].conf_int())


@pytest.mark.parametrize(
    "name", [*NAMES[:1], "polars, scan", "parquet, several files", "duckdb", "dask, 17 partitions"]
)
def test_levels_and_bounds_are_the_same(containers, name):
    columns = ["text", "group", "flag", "maybe", "holed", "single", "money"]
    found, expected = (
        count_levels(as_source(data), tuple(columns)) for data in (containers[name], containers["pandas"])
    )
    for i, _ in enumerate(columns):
        pairs = [dict(zip(counts.levels[i], counts.counts[i].tolist(), strict=True)) for counts in (found, expected)]
        assert pairs[0] == pairs[1]
        assert {type(level) for level in pairs[0]} == {type(level) for level in pairs[1]}
    bounds = [
        dps.private_bounds(data, ["single", "unsigned"], 1, rng=np.random.default_rng(3))
        for data in (containers[name], containers["pandas"])
    ]
    assert bounds[0] == bounds[1]


# -- persons -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ORDERED)
def test_the_first_rows_of_a_person_are_the_same_in_every_container_with_an_order(containers, name):
    def limited(data):
        source = LimitedSource(as_source(data, 999), "person", 2)
        facts = source.facts
        plan = plan_moments(
            build_design("y ~ single + flag", complete_schema(SCHEMA, facts), facts), Budget(epsilon=1), N
        )
        return sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)

    expected = limited(containers["pandas"])
    assert not np.array_equal(expected, limited(containers["pandas, shuffled"]))
    assert np.array_equal(limited(containers[name]), expected)


@pytest.mark.parametrize("name", QUERIES)
def test_a_container_without_an_order_is_refused_for_persons(containers, name):
    with pytest.raises(dps.DataError, match="no order"):
        dps.dp_ols("y ~ single", containers[name], 1, schema=SCHEMA, privacy_unit="person", contributions=2)


# -- hostile columns ---------------------------------------------------------------------------------------------------

NOT_UTF8 = pa.array([b"a", b"\xff", None, b"b"], pa.binary())
COLUMNS = {
    "bytes that are no text": (NOT_UTF8.view(pa.string()), ["a", None, None, "b"]),
    "string view": (pa.array(["a", None, "x" * 99], pa.string_view()), ["a", None, "x" * 99]),
    "large string": (pa.array(["a", None], pa.large_string()), ["a", None]),
    "dictionary with a level twice": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2], pa.int8()), pa.array(["a", "a", "b"])),
        ["a", "a", None, "b"],
    ),
    "dictionary with a missing level": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 1], pa.uint8()), pa.array(["a", None])),
        ["a", None, None],
    ),
    "dictionary of bytes": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 3], pa.int64()), NOT_UTF8.view(pa.string())),
        ["a", None, "b"],
    ),
    "dictionary of all codes": (
        pa.DictionaryArray.from_arrays(pa.array([255, None, 0], pa.uint8()), pa.array([f"l{i}" for i in range(256)])),
        ["l255", None, "l0"],
    ),
    "dictionary of numbers": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array([1.5, float("nan"), -0.0])),
        [1.5, None, 0.0],
    ),
    "missing throughout": (pa.array([None, None], pa.null()), [None, None]),
    "missing numbers": (pa.array([None, None], pa.int8()), [None, None]),
    "unsigned": (pa.array([2**64 - 1, None], pa.uint64()), [2**64 - 1, None]),
    "half floats": (pa.array([np.float16(0.5), None], pa.float16()), [0.5, None]),
    "wide decimals": (pa.array([Decimal(10) ** 60, None], pa.decimal256(70, 3)), [Decimal(10) ** 60, None]),
    "sliced": (pa.array([True, None, False, True], pa.bool_()).slice(1), [None, False, True]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_of_arrow_are_read_like_plain_ones(name):
    column, cells = COLUMNS[name]
    plain = np.empty(len(cells), dtype=object)
    plain[:] = cells
    array = array_of_arrow(column)
    known = [cell for cell in cells if cell is not None]
    levels = [cell for cell in dict.fromkeys(known) if not isinstance(cell, Decimal) and cell not in (2**64 - 1,)]
    assert np.array_equal(to_numbers(array), to_numbers(plain), equal_nan=True)
    assert np.array_equal(to_codes(array, levels), to_codes(plain, levels))
    found, expected = to_distinct(array), to_distinct(plain)
    assert (found.codes == expected.codes).all()
    assert found.cells == expected.cells


@pytest.mark.parametrize("dtype", [pa.int64(), pa.uint8(), pa.bool_(), pa.float32(), pa.string(), pa.decimal128(3, 1)])
def test_a_missing_entry_changes_its_own_row_only(dtype):
    cells = [Decimal(1), Decimal(0), Decimal(1)] if pa.types.is_decimal(dtype) else [True, False, True]
    cells = [str(cell) for cell in cells] if dtype == pa.string() else cells
    full = array_of_arrow(pa.array(cells).cast(dtype))
    holed = array_of_arrow(pa.array([*cells[:2], None]).cast(dtype))
    for read in (to_numbers, lambda array: to_codes(array, [1, 0]), lambda array: to_codes(array, ["True", "False"])):
        assert np.array_equal(read(full)[:2], read(holed)[:2], equal_nan=True)


@pytest.mark.parametrize("n_columns", [0, 1, 5, 22, 60, 150, 1_000, 10**7])
def test_partitions_follow_the_number_of_columns(n_columns):
    rows = quick_rows(n_columns)
    assert 1 <= rows <= 2**17
    assert rows == 1 or rows * n_columns * 2 * 8 <= FREED_BYTES
    assert rows >= 2**15 or n_columns > 60
    wide = Partition(dict.fromkeys(map(str, range(min(n_columns, 1_000))), np.broadcast_to(0.0, 200_000)), 200_000)
    if n_columns <= 1_000:
        assert max(part.n_rows for part in wide.split(None)) == rows


TEXTS = ["a", "b", None, "a", "\x00", "", "ü", "b"] * 25
LEVELS = ["b", 1, "a", "ü", 2.5, ""]


@pytest.mark.parametrize(
    "dtype", ["str", "string[pyarrow]", pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.large_string())]
)
@pytest.mark.parametrize("two_threads", [2, 2**14])
def test_texts_of_arrow_are_looked_up_like_plain_ones(dtype, two_threads, monkeypatch):
    monkeypatch.setattr(arrow_text, "TWO_THREADS", two_threads)
    plain = np.array(TEXTS, dtype=object)
    whole = pd.Series(TEXTS, dtype=dtype)
    for column in (whole, pd.concat([whole[:7], whole[7:]], ignore_index=True), whole[3:4], whole[:0]):
        expected = to_codes(plain[column.index], LEVELS)
        assert (to_codes(column.array, LEVELS) == expected).all()
        assert (to_codes(column.array, [1, 2]) == -1).all()


NO_TEXT = {
    "string": lambda texts: pd.array(texts, dtype=pd.ArrowDtype(pa.string())),
    "str": lambda texts: pd.Series(pd.array(texts, dtype=pd.ArrowDtype(pa.string()))).astype("str").array,
    "dictionary": lambda texts: array_of_arrow(texts.dictionary_encode()),
    "rows of a dictionary": lambda texts: array_of_arrow(texts.dictionary_encode())[np.ones(4, dtype=bool)],
    "two dictionaries": lambda texts: pd.arrays.ArrowExtensionArray(
        pa.chunked_array([texts[:2].dictionary_encode(), texts[2:].dictionary_encode()])
    ),
}


@pytest.mark.parametrize("kind", NO_TEXT)
def test_bytes_that_are_no_text_are_missing_and_no_error(kind):
    column = NO_TEXT[kind](NOT_UTF8.view(pa.string()))
    assert to_codes(column, ["b", "a"]).tolist() == [1, -1, -1, 0]
    assert to_codes(column, [np.str_("b"), "a"]).tolist() == [1, -1, -1, 0]
    assert np.isnan(to_numbers(column)).all()
    found = to_distinct(column)
    assert (found.codes.tolist(), found.cells) == ([0, -1, -1, 1], ["a", "b"])


WRITTEN = {
    "dictionary": ({}, True),
    "dictionary in pages of version 2": ({"data_page_version": "2.0"}, True),
    "dictionary, then short texts": ({"dictionary_pagesize_limit": 1}, True),
    "plain": ({"use_dictionary": ["n"]}, False),
    "delta": ({"use_dictionary": False, "column_encoding": {"g": "DELTA_BYTE_ARRAY"}}, False),
    "delta of lengths": ({"use_dictionary": False, "column_encoding": {"g": "DELTA_LENGTH_BYTE_ARRAY"}}, False),
}


@pytest.mark.parametrize("way", WRITTEN)
def test_texts_of_a_file_are_read_alike_however_they_are_written(way, tmp_path, monkeypatch):
    options, coded = WRITTEN[way]
    monkeypatch.setattr(parquet, "BATCH_ROWS", 400)
    cells = [*TEXTS * 10, *sorted(filter(None, TEXTS))]
    raw = pa.array([cell if cell is None else cell.encode() for cell in cells[:-1]] + [b"\xff"], pa.binary())
    table = pa.table({"g": raw.view(pa.string()), "n": range(len(cells))})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, row_group_size=700, data_page_size=200, **options)
    assert parquet._coded_texts(pq.ParquetFile(path)) == ["g"] * coded
    parts = list(as_source(path).partitions(("g", "n")))
    assert len(parts) > 3
    found = np.concatenate([to_codes(part.columns["g"], LEVELS) for part in parts])
    assert (found == to_codes(np.array([*cells[:-1], None], dtype=object), LEVELS)).all()
    assert np.concatenate([part.columns["n"] for part in parts]).tolist() == list(range(len(cells)))


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (pa.date32(), "datetime"),
        (pa.timestamp("us", "UTC"), "datetime"),
        (pa.duration("s"), "datetime"),
        (pa.time32("s"), "other"),
        (pa.binary(), "other"),
        (pa.list_(pa.int8()), "other"),
        (pa.struct({"a": pa.int8()}), "other"),
        (pa.dictionary(pa.int8(), pa.date32()), "other"),
        (pa.decimal256(50, 2), "object"),
        (pa.null(), "object"),
        (pa.float16(), "number"),
    ],
    ids=str,
)
def test_kinds_of_types(dtype, kind):
    assert kind_of_arrow(dtype) == kind


@pytest.mark.parametrize("dtype", [pl.Int128, pl.Object, pl.Time, pl.List(pl.Int8), pl.Binary], ids=str)
def test_a_column_of_polars_that_cannot_be_read_is_refused_where_it_is_used_only(dtype):
    data = pl.DataFrame({"y": [0.5] * 200, "x": pl.Series([None] * 200, dtype=dtype)})
    assert as_source(data).facts.kinds == {"y": "number", "x": "other"}
    with pytest.raises(dps.SchemaError, match="cannot read"):
        dps.dp_ols("y ~ x", data, 1, bounds={"y": (0, 1), "x": (0, 1)})
    assert np.isfinite(dps.dp_ols("y ~ 1", data, 100, bounds={"y": (0, 1)}, infeasible="fit").params).all()


def test_names_are_taken_literally():
    names = ["^.*$", "*", "a.b", 'a"b', "a b"]
    table = pa.table({name: np.full(9, float(i)) for i, name in enumerate(names)} | {"other": ["x"] * 9})
    for data in (table, pl.from_arrow(table), pl.from_arrow(table).lazy(), duckdb.from_arrow(table), ds.dataset(table)):
        for i, name in enumerate(names):
            (part,) = as_source(data).partitions((name,))
            assert part.columns[name].tolist() == [float(i)] * 9


def test_an_empty_table_is_refused_and_an_empty_partition_is_not(tmp_path):
    table = pa.table({"x": pa.array([], pa.float64()), "y": pa.array([], pa.float64())})
    pq.write_table(table, tmp_path / "empty.parquet")
    for data in (table, pl.from_arrow(table), pl.from_arrow(table).lazy(), tmp_path / "empty.parquet"):
        with pytest.raises(dps.DataError, match="no rows"):
            dps.dp_ols("y ~ x", data, 1, bounds={"x": (0, 1), "y": (0, 1)})
    full = pd.DataFrame({"x": [0.5], "y": [0.5]})
    parts = dd.concat([dd.from_pandas(full, npartitions=1), dd.from_pandas(full.head(0), npartitions=1)])
    assert as_source(parts).n_rows == 1
    assert as_source(parts).map_reduce(("x",), lambda part: part.columns["x"].sum(), lambda a, b: a + b) == 0.5


# -- refusals ----------------------------------------------------------------------------------------------------------


def fit(data, **options):
    return dps.dp_ols("y ~ x", data, 1, bounds={"x": (0, 1), "y": (0, 1)}, infeasible="fit", **options)


TABLE = pa.table({"x": np.linspace(0, 1, 999), "y": np.linspace(0, 1, 999)})


def test_what_can_be_read_once_is_refused(tmp_path):
    pd.DataFrame({"x": [1.0], "y": [1.0]}).to_csv(tmp_path / "table.csv")
    with pd.read_csv(tmp_path / "table.csv", chunksize=1) as chunks:
        for data in (TABLE.to_reader(), (batch for batch in TABLE.to_batches()), iter([TABLE]), chunks):
            with pytest.raises(dps.DataError, match="can be read only once"):
                fit(data)
    with pytest.raises(dps.DataError, match="not list"):
        fit(TABLE.to_batches())


def test_paths_are_checked_before_anything_is_spent(tmp_path):
    ledger = dps.Ledger(tmp_path / "budget", epsilon=1, dataset="d")
    pq.write_table(TABLE, tmp_path / "a.parquet")
    pq.write_table(TABLE.set_column(0, "x", pa.array([1] * 999)), tmp_path / "b.parquet")
    pq.write_table(TABLE.select(["y"]), tmp_path / "c.parquet")
    (tmp_path / "text.parquet").write_text("x,y\n31.41592,1\n")
    a, b, c = (tmp_path / f"{name}.parquet" for name in "abc")
    for data, says in (
        (tmp_path / "none.parquet", "there is no file"),
        (tmp_path, "is a folder"),
        (tmp_path / "text.parquet", "cannot be read as a Parquet file"),
        ([a, b], "column 'x' has another type in file 2"),
        ([a, a, c], "column 'x' is missing in file 3"),
        (ds.dataset([a, b]), "column of another type"),
    ):
        with pytest.raises(dps.DataError, match=says) as caught:
            fit(data, ledger=ledger)
        assert "31.4" not in str(caught.value)
        assert caught.value.__context__ is None
    assert ledger.history().empty


def test_a_damaged_file_is_a_release_error_that_shows_nothing_and_is_charged_once(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE, path, compression="zstd")
    content = bytearray(path.read_bytes())
    content[200:4_000] = b"secret" * 633 + b"se"
    path.write_bytes(content)
    ledger = dps.Ledger(tmp_path / "budget", epsilon=1, dataset="d")
    with pytest.raises(dps.ReleaseError) as caught:
        fit(path, ledger=ledger)
    assert "secret" not in str(caught.value)
    assert str(path) not in str(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    assert len(ledger.history()) == 1


def test_a_table_that_changes_between_readings_is_noticed(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(TABLE, path)
    source = as_source(path)
    assert source.n_rows == 999
    pq.write_table(TABLE.slice(1), path)
    with pytest.raises(dps.DataError, match="has changed"):
        source.map_reduce(("x",), lambda part: part.n_rows, lambda a, b: a + b)


def test_a_query_that_fails_shows_no_cell(tmp_path):
    relation = "add_or_remove_one"
    ledger = dps.Ledger(tmp_path / "budget", epsilon=2, dataset="d", neighboring_relation=relation)
    text = pl.LazyFrame({"x": ["0.5", "secret"] * 100, "y": [0.5] * 200})
    for data in (text.cast({"x": pl.Float64}), duckdb.sql("select 'secret'::double x, 0.5 y from range(200)")):
        with pytest.raises(dps.ReleaseError) as caught:
            fit(data, neighboring_relation=relation, ledger=ledger)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    assert len(ledger.history()) == 2
    with pytest.raises(dps.DataError) as caught:
        fit(text.filter(pl.col("x").cast(pl.Float64) > 0).with_columns(x=pl.col("y")))
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("library", "data", "extra"),
    [
        ("polars", pl.DataFrame({"x": [1.0]}), "polars"),
        ("pyarrow.parquet", "table.parquet", "parquet"),
        ("duckdb", duckdb.sql("select 1 x"), "duckdb"),
        ("dask", dd.from_pandas(pd.DataFrame({"x": [1.0]}), npartitions=1), "dask"),
    ],
)
def test_a_missing_library_is_named_by_its_extra(monkeypatch, library, data, extra):
    monkeypatch.setitem(sys.modules, library, None)
    for module in ("polars", "parquet", "duckdb", "dask"):
        monkeypatch.delitem(sys.modules, f"dpstats.records.sources.{module}", raising=False)
    with pytest.raises(dps.DataError, match=rf"pip install 'dpstats\[{extra}\]'"):
        fit(data)


def test_no_optional_library_is_imported_at_the_start():
    code = (
        "import sys, formulaic, pandas, statsmodels.tools.data; before = set(sys.modules); import dpstats; "
        "print(sorted({'polars', 'pyarrow', 'pyarrow.parquet', 'pyarrow.dataset', 'duckdb', 'dask'} "
        "& (set(sys.modules) - before)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


# -- length ------------------------------------------------------------------------------------------------------------


class Reads:
    """A table of polars that notes each run of its query."""

    def __init__(self):
        self.runs = 0

    def query(self) -> pl.LazyFrame:
        return pl.from_arrow(TABLE).lazy().map_batches(self._noted, projection_pushdown=False)

    def _noted(self, table: pl.DataFrame) -> pl.DataFrame:
        self.runs += 1
        return table


def test_rows_are_counted_only_where_their_number_is_public():
    public, private, refused = Reads(), Reads(), Reads()
    fit(public.query())
    fit(private.query(), neighboring_relation="add_or_remove_one")
    with pytest.raises(dps.FormulaError):
        dps.dp_ols("y ~ typo", refused.query(), 1, bounds={"x": (0, 1), "y": (0, 1)})
    assert (public.runs, private.runs, refused.runs) == (2, 1, 0)


def test_a_count_is_made_once():
    calls = []
    count = Count(lambda: calls.append(1) or 5)
    assert (count(), count(), len(calls)) == (5, 5, 1)


# -- memory ------------------------------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
import numpy as np
import dpstats as dps

def fit(path):
    bounds = {name: (0, 1) for name in ("y", "a", "b", "c")}
    dps.dp_ols("y ~ a + b + c + C(g)", path, 1, bounds=bounds, levels={"g": ["u", "v"]}, rng=np.random.default_rng(0))

fit(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""
AGAIN = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
"""A process counts as its own the peak of the one that started it, so a small one stands in between."""


@pytest.mark.slow
@pytest.mark.parametrize("group", [250_000, 6_000_000], ids=["row groups", "one row group"])
def test_memory_of_a_parquet_file_does_not_grow_with_its_length(tmp_path, group):
    rng = np.random.default_rng(0)
    schema = pa.schema({**dict.fromkeys("yabc", pa.float64()), "g": pa.string(), "unused": pa.float64()})
    peaks = {}
    for n in (1_000_000, 6_000_000):
        path = tmp_path / f"{n}.parquet"
        columns = {**{name: rng.random(n) for name in (*"yabc", "unused")}, "g": rng.choice(["u", "v"], n)}
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=group)
        command = [sys.executable, "-c", AGAIN, sys.executable, "-c", MEASURE, str(path)]
        peaks[n] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    in_memory = 5_000_000 * (4 * 8 + 1) // 2**20
    assert in_memory > 150
    assert peaks[6_000_000] - peaks[1_000_000] < 25, peaks


# -- progress ----------------------------------------------------------------------------------------------------------


def test_short_work_shows_nothing(capsys):
    fit(TABLE, progress=True)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "relation", "share"),
    [
        ("pandas", "replace_one", True),
        ("pandas", "add_or_remove_one", False),
        ("parquet, many row groups", "replace_one", True),
        ("dask, 3 partitions", "replace_one", False),
    ],
)
def test_long_work_shows_time_and_public_shares_only(capsys, monkeypatch, containers, name, relation, share):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "STEP", 0.001)
    dps.dp_ols(
        FORMULA, containers[name], 5, schema=SCHEMA, neighboring_relation=relation, cov_type="HC1", progress=True
    )
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "dpstats" in shown.err
    assert ("%" in shown.err) == share
    assert not {"20000", "20,000"} & set(shown.err.split())


def test_an_iteration_does_not_show_how_many_readings_it_takes(capsys, monkeypatch):
    from dpstats.records import predictors

    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "STEP", 0.0005)
    monkeypatch.setattr(predictors, "KEPT_ENTRIES", 0)
    rng = np.random.default_rng(0)
    data = {"x": rng.random(50_000), "y": rng.integers(0, 2, 50_000)}
    dps.dp_logit("y ~ x", data, 1, bounds={"x": (0, 1)}, levels={"y": [0, 1]}, progress=True)
    shown = capsys.readouterr().err
    assert "dpstats" in shown
    assert "%" not in shown


def test_progress_is_true_or_false():
    with pytest.raises(dps.OptionError, match="progress must be True or False"):
        fit(TABLE, progress="yes")
