"""Sensitivities of the moment release, written once, beside their proofs.

Notation. Block b has weight s_b > 0; S_N sums s_b over single-column blocks, S_F over the others (vector blocks with
s_b times their L1 radius). R2 sums s_b^2 over blocks (vector blocks with s_b^2 times their squared L2 radius), Rf2 is
its part from all blocks but single numeric columns. A complete row uses one column of each block, with an entry of at
most 1 in absolute value; an incomplete row is 0. The atom of columns i < j has weight s_i s_j in L1, and precision
s_i^2 s_j^2 in L2; the atom of i = j has half of it. Aliased products add their weights.

Two records z, t are neighbours if one replaces the other. Write M(z) = z z' for weighted records.

L1 (Theorem 1): sum_k w_k |change_k| <= S_F^2 + 2 S_F S_N + S_N^2 / 2.
    The left side is half the sum of |M(z) - M(t)| over the full matrix. (a) Both indices single: M(z) - M(t) =
    (u v' + v u') / 2 with u = z + t, v = z - t and |u_i| + |v_i| = 2 max(|z_i|, |t_i|) <= 2 s_i, so the sum is at most
    |u|_1 |v|_1 <= S_N^2. (b) Blocks b != c, one of them not single: entries sum to at most |z_b||z_c| + |t_b||t_c| <=
    2 s_b s_c, met once per pair. (c) Inside a block that is not single: half of s_b^2 + s_b^2. Add up.

L2 (Theorem 2): sum_k w_k change_k^2 <= R2^2.
    The left side is |M(z) - M(t)|_F^2 / 2 = (|z|^4 + |t|^4) / 2 - (z't)^2 <= R2^2.

Free squares, L2 only (Theorem 3): squares of single numeric columns may carry extra precision s_i^2 (R2 + Rf2) / 2.
    For a complete row let n = sum_i s_i^2 (1 - z_i^2) over those columns, 0 <= n <= N = R2 - Rf2, and f the same loss
    in all other blocks, 0 <= f <= Rf2, so that |z|^2 = R2 - f - n. As (z_i^2 - t_i^2)^2 <= (1 - z_i^2) + (1 - t_i^2),
    the total is at most g(z) + g(t) with g = (R2 - f - n)^2 / 2 + (R2 + Rf2) n / 2. g is convex in (f, n), and at the
    corners of [0, Rf2] x [0, N] it is R2^2 / 2, R2^2 / 2, N^2 / 2 and (2 R2 - N) N / 2: never above R2^2 / 2.

Free count (Theorem 4): the count of complete rows may carry extra precision e = Rf2^2 / 2 (L2) or weight
e = S_F^2 / 2 + S_F S_N (L1).
    Two complete rows leave it unchanged. Against an incomplete row the total is at most (S_F + S_N)^2 / 2 + e in L1,
    and R2^2 / 2 + (R2 + Rf2) N / 2 + e = R2^2 - Rf2^2 / 2 + e in L2: the same bounds. A larger e is paid for: the bound
    is then the larger of the two.

Add or remove one row (Theorem 5): one full record against nothing. L1: sum_k w_k |z_k| <= (S_F + S_N)^2 / 2 + e, half
the square of the record's weighted L1 norm; L2: |z|^4 / 2 + e <= R2^2 / 2 + e. Nothing is free; squares get no extra.

Weighted rows: a row times sqrt(w / w_max), a number in [0, 1]. Theorems 1 and 2 use |z_i| <= s_i and one entry a block
only, Theorem 3 any loss f in [0, Rf2], so they hold. Neither does anything else change, except that the sum of weights
is not the count of complete rows, which is then a statistic of its own with the weight e of Theorem 4.

Aliases (Theorem 6): releasing one statistic with the sum of its weights has the same weighted change.

Lattice: entries are rounded before they are multiplied, so all bounds hold exactly on integers, up to a factor where
one atom stands for products that round differently (`alias_factor`); radii of vector blocks are the integer ones that
the guard enforces (`lattice_radius`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.atoms import STRUCTURAL_ZERO, Atoms
from dpstats.specification.blocks import Block

NoiseKind = Literal["laplace", "gaussian"]
Relation = Literal["replace_one", "add_or_remove_one"]


@dataclass(frozen=True, slots=True)
class Norms:
    """Weighted size of a complete row (zone: public): S_F, S_N, R2 and Rf2 of the module's notation."""

    s_f: float
    s_n: float
    r2: float
    rf2: float


