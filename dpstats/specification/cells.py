"""A public grid of cells over raw columns, for mechanisms that release a histogram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.coercion import array_of
from dpstats.specification.grids import Values, as_frame, n_codes
from dpstats.specification.schema import Continuous, Schema


@dataclass(frozen=True, slots=True)
class CellGrid:
    """Cells of a table's columns: equal bins of a continuous one, a level each of the others (zone: public).

    Attributes
    ----------
    schema : Schema
        Bounds and levels.
    names : tuple of str
        Columns, in the order in which cells are numbered.
    shape : tuple of int
        Bins or levels per column.
    two_point : str or None
        A continuous outcome between 0 and 1 that has a cell for each end.
    """

    schema: Schema
    names: tuple[str, ...]
    shape: tuple[int, ...]
    two_point: str | None = None

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    def number(self, values: Values) -> NDArray[np.int64]:
        """Return the cell of each coerced row, shape (n,)."""
        positions = []
        for name, size in zip(self.names, self.shape, strict=True):
            column = self.schema[name]
            if not isinstance(column, Continuous):
                positions.append(values[name].astype(np.int64))
                continue
            share = (values[name].astype(np.float64) - column.lower) / (column.upper - column.lower)
            positions.append(np.fmax(np.fmin(np.floor(share * size), size - 1), 0).astype(np.int64))
        return np.ravel_multi_index(positions, self.shape).astype(np.int64)

    def rows(self, cells: NDArray[np.int64]) -> Mapping[str, Any]:
        """Return a raw row at the centre of each cell, as columns."""
        values: Values = {}
        for name, size, position in zip(self.names, self.shape, np.unravel_index(cells, self.shape), strict=True):
            column = self.schema[name]
            if isinstance(column, Continuous):
                centres = np.linspace(0, 1, 2) if name == self.two_point else (np.arange(size) + 0.5) / size
                values[name] = column.lower + (column.upper - column.lower) * centres[position]
            else:
                values[name] = position
        frame = as_frame(self.schema, values)
        return {name: array_of(frame[name]) for name in self.names}


def cell_grid(
    schema: Schema, names: Sequence[str], n_rows: int, exponent: float | None, outcome: str | None = None
) -> CellGrid:
    """Return the grid of Lei (2011) over some columns.

    Parameters
    ----------
    schema : Schema
        Bounds and levels.
    names : sequence of str
        The columns, the outcome among them.
    n_rows : int
        Public length of the table.
    exponent : float, optional
        Bins have width (sqrt(log n) / n)^exponent; 2 / (2 + number of columns) by default.
    outcome : str, optional
        A binary outcome: two cells, whatever its declaration.
    """
    power = 2 / (2 + len(names)) if exponent is None else exponent
    width = (math.sqrt(math.log(max(n_rows, 3))) / n_rows) ** power
    bins = math.ceil(1 / width)
    shape = []
    for name in names:
        continuous = isinstance(schema[name], Continuous)
        shape.append(2 if continuous and name == outcome else bins if continuous else n_codes(schema, name))
    two_point = outcome if outcome is not None and isinstance(schema[outcome], Continuous) else None
    return CellGrid(schema, tuple(names), tuple(shape), two_point)
