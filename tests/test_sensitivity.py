"""Sensitivities: no pair of records exceeds a stated bound, worst pairs attain it, and wrong formulas are caught.

Records are searched over all corners and by ascent from random interior points; then real tables that differ in one
row go through the real row map, lattice and noise scales.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.records.moments import sum_atoms
from dpstats.records.rows import guard_vectors
from dpstats.records.source import FrameSource
from dpstats.specification.atoms import STRUCTURAL_ZERO, Atoms, build_atoms
from dpstats.specification.blocks import Block, make_block
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema, TableFacts
from dpstats.specification.sensitivity import (
    alias_factor,
    atom_weights,
    l1_sensitivity,
    l2_sensitivity,
    lattice_radius,
    row_norms,
)

NOISES = ("laplace", "gaussian")
EXACT = 1 + 1e-9
WIDTH = 3
SIZES = {"g": 3, "h": 3, "f": 2, "v": WIDTH}
FACTORS = ("g", "h", "f")
SIGNS = ("b",)

SINGLE = ("1 y", "1 x y", "1 x z y", "g x y", "g h y", "g:h y", "g h f y", "b g x y", "1 b x b:x y")
SIGNED = ("g x:g y", "g:h x:g y", "g h x:g z y", "g h x:g x:h y", "g h x:g z:h y", "g h f x:f z y")
VECTOR = ("1 v y", "g v:g x y", "1 x v x:v y")
DESIGNS = SINGLE + SIGNED + VECTOR + ("1 x z x:z y",)


@dataclass(frozen=True)
class Records:
    """Many records: entries of symbols, levels of factors (-1 for none), and rows of the vector symbol."""

    entries: np.ndarray
    levels: np.ndarray
    vectors: np.ndarray

    def __len__(self):
        return len(self.entries)

    def chosen(self, mask, other):
        """Take `other` where the mask is true."""
        pairs = ((self.entries, other.entries), (self.levels, other.levels), (self.vectors, other.vectors))
        return Records(*(np.where(mask[:, None], new, old) for old, new in pairs))


@dataclass(frozen=True)
class Layout:
    """Blocks of a design in short notation, such as "g x:g y", and their atoms."""

    blocks: tuple[Block, ...]
    atoms: Atoms
    symbols: tuple[str, ...]
    factors: tuple[str, ...]

    @property
    def has_vector(self):
        return any(block.vectors for block in self.blocks)

    def code(self, records):
        """Coded columns of complete records."""
        columns = []
        for block in self.blocks:
            monomial = np.ones(len(records))
            for symbol, _ in block.degrees:
                monomial = monomial * records.entries[:, self.symbols.index(symbol)]
            for position in block.positions():
                column = monomial
                for factor, level in zip(block.factors, position, strict=False):
                    column = column * (records.levels[:, self.factors.index(factor)] == level)
                for k in position[len(block.factors) :]:
                    column = column * records.vectors[:, k]
                columns.append(column)
        return np.column_stack(columns)

    def statistics(self, columns, one=1.0):
        """Atoms of complete rows, shape (n, K); `one` is what a row adds to the count."""
        left, right = self.atoms.left, self.atoms.right
        return np.where(left < 0, one, columns[:, left] * columns[:, right])

    def sums(self, records):
        return self.statistics(self.code(records))

    def corners(self, lowest_level=0):
        """All records with entries -1 and +1, at all levels, with vectors along the axes."""
        values = list(itertools.product(*[(-1.0, 1.0) for _ in self.symbols]))
        levels = list(itertools.product(*[range(lowest_level, SIZES[factor]) for factor in self.factors]))
        vectors = [*np.eye(WIDTH), *-np.eye(WIDTH)] if self.has_vector else [np.zeros(WIDTH)]
        rows = list(itertools.product(values, levels, vectors))
        shapes = (len(self.symbols), len(self.factors), WIDTH)
        return Records(*(np.array([row[k] for row in rows]).reshape(len(rows), shapes[k]) for k in range(3)))


@functools.cache
def layout(text):
    blocks = []
    for name in text.split():
        parts = [] if name == "1" else name.split(":")
        degrees = tuple((part, 1) for part in sorted(parts) if part not in SIZES)
        factors = [part for part in parts if part in FACTORS]
        blocks.append(make_block(degrees, factors, [part for part in parts if part == "v"], SIZES, SIGNS))
    symbols = sorted({symbol for block in blocks for symbol, _ in block.degrees})
    factors = sorted({factor for block in blocks for factor in block.factors})
    return Layout(tuple(blocks), build_atoms(blocks, SIGNS), tuple(symbols), tuple(factors))


def weights_of(design, noise, s):
    return atom_weights(design.blocks, design.atoms, np.asarray(s, dtype=float), noise)


def bound_of(design, noise, s):
    """Largest allowed weighted change: Delta_1, or the square of Delta_2."""
    norms = row_norms(design.blocks, np.asarray(s, dtype=float), noise)
    return l1_sensitivity(norms) if noise == "laplace" else l2_sensitivity(norms) ** 2


def block_weights(design, n_draws, seed=0):
    """Unit weights, then random ones."""
    rng = np.random.default_rng(seed)
    return [np.ones(len(design.blocks)), *rng.uniform(0.4, 2.5, (n_draws, len(design.blocks)))]


def changes(first, second, w, noise):
    """Weighted change of each pair of rows of statistics."""
    gap = np.abs(first - second)
    return (gap if noise == "laplace" else gap**2) @ w


def largest_pair(statistics, w, noise):
    """Largest weighted change between any two rows of statistics, and the pair."""
    scaled = statistics * (w if noise == "laplace" else np.sqrt(w))
    table = cdist(scaled, scaled, "cityblock" if noise == "laplace" else "sqeuclidean")
    return table.max(), np.unravel_index(table.argmax(), table.shape)


def from_incomplete(statistics, w, noise):
    """Largest weighted change against an incomplete record, which adds 0 to every sum."""
    return changes(statistics, 0.0, w, noise).max()


def random_vectors(rng, n, noise):
    """Rows of L1 or L2 norm 1, many of them along an axis."""
    rows = rng.normal(size=(n, WIDTH))
    rows[rng.random(n) < 0.5, 1:] = 0.0
    return rows / np.linalg.norm(rows, ord=1 if noise == "laplace" else 2, axis=1)[:, None]


def random_records(design, rng, n, noise):
    """Records inside the cube, many entries on its faces."""
    inside = np.clip(rng.uniform(-1.8, 1.8, (n, len(design.symbols))), -1, 1)
    is_sign = [symbol in SIGNS for symbol in design.symbols]
    values = np.where(is_sign, np.sign(inside), inside)
    levels = np.array([rng.integers(0, SIZES[f], n) for f in design.factors], dtype=int).reshape(-1, n).T
    return Records(values, levels, random_vectors(rng, n, noise))


def moves(design, records, rng, noise):
    """Yield variants of all records in one coordinate."""
    n = len(records)
    for j, symbol in enumerate(design.symbols):
        near = np.clip(records.entries[:, j] + rng.normal(0, 0.05, n), -1, 1)
        inside = () if symbol in SIGNS else (0.0, near, rng.uniform(-1, 1, n))
        for candidate in (-1.0, 1.0, *inside):
            entries = records.entries.copy()
            entries[:, j] = candidate
            yield replace(records, entries=entries)
    for j, factor in enumerate(design.factors):
        for level in range(SIZES[factor]):
            levels = records.levels.copy()
            levels[:, j] = level
            yield replace(records, levels=levels)
    if design.has_vector:
        yield replace(records, vectors=random_vectors(rng, n, noise))
        yield replace(records, vectors=records.vectors[:, rng.permutation(WIDTH)])


def ascent(design, w, noise, seed=0, starts=30, sweeps=6):
    """Largest change found by coordinate ascent over pairs of complete records."""
    rng = np.random.default_rng(seed)
    pair = [random_records(design, rng, starts, noise) for _ in range(2)]
    sums = [design.sums(records) for records in pair]
    best = changes(*sums, w, noise)
    for _, side in itertools.product(range(sweeps), range(2)):
        for variant in moves(design, pair[side], rng, noise):
            candidate = design.sums(variant)
            change = changes(candidate, sums[1 - side], w, noise)
            better = change > best
            pair[side] = pair[side].chosen(better, variant)
            sums[side] = np.where(better[:, None], candidate, sums[side])
            best = np.where(better, change, best)
    return best.max()


def largest_change(design, w, noise):
    """Largest change found anywhere: corners, incomplete records and interior."""
    corners = design.sums(design.corners())
    return max(largest_pair(corners, w, noise)[0], from_incomplete(corners, w, noise), ascent(design, w, noise))


def columns_where(design, wanted):
    """Indices of the columns of the blocks for which `wanted` is true."""
    flags = [np.full(block.n_columns, wanted(block)) for block in design.blocks]
    return np.flatnonzero(np.concatenate(flags))


def with_extra_squares(design, w, columns, extra):
    """Weights with `extra` on the squares of some columns."""
    changed = w.copy()
    np.add.at(changed, design.atoms.index[columns, columns], extra)
    return changed


# The bounds hold -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", DESIGNS)
def test_no_pair_of_records_exceeds_the_bound(text, noise):
    design = layout(text)
    for s in block_weights(design, 3):
        w = weights_of(design, noise, s)
        assert largest_change(design, w, noise) <= bound_of(design, noise, s) * EXACT


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", [text for text in SINGLE + SIGNED if "g" in text])
def test_blocks_that_may_be_empty_stay_within_the_bound(text, noise):
    design = layout(text)
    for s in block_weights(design, 3):
        w = weights_of(design, noise, s)
        with_empty_cells = design.sums(design.corners(lowest_level=-1))
        assert largest_pair(with_empty_cells, w, noise)[0] <= bound_of(design, noise, s) * EXACT
        assert from_incomplete(with_empty_cells, w, noise) <= bound_of(design, noise, s) * EXACT


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", DESIGNS)
def test_an_incomplete_record_against_any_corner_stays_within_the_bound(text, noise):
    design = layout(text)
    for s in block_weights(design, 20, seed=1):
        found = from_incomplete(design.sums(design.corners()), weights_of(design, noise, s), noise)
        assert found <= bound_of(design, noise, s) * EXACT


# The bounds are attained ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", DESIGNS)
def test_a_full_record_against_an_incomplete_one_attains_the_l1_bound(text):
    design = layout(text)
    for s in block_weights(design, 4):
        found = from_incomplete(design.sums(design.corners()), weights_of(design, "laplace", s), "laplace")
        assert found == pytest.approx(bound_of(design, "laplace", s), rel=1e-12)


@pytest.mark.parametrize("text", SINGLE)
def test_a_full_record_against_an_incomplete_one_attains_the_l2_bound_without_signed_blocks(text):
    design = layout(text)
    for s in block_weights(design, 4):
        found = from_incomplete(design.sums(design.corners()), weights_of(design, "gaussian", s), "gaussian")
        assert found == pytest.approx(bound_of(design, "gaussian", s), rel=1e-12)


@pytest.mark.parametrize("text", SIGNED)
def test_the_l2_bound_is_nearly_attained_with_signed_blocks(text):
    design = layout(text)
    for s in block_weights(design, 4):
        bound = bound_of(design, "gaussian", s)
        assert largest_change(design, weights_of(design, "gaussian", s), "gaussian") >= 0.92 * bound


@pytest.mark.parametrize(
    "text", ["1 x z y", "g x y", "g h y", "g h f y", "b g x y", "g:h x:g y", "g h x:g z y", "g h f x:f z y", "1 v y"]
)
def test_two_orthogonal_full_records_attain_the_l2_bound(text):
    design = layout(text)
    columns = design.code(design.corners())
    first, second = np.argwhere(columns @ columns.T == 0)[0]
    assert (columns[[first, second]] ** 2).sum(axis=1) == pytest.approx(len(design.blocks))
    sums = design.statistics(columns)
    found = changes(sums[first], sums[second], weights_of(design, "gaussian", np.ones(len(design.blocks))), "gaussian")
    assert found == pytest.approx(len(design.blocks) ** 2, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "found"), [("g h y", 8.0), ("g h x z y", 20.0), ("g h x:g z y", 23.0), ("1 x z y", 8.0), ("g x y", 7.0)]
)
def test_largest_l1_change_between_complete_records_at_unit_weights(text, found):
    design = layout(text)
    w = weights_of(design, "laplace", np.ones(len(design.blocks)))
    assert largest_pair(design.sums(design.corners()), w, "laplace")[0] == pytest.approx(found)
    assert ascent(design, w, "laplace") <= found * EXACT


def test_signed_design_attains_the_l2_bound():
    """Because signed blocks count in Rf2; with blocks that are always one alone it reached .944."""
    design = layout("g x:g y")
    w = weights_of(design, "gaussian", np.ones(3))
    assert ascent(design, w, "gaussian") == pytest.approx(9, rel=1e-3)
    assert bound_of(design, "gaussian", np.ones(3)) == 9


# Extras --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["1 x z y", "g x y", "g h y", "g h f y", "b g x y", "g h x:g z y", "g h x z y"])
def test_a_fifth_more_extra_precision_on_squares_exceeds_the_bound(text):
    design, noise = layout(text), "gaussian"
    s = np.ones(len(design.blocks))
    norms = row_norms(design.blocks, s, noise)
    columns = columns_where(design, lambda block: block.squarable)
    w = with_extra_squares(design, weights_of(design, noise, s), columns, 0.2 * (norms.r2 + norms.rf2) / 2)
    assert 1.015 < ascent(design, w, noise) / bound_of(design, noise, s) < 1.1


def test_total_precision_of_a_square_is_half_of_own_weight_plus_r2_plus_rf2():
    design = layout("g x:g z b y")
    s = np.array([0.7, 1.3, 0.9, 1.1, 2.0])
    r2, rf2 = (s**2).sum(), s[0] ** 2 + s[1] ** 2 + s[3] ** 2
    w = weights_of(design, "gaussian", s)
    for column, weight in ((6, s[2]), (8, s[4])):
        assert w[design.atoms.index[column, column]] == pytest.approx(weight**2 * (weight**2 + r2 + rf2) / 2)


@pytest.mark.parametrize("text", SINGLE)
def test_any_more_weight_on_the_count_exceeds_the_bound(text):
    design = layout(text)
    for noise, s in itertools.product(NOISES, block_weights(design, 2)):
        w = weights_of(design, noise, s)
        w[design.atoms.count] *= 1.01
        assert from_incomplete(design.sums(design.corners()), w, noise) > bound_of(design, noise, s)


# Wrong formulas are caught -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found", "wrong"), [("g h y", 8, 4.5), ("g h x z y", 20, 12.5), ("g h x:g z y", 23, 12.5)]
)
def test_half_the_squared_sum_of_weights_is_no_bound_with_factors(text, found, wrong):
    design = layout(text)
    s = np.ones(len(design.blocks))
    norms = row_norms(design.blocks, s, "laplace")
    assert (norms.s_f + norms.s_n) ** 2 / 2 == wrong
    pairs, _ = largest_pair(design.sums(design.corners()), weights_of(design, "laplace", s), "laplace")
    assert pairs == pytest.approx(found)
    assert l1_sensitivity(norms) - wrong == norms.s_f**2 / 2 + norms.s_f * norms.s_n


@pytest.mark.parametrize("text", ["1 x y", "1 x z y", "g x y", "g x:g y"])
def test_squares_are_not_free_under_laplace_noise(text):
    design, noise = layout(text), "laplace"
    s = np.ones(len(design.blocks))
    squares = columns_where(design, lambda block: block.squarable)
    w = with_extra_squares(design, weights_of(design, noise, s), squares, 0.5)
    assert largest_change(design, w, noise) > 1.05 * bound_of(design, noise, s)


@pytest.mark.parametrize("text", ["g x:g y", "g h x:g z y", "1 v y", "g v:g x y"])
def test_squares_of_signed_and_vector_blocks_are_not_free(text):
    design, noise = layout(text), "gaussian"
    s = np.ones(len(design.blocks))
    norms = row_norms(design.blocks, s, noise)
    columns = columns_where(design, lambda block: not block.is_single and not block.always_one)
    w = with_extra_squares(design, weights_of(design, noise, s), columns, (norms.r2 + norms.rf2) / 2)
    assert largest_change(design, w, noise) > 1.2 * bound_of(design, noise, s)


def test_squares_of_sign_columns_are_not_free():
    design, noise = layout("1 b x b:x y"), "gaussian"
    s = np.ones(5)
    norms = row_norms(design.blocks, s, noise)
    sign = columns_where(design, lambda block: block.degrees == (("b", 1),))
    w = with_extra_squares(design, weights_of(design, noise, s), sign, (norms.r2 + norms.rf2) / 2)
    assert largest_change(design, w, noise) > 1.1 * bound_of(design, noise, s)


@pytest.mark.parametrize("text", ["1 x z y", "g x y", "g h x z y"])
def test_a_column_whose_square_is_released_may_not_count_in_rf2(text):
    design, noise = layout(text), "gaussian"
    s = np.ones(len(design.blocks))
    norms = row_norms(design.blocks, s, noise)
    w = weights_of(design, noise, s)
    squares = columns_where(design, lambda block: block.squarable)
    w = with_extra_squares(design, w, squares, 1 / 2)
    w[design.atoms.count] += ((norms.rf2 + 1) ** 2 - norms.rf2**2) / 2
    assert largest_change(design, w, noise) > 1.05 * bound_of(design, noise, s)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", ["g x y", "g h y", "g:h y"])
def test_the_extra_weight_of_the_count_cannot_be_given_twice(text, noise):
    design = layout(text)
    s = np.ones(len(design.blocks))
    norms = row_norms(design.blocks, s, noise)
    w = weights_of(design, noise, s)
    w[design.atoms.count] += norms.s_f**2 / 2 + norms.s_f * norms.s_n if noise == "laplace" else norms.rf2**2 / 2
    assert from_incomplete(design.sums(design.corners()), w, noise) > 1.04 * bound_of(design, noise, s)


# Aliases -------------------------------------------------------------------------------------------------------------


def pair_weights(design, noise, s):
    """Upper-triangular pairs of columns that are no structural zero, and their weights before extras."""
    per_column = np.repeat(s, [block.n_columns for block in design.blocks]) ** (1 if noise == "laplace" else 2)
    i, j = np.triu_indices(len(per_column))
    kept = design.atoms.index[i, j] != STRUCTURAL_ZERO
    return i[kept], j[kept], (per_column[i] * per_column[j] * np.where(i == j, 0.5, 1.0))[kept]


def without_extras(design, noise, s, w):
    norms = row_norms(design.blocks, s, noise)
    base = w.copy()
    base[design.atoms.count] -= norms.s_f**2 / 2 + norms.s_f * norms.s_n if noise == "laplace" else norms.rf2**2 / 2
    if noise == "gaussian":
        columns = columns_where(design, lambda block: block.squarable)
        own = np.repeat(s, [block.n_columns for block in design.blocks])[columns]
        np.subtract.at(base, design.atoms.index[columns, columns], own**2 * (norms.r2 + norms.rf2) / 2)
    return base


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", ["g x:g y", "1 b x b:x y", "g h x:g x:h y", "1 x z x:z y", "1 x v x:v y"])
def test_one_noise_with_summed_weights_has_the_change_of_separate_releases(text, noise):
    design = layout(text)
    rng = np.random.default_rng(8)
    for s in block_weights(design, 2):
        i, j, each = pair_weights(design, noise, s)
        base = without_extras(design, noise, s, weights_of(design, noise, s))
        z, t = (design.code(random_records(design, rng, 50, noise)) for _ in range(2))
        separate = changes(z[:, i] * z[:, j], t[:, i] * t[:, j], each, noise)
        shared = changes(design.statistics(z), design.statistics(t), base, noise)
        assert shared == pytest.approx(separate, rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("text", ["g h x:g x:h y", "1 b x b:x y", "1 x z x:z y"])
def test_aliases_with_noises_of_their_own_at_the_shared_weight_exceed_the_bound(text, noise):
    design = layout(text)
    s = np.ones(len(design.blocks))
    w = weights_of(design, noise, s)
    i, j, _ = pair_weights(design, noise, s)
    columns = design.code(design.corners())
    products = np.vstack([columns[:, i] * columns[:, j], np.zeros((1, len(i)))])
    found, _ = largest_pair(products, w[design.atoms.index[i, j]], noise)
    assert found > 1.1 * bound_of(design, noise, s)


# The lattice ---------------------------------------------------------------------------------------------------------


def lattice_records(design, bits):
    """All complete records of a design of single columns and indicators, rounded to integers in units of 2**-bits."""
    one = 2**bits
    steps = range(-one, one + 1)
    values = np.array(list(itertools.product(steps, repeat=len(design.symbols))), dtype=float) / one
    levels = list(itertools.product(*[range(SIZES[factor]) for factor in design.factors]))
    rows = []
    for level in levels:
        cell = np.tile(np.array(level, dtype=int), (len(values), 1)).reshape(len(values), len(design.factors))
        rows.append(design.code(Records(values, cell, np.zeros((len(values), WIDTH)))) * one)
    return np.vstack(rows)


@pytest.mark.parametrize(("text", "bits"), [("1 x y", 1), ("1 x y", 2), ("1 x z y", 1), ("g x y", 2), ("g x:g y", 2)])
def test_bounds_hold_exactly_on_integers(text, bits):
    design = layout(text)
    s = np.ones(len(design.blocks))
    unit = 4**bits
    sums = design.statistics(lattice_records(design, bits), one=unit)
    sums = np.vstack([sums, np.zeros((1, design.atoms.n_atoms))])
    for noise in NOISES:
        w, power = weights_of(design, noise, s), 1 if noise == "laplace" else 2
        assert (4 * w == np.rint(4 * w)).all()
        _, (first, second) = largest_pair(sums, w, noise)
        gaps = [int(gap) for gap in sums[first] - sums[second]]
        found = sum(int(4 * weight) * abs(gap) ** power for weight, gap in zip(w, gaps, strict=True))
        assert found <= int(4 * bound_of(design, noise, s)) * unit**power
        assert found >= 0.94 * 4 * bound_of(design, noise, s) * unit**power


def rounded_products(bits):
    """All integer triples (x, z, xz) that rounding x, z and their product to multiples of 2**-bits can give."""
    one = 2**bits
    x, z = (side.ravel() for side in np.meshgrid(np.arange(-one, one + 1), np.arange(-one, one + 1)))
    ends = [np.clip(side[:, None] + [-0.5, 0.5], -one, one) * (1 - 1e-12) for side in (x, z)]
    products = ends[0][:, :, None] * ends[1][:, None, :] / one
    low, high = np.rint(products.min(axis=(1, 2))), np.rint(products.max(axis=(1, 2)))
    n = (high - low + 1).astype(int)
    within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
    return np.column_stack([np.repeat(x, n), np.repeat(z, n), np.repeat(low, n) + within])


def aliased_sums(bits, responses):
    """Atoms of all lattice records of (const, x, z, xz, y), y among the responses."""
    triples = rounded_products(bits)
    y = np.repeat(responses, len(triples))
    columns = np.column_stack([np.full(len(y), 2**bits), np.tile(triples, (len(responses), 1)), y]).astype(float)
    return layout("1 x z x:z y").statistics(columns)


def test_rounded_products_are_those_of_real_numbers():
    rng = np.random.default_rng(9)
    x, z = np.clip(rng.uniform(-1.1, 1.1, (2, 200_000)), -1, 1)
    found = {tuple(row) for row in np.rint(np.column_stack([x, z, x * z]) * 4).astype(int).tolist()}
    assert found == {tuple(row) for row in rounded_products(2).astype(int).tolist()}


@pytest.mark.parametrize(("bits", "found"), [(1, 13.0), (2, 12.75), (3, 12.65625)])
def test_rounding_of_an_aliased_product_exceeds_the_l1_bound_by_a_known_amount(bits, found):
    design = layout("1 x z x:z y")
    w = weights_of(design, "laplace", np.ones(5))
    sums = aliased_sums(bits, np.arange(-(2**bits), 2**bits + 1)) * w
    largest = max(cdist(part, sums, "cityblock").max() for part in np.array_split(sums, 20)) / 4**bits
    assert bound_of(design, "laplace", np.ones(5)) == 12.5
    assert largest == found


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5])
def test_the_alias_factor_covers_the_rounding(bits, noise):
    design = layout("1 x z x:z y")
    s = np.ones(5)
    w, power = weights_of(design, noise, s), 1 if noise == "laplace" else 2
    sums = aliased_sums(bits, np.unique(np.rint(np.linspace(-(2**bits), 2**bits, 9))))
    corner = np.full((1, design.atoms.n_atoms), 4.0**bits)
    found = (changes(sums, corner, w, noise).max() / 4.0 ** (bits * power)) ** (1 / power)
    bound = bound_of(design, noise, s) ** (1 / power)
    assert found <= bound * (1 + 2.0 ** (2 - bits)) <= bound * alias_factor(design.blocks, design.atoms, bits)
    assert noise == "gaussian" or found > bound


def test_no_alias_factor_where_products_do_not_round_differently():
    for text in (*SINGLE, *SIGNED, "1 v y", "g v:g x y"):
        design = layout(text)
        assert alias_factor(design.blocks, design.atoms, 3) == 1


def vector_sums(design, rows, bits):
    """Atoms of lattice records of (const, v, y): one vector row each, y = 1."""
    one = np.full((len(rows), 1), 2.0**bits)
    return design.statistics(np.column_stack([one, rows, one]), one=4.0**bits)


def wide_layout(width):
    sizes = {"v": width}
    blocks = [
        make_block((), [], [], {}, []),
        make_block((), [], ["v"], sizes, []),
        make_block((("y", 1),), [], [], {}, []),
    ]
    return Layout(tuple(blocks), build_atoms(blocks, []), ("y",), ())


def test_lattice_rows_of_a_vector_block_exceed_the_real_bound_but_not_that_of_the_integer_radius():
    bits, design, s = 3, wide_layout(5), np.ones(3)
    rows = np.rint(np.full((1, 5), 0.199) * 2.0**bits)
    assert 5 * 0.199 <= 1
    w = weights_of(design, "laplace", s)
    found = from_incomplete(vector_sums(design, rows, bits), w, "laplace") / 4.0**bits
    real = l1_sensitivity(row_norms(design.blocks, s, "laplace"))
    assert found / real == pytest.approx(1.11, abs=0.005)
    assert found <= l1_sensitivity(row_norms(design.blocks, s, "laplace", bits))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bits", [1, 2, 3, 8])
@pytest.mark.parametrize("width", [2, 5, 16])
def test_no_pair_of_guarded_lattice_rows_exceeds_the_bound_of_the_integer_radius(width, bits, noise):
    rng = np.random.default_rng(10)
    design, s = wide_layout(width), np.array([1.0, 1.7, 0.8])
    radius = lattice_radius(width, bits, noise)
    directions = rng.normal(size=(400, width)) ** 3
    order = 1 if noise == "laplace" else 2
    rows = np.rint(radius * directions / np.linalg.norm(directions, ord=order, axis=1)[:, None])
    columns = np.column_stack([np.full(400, 2.0**bits), rows, np.full(400, 2.0**bits)])
    guard_vectors(columns, design.blocks, bits, noise)
    assert (columns[:, 1:-1] != 0).any(axis=1).sum() > 20
    columns[:, -1] *= rng.choice([-1, 1], 400)
    sums = np.vstack([design.statistics(columns, one=4.0**bits), np.zeros((1, design.atoms.n_atoms))])
    norms = row_norms(design.blocks, s, noise, bits)
    bound = l1_sensitivity(norms) * 4.0**bits if noise == "laplace" else (l2_sensitivity(norms) * 4.0**bits) ** 2
    assert largest_pair(sums, weights_of(design, noise, s), noise)[0] <= bound * EXACT


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("bits", [1, 3, 8, 20])
@pytest.mark.parametrize("width", [2, 5, 40])
def test_rounding_a_row_at_the_clip_radius_never_trips_the_guard(width, bits, noise):
    rng = np.random.default_rng(12)
    directions = rng.normal(size=(20_000, width))
    unit = directions / np.linalg.norm(directions, ord=1 if noise == "laplace" else 2, axis=1)[:, None]
    design = wide_layout(width)
    columns = np.column_stack([np.ones(len(unit)), np.rint(unit * 2.0**bits), np.ones(len(unit))])
    before = columns.copy()
    guard_vectors(columns, design.blocks, bits, noise)
    assert (columns == before).all()


@pytest.mark.parametrize("noise", NOISES)
def test_the_guard_empties_rows_beyond_the_radius_and_no_others(noise):
    bits, design = 4, wide_layout(4)
    radius = lattice_radius(4, bits, noise)
    rows = np.array(
        [[radius, 0, 0, 0], [0, -radius, 0, 0], [radius, 1, 0, 0], [9, -9, 9, -9], [0, 0, 0, 0]], dtype=float
    )
    columns = np.column_stack([np.full(5, 16.0), rows, np.full(5, 16.0)])
    guard_vectors(columns, design.blocks, bits, noise)
    outside = np.linalg.norm(rows, ord=1 if noise == "laplace" else 2, axis=1) > radius
    assert outside.tolist() == [False, False, True, noise == "laplace", False]
    assert (columns[:, 1:-1] == np.where(outside[:, None], 0, rows)).all()
    assert (columns[:, [0, -1]] == 16).all()


# Real tables, real scales --------------------------------------------------------------------------------------------

SCHEMA = Schema(
    {
        "y": Continuous(-5, 20),
        "x": Continuous(0, 10),
        "z": Continuous(-3, 1),
        "w": Continuous(1, 2),
        "u": Continuous(-1, 1),
        "g": Categorical(["a", "b", "c"]),
        "h": Categorical([1, 2, 3]),
        "t": Categorical(["lo", "hi"]),
        "d": Binary(),
    }
)
FORMULAS = (
    "y ~ x",
    "y ~ x + z + w + u",
    "y ~ x * z",
    "y ~ x * C(g) + C(h)",
    "y ~ C(g) * C(h) + z:C(g)",
    "y ~ 0 + C(t) + d * x",
    "np.exp(y / 20) ~ np.log(w) * C(t) + I(x > 3)",
    "y ~ (x + I(x**2) + I(x**3)) * C(t)",
    "y ~ bs(x, df=5) + C(g)",
    "y ~ bs(x, df=4) * z",
    "y ~ bs(x, df=4):bs(z, df=4)",
)
BUDGETS = {"pure": Budget(epsilon=1.0), "zcdp": Budget(rho=0.1), "approximate": Budget(epsilon=1.0, delta=1e-6)}
COARSEST = 2**46


@functools.cache
def plan_of(formula, notion, n_rows=2):
    facts = TableFacts(tuple(SCHEMA), dict.fromkeys(SCHEMA, "object"))
    return plan_moments(build_design(formula, SCHEMA, facts), BUDGETS[notion], n_rows)


def table_of(rows):
    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=object) for name in SCHEMA})


def integer_sums(plan, rows):
    """Exact sums of the real row map, lattice and accumulation."""
    return sum_atoms(FrameSource(table_of(rows)), RowMap(plan.coding), plan.atoms, plan.bits)


def cost_weights(plan):
    """What one unit of change costs: 1/t per unit of epsilon, 1/(s^2 - 9) per unit of mu^2."""
    scales = plan.noise.scales
    return 1 / scales if plan.noise.law == "laplace" else 1 / (scales**2 - 9)


def allowed(plan, notion):
    budget = BUDGETS[notion]
    return budget.epsilon if plan.noise.law == "laplace" else stage_strength(budget, "gaussian") ** 2


def corner_rows(formula):
    """All rows with raw values at their bounds or levels, one row outside of them, and one incomplete row."""
    used = {name: SCHEMA[name] for name in plan_of(formula, "pure").coding.design.variables}
    ends = [(c.lower, c.upper) if isinstance(c, Continuous) else c.levels for c in used.values()]
    rows = [dict.fromkeys(SCHEMA, 0) | dict(zip(used, row, strict=True)) for row in itertools.product(*ends)]
    rows.append({name: 1e9 if isinstance(SCHEMA[name], Continuous) else SCHEMA[name].levels[-1] for name in SCHEMA})
    return [*rows, dict.fromkeys(SCHEMA)]


@functools.cache
def corner_sums(formula, notion, n_rows=2):
    """Sums of one-row tables, shape (corner rows, K)."""
    plan = plan_of(formula, notion, n_rows)
    return np.array([integer_sums(plan, [row]) for row in corner_rows(formula)], dtype=float)


def largest_cost(formula, notion, n_rows=2):
    """Largest cost between two corner rows, as a share of the budget."""
    plan = plan_of(formula, notion, n_rows)
    found, _ = largest_pair(corner_sums(formula, notion, n_rows), cost_weights(plan), plan.noise.law)
    return found / allowed(plan, notion)


NUMBERS = st.one_of(
    st.sampled_from([-5.0, 0.0, 1.0, 2.0, 10.0, 20.0, -3.0]),
    st.floats(-12, 12),
    st.floats(),
    st.sampled_from(
        [None, "", "text", "7", pd.NA, 10**400, -(10**400), Decimal("0.1"), Decimal("NaN"), [1.0], True, 1j]
    ),
)
CATEGORIES = st.sampled_from(
    ["a", "b", "c", "lo", "hi", 1, 2, 3, 0, 1.0, True, "1", "elsewhere", None, np.nan, ["a"], 1e308]
)


def cell(name):
    column = SCHEMA[name]
    if isinstance(column, Continuous):
        return st.one_of(st.sampled_from([column.lower, column.upper]), st.floats(column.lower, column.upper), NUMBERS)
    return st.one_of(st.sampled_from(column.levels), CATEGORIES)


ROWS = st.fixed_dictionaries({name: cell(name) for name in SCHEMA})


@pytest.mark.parametrize("notion", ["pure", "zcdp"])
@pytest.mark.parametrize("formula", FORMULAS)
@settings(derandomize=True, deadline=None, max_examples=12)
@given(kept=ROWS, old=ROWS, new=ROWS)
def test_tables_that_differ_in_one_row_cost_at_most_the_budget(formula, notion, kept, old, new):
    plan = plan_of(formula, notion)
    gap = integer_sums(plan, [kept, old]) - integer_sums(plan, [kept, new])
    assert changes(gap.astype(float), 0.0, cost_weights(plan), plan.noise.law) <= allowed(plan, notion)


@pytest.mark.parametrize(("n_rows", "bits"), [(2, 20), (COARSEST, 8)])
@pytest.mark.parametrize("notion", ["pure", "zcdp"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_two_corner_rows_cost_more_than_the_budget(formula, notion, n_rows, bits):
    assert plan_of(formula, notion, n_rows).bits == bits
    assert largest_cost(formula, notion, n_rows) <= 1


@pytest.mark.parametrize(
    ("formula", "notion"),
    [*itertools.product(FORMULAS, ["pure", "zcdp"]), ("y ~ x", "approximate"), ("y ~ x + z + w + u", "approximate")],
)
def test_two_corner_rows_spend_nearly_the_whole_budget(formula, notion):
    assert 0.93 <= largest_cost(formula, notion) <= 1


@pytest.mark.parametrize("notion", ["pure", "zcdp"])
def test_rounded_spline_rows_exceed_the_real_radius_but_not_the_budget(notion):
    plan = plan_of("y ~ bs(x, df=8)", notion, COARSEST)
    row = dict.fromkeys(SCHEMA, 0) | {"y": 20.0}
    rows = [row | {"x": x} for x in np.linspace(0, 10, 300)]
    sums = np.array([integer_sums(plan, [row]) for row in [*rows, dict.fromkeys(SCHEMA)]], dtype=float)
    share = largest_pair(sums, cost_weights(plan), plan.noise.law)[0] / allowed(plan, notion)
    norms = row_norms(plan.coding.all_blocks, plan.block_weights, plan.noise.law)
    real = l1_sensitivity(norms) if plan.noise.law == "laplace" else l2_sensitivity(norms) ** 2
    stated = plan.sensitivity if plan.noise.law == "laplace" else plan.sensitivity**2
    assert share <= 1
    assert notion == "zcdp" or share * stated > real


@pytest.mark.parametrize("notion", ["pure", "zcdp"])
def test_a_spline_beyond_its_stated_radius_still_costs_at_most_the_budget(notion):
    plan = plan_of("y ~ bs(x, df=5)", notion)
    design = plan.coding.design
    shrunk = {k: replace(v, radius_l1=v.radius_l1 / 2, radius_l2=v.radius_l2 / 2) for k, v in design.vectors.items()}
    broken = replace(plan, coding=replace(plan.coding, design=replace(design, vectors=shrunk)))
    row = dict.fromkeys(SCHEMA, 0) | {"y": 20.0}
    rows = [*(row | {"x": x} for x in np.linspace(0, 10, 60)), dict.fromkeys(SCHEMA)]
    sums = np.array([integer_sums(broken, [row]) for row in rows], dtype=float)
    assert largest_pair(sums, cost_weights(plan), plan.noise.law)[0] <= allowed(plan, notion)


@pytest.mark.parametrize("notion", ["pure", "zcdp"])
def test_exchanging_weight_and_precision_in_the_scales_would_overspend(notion):
    plan, sums = plan_of("y ~ x", notion), corner_sums("y ~ x", notion)
    unit = plan.sensitivity * 4.0**plan.bits
    root = np.sqrt(plan.weights) if plan.noise.law == "laplace" else plan.weights
    budget = allowed(plan, notion)
    wrong = unit / (budget * root) if plan.noise.law == "laplace" else unit / (np.sqrt(budget) * root)
    cost = 1 / wrong if plan.noise.law == "laplace" else 1 / wrong**2
    assert largest_pair(sums, cost, plan.noise.law)[0] > 1.3 * budget


def test_both_kinds_of_noise_are_met_under_an_approximate_budget():
    formulas = ("y ~ x", "y ~ x + z + w + u")
    assert [plan_of(formula, "approximate").noise.law for formula in formulas] == ["laplace", "gaussian"]
