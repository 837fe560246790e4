"""A column of few whole numbers is looked up: the same integers as from the same numbers read row by row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from helpers import planned

import dpstats as dps
from dpstats.records.rows import lattice_cells, lattice_rows
from dpstats.records.source import Partition, silence
from dpstats.specification import row_symbols
from dpstats.specification.polynomials import Symbol
from dpstats.specification.rowmap import RowMap
from dpstats.specification.symbols import ScalarSymbol

N = 3000
SCHEMA = {"y": dps.Continuous(0, 50), "x": dps.Continuous(-1, 1), "g": dps.Categorical(list("abc"))}
FORMULAS = [
    "y ~ a",
    "a ~ x",
    "y ~ a + I(a ** 2) + np.log(a + 3)",
    "y ~ bs(a, df=5)",
    "y ~ I(a > 20)",
    "y ~ a * x",
    "y ~ a * C(g) + bs(a, df=4) : x",
    "y ~ np.hypot(a, x) + a",
]


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def table(dtype, rng):
    limits = np.iinfo(dtype)
    ages = rng.integers(0, 110, N).astype(dtype)
    ages[:6] = limits.min, limits.max, limits.max - 1, 0, 100, 101
    return {"a": ages, "x": rng.uniform(-1, 1, N), "y": rng.uniform(-5, 60, N), "g": rng.choice(list("abcd"), N)}


def rows_of(plan, columns):
    return lattice_rows(Partition(columns, N), RowMap(plan.coding), plan.bits)


@pytest.mark.parametrize("bounds", [(0, 100), (18.5, 90.25), (1, 40)], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_whole_numbers_give_what_the_same_floats_give(formula, dtype, bounds, rng):
    columns = table(dtype, rng)
    for budget in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}):
        plan = planned(formula, columns, SCHEMA | {"a": dps.Continuous(*bounds)}, **budget).plan
        found, n = rows_of(plan, columns)
        as_read, n_as_read = rows_of(plan, columns | {"a": columns["a"].astype(np.float64)})
        assert np.array_equal(found, as_read)
        assert n == n_as_read
        cells = lattice_cells(Partition(columns, N), RowMap(plan.coding), plan.bits)
        assert np.array_equal(cells.dense, found)


@pytest.mark.parametrize(
    ("dtype", "bounds", "formula", "looked_up"),
    [
        ("int64", (0, 100), "y ~ a + I(a ** 2)", True),
        ("uint8", (0, 100), "y ~ a", True),
        ("int64", (0, row_symbols.FEW - 1), "y ~ a", True),
        ("int64", (0, row_symbols.FEW), "y ~ a", False),
        ("int64", (-1, 100), "y ~ a", False),
        ("uint64", (0, 100), "y ~ a", False),
        ("float64", (0, 100), "y ~ a", False),
        ("int64", (0, 100), "y ~ a + np.hypot(a, x)", False),
    ],
)
def test_dtype_bounds_and_formula_decide_what_is_looked_up(dtype, bounds, formula, looked_up, rng):
    columns = table("int64", rng)
    columns["a"] = np.clip(columns["a"], 0, 100).astype(dtype)
    row_map = RowMap(planned(formula, columns, SCHEMA | {"a": dps.Continuous(*bounds)}, epsilon=1.0).plan.coding)
    plan = row_symbols.plan_symbols(row_map.coding, row_map.blocks, with_response=True)
    symbols = row_symbols.row_symbols(plan, columns, N)
    assert (symbols.numbers["a"].places is columns["a"]) == looked_up
    assert ("a" in symbols.values) != looked_up


@pytest.mark.parametrize("missing", ["drop", "none"])
def test_a_looked_up_column_leaves_other_cells_missing(missing, rng):
    columns = table("int64", rng)
    columns["x"][:50] = np.nan
    bounds = {"y": (0, 50), "x": (-1, 1), "a": (0, 100)}
    fits = [
        dps.dp_ols("y ~ a + x", data, np.inf, bounds=bounds, missing=missing)
        for data in (columns, columns | {"a": columns["a"].astype(float)})
    ]
    assert fits[0].nobs == fits[1].nobs == (N if missing == "none" else N - 50)
    assert fits[0].params.equals(fits[1].params)


def test_weights_scale_a_looked_up_column(rng):
    columns = table("int16", rng) | {"w": rng.uniform(0, 4, N)}
    bounds = {"y": (0, 50), "a": (0, 100), "w": (0, 4)}
    fits = [
        dps.dp_ols("y ~ a", data, np.inf, bounds=bounds, weights="w")
        for data in (columns, columns | {"a": columns["a"].astype(float)})
    ]
    assert fits[0].params.equals(fits[1].params)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("radius", [2.0**20, 2.0**9, 1.0, 10.6, 7.4, -3.0])
@pytest.mark.parametrize(
    "bounds",
    [(0, 1), (-1, 1), (0.1, 0.3), (1e15, 1e15 + 1), (1, 1 + 2**-52), (-8e307, 8e307), (0, 1e-320), (1e-310, 3e-310)],
    ids=str,
)
def test_a_code_keeps_to_the_radius_and_to_the_exact_one(bounds, radius, whole, rng):
    lower, upper = map(float, bounds)
    symbol = ScalarSymbol(Symbol("x", ("x",)), lower, upper, sign=False, evaluate=None)
    numbers = np.clip(lower + (upper - lower) * rng.random(500), lower, upper)
    ends = [lower, np.nextafter(lower, upper), symbol.mid, np.nextafter(upper, lower), upper]
    numbers = np.sort([*ends, *numbers, -1.7e308, lower - symbol.half, upper + symbol.half, 1.7e308])
    with silence():
        coded = row_symbols.code_scalar(numbers, symbol, radius, whole=whole)
    assert np.abs(coded).max() <= (np.rint(abs(radius)) if whole else abs(radius))
    assert (np.diff(coded) * radius >= 0).all()
    limit, mid, scale = abs(Fraction(radius)), Fraction(symbol.mid), Fraction(radius) / Fraction(symbol.half)
    exact = [min(max((Fraction(x) - mid) * scale, -limit), limit) for x in numbers]
    assert max(abs(Fraction(c) - e) for c, e in zip(coded, exact, strict=True)) <= whole / 2 + abs(radius) * 2**-50


@pytest.mark.parametrize("bounds", [(0.8, 5.49), (15.8, 28.9), (-9.0, -7.6), (0, 1), (0, 1e-310)], ids=str)
def test_a_column_and_its_products_with_signs_are_the_same_whole_numbers(bounds):
    """Found in review: a code that is rounded at once and one that is first in [-1, 1] met different sides of a tie."""
    symbol = ScalarSymbol(Symbol("x", ("x",)), *map(float, bounds), sign=False, evaluate=None)
    steps = np.arange(-(2**20), 2**20, 37) + 0.5
    near = symbol.mid + symbol.half * steps / 2**20
    numbers = np.concatenate([np.nextafter(near, -np.inf), near, np.nextafter(near, np.inf), bounds])
    at_once = row_symbols.code_scalar(numbers, symbol, 2.0**20, whole=True)
    for sign in (1.0, -1.0):
        product = np.rint(row_symbols.code_scalar(numbers, symbol) * sign * 2.0**20)
        assert np.array_equal(product, sign * at_once)
