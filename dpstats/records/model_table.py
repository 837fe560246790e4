"""Private rows as a model matrix in raw units: what a fit without privacy is given inside the enclave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.records.source import Partition, Source
from dpstats.specification.coercion import coerce
from dpstats.specification.design import Design
from dpstats.specification.grids import Values, as_frame
from dpstats.specification.row_symbols import read_weights
from dpstats.specification.symbols import ScalarSymbol


@dataclass(frozen=True, slots=True, repr=False)
class ModelTable:
    """Complete rows, clipped as the private fit clipped them (zone: PRIVATE).

    Attributes
    ----------
    exog : ndarray
        Model matrix in raw units, shape (n, q).
    endog : ndarray
        Outcome in raw units, less the offset, shape (n,).
    weights : ndarray
        Shape (n,); ones without weights.
    """

    exog: NDArray[np.float64]
    endog: NDArray[np.float64]
    weights: NDArray[np.float64]

    def __repr__(self) -> str:
        return "ModelTable()"


def model_table(source: Source, design: Design, released: Design) -> ModelTable:
    """Read a table as a model's complete rows.

    Parameters
    ----------
    source : Source
        The table.
    design : Design
        The model.
    released : Design
        The formula whose release the model was fitted from; rows must be complete in all of its columns.

    Notes
    -----
    Nothing here is on the lattice, and no sensitivity holds for it: no release may be made from it.
    """
    names = released.read_variables
    parts = source.map_reduce(names, lambda part: [_complete_rows(part, design, released)], lambda a, b: [*a, *b])
    exog, endog, weights = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("exog", "endog", "weights")
    )
    return ModelTable(exog, endog, weights)


def _complete_rows(partition: Partition, design: Design, released: Design) -> ModelTable:
    raw = {name: partition.columns[name] for name in released.variables}
    values, complete = coerce(released.schema, raw, partition.n_rows, released.rules.missing)
    weights, known = read_weights(released.rules, partition.columns, partition.n_rows)
    exog = design.model_matrix(as_frame(released.schema, values), partition.n_rows)
    endog = _outcome(design.response, values, partition.n_rows)
    used = complete & known & np.isfinite(endog) & np.isfinite(exog).all(axis=1)
    return ModelTable(exog[used], endog[used], weights[used])


def _outcome(response: ScalarSymbol, values: Values, n_rows: int) -> NDArray[np.float64]:
    """Return the outcome in raw units, not finite where it has no value."""
    if response.evaluate is None:
        return values[response.symbol.text].astype(np.float64)
    raw = response.evaluate(values, n_rows)
    return np.where(np.isfinite(raw), np.clip(raw, response.lower, response.upper), np.nan)
