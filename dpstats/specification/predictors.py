"""The columns over which a loss is minimised: as many as the model has, in blocks, each row of known size.

Objective perturbation penalises and perturbs every column, so there must be no more columns than coefficients: one
factor keeps a column per level instead of a constant, later factors lose their reference level. Of the coded columns
(`dpstats.specification.coding`) those are kept that no combination of the others gives.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.blocks import Block, make_block
from dpstats.specification.coding import Coding
from dpstats.specification.features import Features, build_features
from dpstats.specification.rowmap import RowMap
from dpstats.specification.sensitivity import lattice_radius
from dpstats.specification.view import ModelView

BITS = 20
"""Rows are multiples of 2**-20."""


@dataclass(frozen=True, slots=True)
class Ball:
    """A norm whose unit ball holds every row: of blocks, or Euclidean (zone: public).

    Attributes
    ----------
    sizes : tuple of int
        Columns of each block, in order; ``()`` for the Euclidean norm.
    radii : tuple of float
        Largest L1 norm of a row in each block; of the Euclidean norm one number, its largest norm.
    n_columns : int
        D.

    Notes
    -----
    N(v) = max over blocks of |v_block|_1 / radius: a product of intervals and cross-polytopes.
    """

    sizes: tuple[int, ...]
    radii: tuple[float, ...]
    n_columns: int

    @property
    def is_euclidean(self) -> bool:
        """True for the Euclidean norm."""
        return not self.sizes

    def spans(self) -> list[tuple[slice, int, float]]:
        """Return the position, size and radius of each block."""
        ends = list(itertools.accumulate(self.sizes))
        return [
            (slice(end - size, end), size, radius)
            for end, size, radius in zip(ends, self.sizes, self.radii, strict=True)
        ]

    def norm(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the norm of each row, shape (n,)."""
        if self.is_euclidean:
            return np.asarray(np.linalg.norm(rows, axis=1) / self.radii[0])
        parts = [np.abs(rows[:, where]).sum(axis=1) / radius for where, _, radius in self.spans()]
        return np.asarray(np.max(parts, axis=0))

    def dual(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest |l'z| over rows z of norm 1, for each row l of `weights`, shape (m,)."""
        if self.is_euclidean:
            return np.asarray(self.radii[0] * np.linalg.norm(weights, axis=1))
        parts = [radius * np.abs(weights[:, where]).max(axis=1) for where, _, radius in self.spans()]
        return np.asarray(np.sum(parts, axis=0))

    def variances(self, gamma: float) -> NDArray[np.float64]:
        """Return each coordinate's variance under the density exp(-gamma N(b)), shape (D,); coordinates correlate not.

        Notes
        -----
        Blocks: (D + 1)(D + 2) / gamma^2 times 1 / 3 for a single coordinate and 2 / ((l + 1)(l + 2)) in a block of l,
        times the squared radius. Euclidean: (D + 1) / gamma^2 times the squared radius.
        """
        d = self.n_columns
        if self.is_euclidean:
            return np.full(d, (d + 1) * (self.radii[0] / gamma) ** 2)
        each = [
            np.full(size, radius**2 * (1 / 3 if size == 1 else 2 / ((size + 1) * (size + 2))))
            for size, radius in zip(self.sizes, self.radii, strict=True)
        ]
        return np.asarray((d + 1) * (d + 2) * (1 / gamma) ** 2 * np.concatenate(each))


@dataclass(frozen=True)
class Predictors:
    """The q columns of a model as a perturbed loss sees them (zone: public).

    Attributes
    ----------
    coding : Coding
        Coded columns from which they are taken.
    features : Features or None
        Given if the model's columns span less than the coded ones: each model column, coded to [-1, 1], is its own.
    blocks : tuple of Block
        Blocks of the columns from which `keep` takes.
    keep : ndarray of int
        Positions of the q columns, shape (q,), in order.
    view : ModelView
        The model; model column j is ``contrast[j] @ z`` in raw units, contrast of shape (q, q).
    constant : ndarray
        Shape (q,): gives 1 for every complete row; zeros if the model does not span the constant.
    """

    coding: Coding
    features: Features | None
    blocks: tuple[Block, ...]
    keep: NDArray[np.intp]
    view: ModelView
    constant: NDArray[np.float64]

    @property
    def n_columns(self) -> int:
        """Number of columns, q."""
        return len(self.keep)

    @cached_property
    def row_map(self) -> RowMap:
        """From raw columns to the coded ones, the outcome included."""
        return RowMap(self.coding)

    def radius(self, block: Block) -> float:
        """Return the largest L1 norm of a lattice row in a block."""
        return lattice_radius(block.n_columns, BITS, "laplace") / 2.0**BITS if block.vectors else 1.0

    @property
    def ball(self) -> Ball:
        """The norm of rows, block by block."""
        sizes, radii, start = [], [], 0
        for block in self.blocks:
            kept = int(((self.keep >= start) & (self.keep < start + block.n_columns)).sum())
            if kept:
                sizes.append(kept)
                radii.append(self.radius(block))
            start += block.n_columns
        return Ball(tuple(sizes), tuple(radii), self.n_columns)

    @property
    def row_size(self) -> float:
        """R2: largest squared Euclidean norm of a row; every block adds at most its squared radius."""
        return float(sum(radius**2 for radius in self.ball.radii))

    def code_public(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Return the columns of public rows, shape (n_rows, q)."""
        if self.features is not None:
            return self.features.code_public(columns, n_rows)
        return RowMap(self.coding, with_response=False).code(columns, n_rows).columns[:, self.keep]


def build_predictors(view: ModelView, coding: Coding) -> Predictors:
    """Choose the columns over which a model's loss is minimised.

    Parameters
    ----------
    view : ModelView
        From `full_view`.
    coding : Coding
        From `code_design(design, "laplace")`.
    """
    cells = _cell_basis(coding.blocks)
    keep = np.flatnonzero(_kept(coding.blocks))
    if len(keep) == len(view.contrast):
        expand = cells @ np.linalg.inv(cells[keep])
        contrast = _clean(view.contrast @ expand)
        if np.linalg.matrix_rank(contrast) == len(contrast):
            constant = _clean(coding.constant @ expand) if view.has_constant else np.zeros(len(keep))
            kept = ModelView(view.design, contrast, view.ones)
            return Predictors(coding, None, coding.blocks, keep, kept, constant)
    features = build_features(view, coding, "box", binary=True)
    blocks = [make_block(((f"column {j}", 1),), (), (), {}, ()) for j in range(features.n_features)]
    if features.has_intercept:
        blocks[features.intercept] = make_block((), (), (), {}, ())
    return Predictors(coding, features, tuple(blocks), np.arange(len(blocks)), features.view, features.constant)


def _kept(blocks: Sequence[Block]) -> NDArray[np.bool_]:
    """Mark the columns that no earlier block gives, shape (D,).

    A block with factors F spans the functions of every subset of F. A cell stands for the subset of factors at which it
    is not the reference level; it is kept if no earlier block with the same monomial has all of that subset.
    """
    kept: list[bool] = []
    earlier: dict[object, list[frozenset[str]]] = {}
    for block in blocks:
        seen = earlier.setdefault((block.degrees, block.vectors), [])
        for position in block.positions().tolist():
            subset = _subset(block, position)
            kept.append(not any(subset <= other for other in seen))
        seen.append(frozenset(block.factors))
    return np.array(kept)


def _subset(block: Block, position: Sequence[int]) -> frozenset[str]:
    return frozenset(name for name, level in zip(block.factors, position, strict=False) if level > 0)


def _cell_basis(blocks: Sequence[Block]) -> NDArray[np.float64]:
    """Write each coded column over products of indicators of levels other than the reference, shape (D, m).

    The indicator of a reference level is 1 less the others.
    """
    numbers: dict[object, int] = {}
    entries: list[tuple[int, int, float]] = []
    row = 0
    for block in blocks:
        for position in block.positions().tolist():
            cell = list(zip(block.factors, position, strict=False))
            vector = tuple(position[len(block.factors) :])
            parts = [
                [((name, level), 1.0)]
                if level > 0
                else [(None, 1.0), *(((name, other), -1.0) for other in range(1, block.shape[axis]))]
                for axis, (name, level) in enumerate(cell)
            ]
            for choice in itertools.product(*parts):
                key = (block.degrees, block.vectors, vector, tuple(c for c, _ in choice if c is not None))
                sign = float(np.prod([s for _, s in choice]))
                entries.append((row, numbers.setdefault(key, len(numbers)), sign))
            row += 1
    table = np.zeros((row, len(numbers)))
    for i, j, sign in entries:
        table[i, j] += sign
    return table


def _clean(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop rounding errors of a solve."""
    size = np.abs(matrix).max() if matrix.size else 0.0
    return np.where(np.abs(matrix) <= 1e-13 * size, 0.0, matrix)