def lattice_radius(n_columns: int, bits: int, noise: NoiseKind) -> int:
    """Integer radius, in units of 2**-bits, that rows of a vector block scaled to radius 1 never exceed.

    Rounding moves an entry by at most 1/2, hence an L1 norm by d/2 and an L2 norm by sqrt(d)/2.
    """
    slack = n_columns / 2 if noise == "laplace" else math.sqrt(n_columns) / 2
    return math.ceil(2.0**bits + slack) + 1


def row_norms(
    blocks: Sequence[Block], weights: NDArray[np.float64], noise: NoiseKind, bits: int | None = None
) -> Norms:
    """Return S_F, S_N, R2 and Rf2 for block weights; with the lattice's radii of vector blocks if `bits` is given."""
    s_f = s_n = r2 = rf2 = 0.0
    for block, s in zip(blocks, weights, strict=True):
        radius = lattice_radius(block.n_columns, bits, noise) / 2**bits if block.vectors and bits is not None else 1.0
        if block.is_single:
            s_n += s
        else:
            s_f += s * radius
        r2 += s**2 * radius**2
        rf2 += 0.0 if block.squarable else s**2 * radius**2
    return Norms(s_f, s_n, r2, rf2)


def l1_sensitivity(norms: Norms, relation: Relation = "replace_one", count: float = 0.0) -> float:
    """Return Delta_1 of Theorem 1, or of Theorem 5; `count` is the weight e of the count of complete rows."""
    one = (norms.s_f + norms.s_n) ** 2 / 2 + count
    if relation == "add_or_remove_one":
        return one
    return max(norms.s_f**2 + 2 * norms.s_f * norms.s_n + norms.s_n**2 / 2, one)


def l2_sensitivity(norms: Norms, relation: Relation = "replace_one", count: float = 0.0) -> float:
    """Return Delta_2 (not squared) of Theorem 2, or of Theorem 5; `count` is the precision e of the count."""
    if relation == "add_or_remove_one":
        return math.sqrt(norms.r2**2 / 2 + count)
    return max(norms.r2, math.sqrt(norms.r2**2 - norms.rf2**2 / 2 + count))


def count_weight(norms: Norms, noise: NoiseKind, relation: Relation, atoms: Atoms) -> float:
    """Return e: what is free, or 1/2 where nothing is and the count, being no product, would have no weight."""
    free = 0.0
    if relation == "replace_one":
        free = norms.s_f**2 / 2 + norms.s_f * norms.s_n if noise == "laplace" else norms.rf2**2 / 2
    return 0.5 if atoms.left[atoms.count] < 0 and not free else free


def alias_factor(blocks: Sequence[Block], atoms: Atoms, bits: int) -> float:
    """Return the factor by which rounding can exceed the bounds when one atom stands for different products."""
    if not atoms.rounds_twice:
        return 1.0
    widest = max((block.n_columns for block in blocks if block.vectors), default=1)
    return 1 + max(32, 4 + 2 * widest) * 2.0**-bits


def atom_weights(
    blocks: Sequence[Block],
    atoms: Atoms,
    weights: NDArray[np.float64],
    noise: NoiseKind,
    relation: Relation = "replace_one",
) -> NDArray[np.float64]:
    """Return the total weight (L1) or precision (L2) of each atom, shape (K,): aliases summed, extras added.

    Parameters
    ----------
    blocks : sequence of Block
        All coded blocks in order.
    atoms : Atoms
        Their atoms, with the count.
    weights : ndarray
        s_b per block.
    noise : {"laplace", "gaussian"}
        L1 weights or L2 precisions.
    relation : {"replace_one", "add_or_remove_one"}
        Neighbouring relation.
    """
    norms = row_norms(blocks, weights, noise)
    s = np.repeat(weights, [block.n_columns for block in blocks])
    s = s if noise == "laplace" else s**2
    rows, columns = np.triu_indices(len(s))
    pair = s[rows] * s[columns] * np.where(rows == columns, 0.5, 1.0)
    index = atoms.index[rows, columns]
    kept = index != STRUCTURAL_ZERO
    total = np.zeros(atoms.n_atoms)
    np.add.at(total, index[kept], pair[kept])
    total[atoms.count] += count_weight(norms, noise, relation, atoms)
    if noise == "gaussian" and relation == "replace_one":
        _add_free_squares(total, blocks, atoms, weights, norms)
    return total


def _add_free_squares(
    total: NDArray[np.float64], blocks: Sequence[Block], atoms: Atoms, weights: NDArray[np.float64], norms: Norms
) -> None:
    """Add the extra precision of Theorem 3, in place."""
    start = 0
    for block, weight in zip(blocks, weights, strict=True):
        if block.squarable:
            total[atoms.index[start, start]] += weight**2 * (norms.r2 + norms.rf2) / 2
        start += block.n_columns
