"""Baselines of the functional mechanism's paper: regression on a noisy histogram of all columns, outcome included.

For experiments. `dpme` perturbs every cell of the grid (Lei 2011), `fp` keeps cells that pass a filter and samples
them (Cormode et al. 2012), `truncated` is the Taylor logistic objective without noise. They have no standard errors;
their cells grow exponentially with the number of columns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.mechanisms.cell_regression import Family, regress
from dpstats.mechanisms.lattice import choose_bits
from dpstats.privacy.cost import PrivacyCost
from dpstats.privacy.notions import Budget, budget_of
from dpstats.privacy.unit import ONE_ROW, table_length
from dpstats.records.features import sum_products
from dpstats.records.histogram import count_cells
from dpstats.records.source import Source, as_source
from dpstats.release.filtered import WeightedCells, filter_and_sample
from dpstats.release.noise import Generator, SimulatedNoise, laplace_scale, noise_source
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.cells import CellGrid, cell_grid
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design, build_design
from dpstats.specification.features import Features, build_features
from dpstats.specification.schema import Schema, complete_schema
from dpstats.specification.view import full_view

Label = Literal["real", "simulated", "none"]
MOST_CELLS = 10**8
LEAST_SCALE = 1e-3
"""A smaller scale of noise on whole numbers is no noise."""
MOVED = 2.0
"""L1 change of a histogram when a row is replaced."""


@dataclass(frozen=True, slots=True)
class BaselineFit:
    """Coefficients of a baseline, for experiments (zone: released; not private for `truncated`).

    Attributes
    ----------
    params : pandas.Series
        Coefficients in raw units, shape (q,).
    privacy : PrivacyCost
        What was spent.
    cells : int
        Number of cells of the histogram; 0 without one.
    """

    params: pd.Series
    privacy: PrivacyCost
    cells: int


def dpme(
    formula: str,
    data: Any,
    epsilon: float,
    *,
    schema: Schema,
    family: Family = "linear",
    exponent: float | None = None,
    rng: Generator | None = None,
) -> BaselineFit:
    """Fit a regression to a histogram with Laplace noise in every cell (Lei 2011); a baseline.

    Parameters
    ----------
    formula : str
        As for `dp_ols`; the histogram is over the raw columns that it reads.
    data : table
        One row per record.
    epsilon : float
        Pure budget, replace-one neighbours.
    schema : Schema
        Bounds and levels.
    family : {"linear", "logistic"}
        Least squares, or a logit.
    exponent : float, optional
        Bins have width (sqrt(log n) / n)^exponent, as a share of a column's range; 2 / (2 + columns) by default.
    rng : numpy.random.Generator, optional
        Simulated noise, NOT PRIVATE; None draws real noise, cell by cell.

    Returns
    -------
    BaselineFit
        Coefficients; negative cells count as 0.

    Raises
    ------
    OptionError
        If the grid has more than 10^8 cells.

    Examples
    --------
    >>> import dpstats as dps
    >>> from dpstats.mechanisms import dpme
    >>> adult, schema = dps.datasets.load_adult()
    >>> list(dpme("hours_per_week ~ age", adult, 1.0, schema=schema).params.index)
    ['Intercept', 'age']
    """
    call = _prepare(formula, data, epsilon, schema, family, exponent)
    del data
    noise = noise_source(rng, private=math.isfinite(epsilon))
    if call.grid.n_cells > MOST_CELLS:
        raise OptionError(
            f"{formula!r} has {call.grid.n_cells:.1e} cells, too many for dpme; use fewer columns or another mechanism"
        )
    scales = laplace_scale(np.full(call.grid.n_cells, max(MOVED / epsilon, LEAST_SCALE)))

    def statistic() -> NDArray[np.int64]:
        found = count_cells(call.source, call.grid)
        counts = np.zeros(call.grid.n_cells, dtype=np.int64)
        counts[found.cells] = found.counts
        return counts

    noisy = release_integers(statistic, NoisePlan("laplace", scales, np.full(len(scales), MOVED)), noise)
    cells = np.flatnonzero(noisy > 0)
    params = regress(call.features, call.grid, WeightedCells(cells, noisy[cells].astype(np.float64)), family)
    spent = MOVED / float(scales[0]) if noise.label != "none" else epsilon
    return call.wrap(params, Budget(epsilon=spent), noise.label)


def fp(
    formula: str,
    data: Any,
    epsilon: float,
    *,
    schema: Schema,
    rng: Generator,
    family: Family = "linear",
    exponent: float | None = None,
    size: int | None = None,
    threshold: int | None = None,
) -> BaselineFit:
    """Fit a regression to a filtered sample of a noisy histogram (Cormode et al. 2012); a baseline.

    Parameters
    ----------
    formula, data, epsilon, schema, family, exponent
        As for `dpme`.
    rng : numpy.random.Generator
        Simulated noise, NOT PRIVATE. There is no real twin: which empty cells pass the filter is drawn in floating
        point.
    size : int, optional
        Cells in the sample; the public number of rows by default.
    threshold : int, optional
        Counts below it are dropped; by default about `size` empty cells pass.

    Returns
    -------
    BaselineFit
        Coefficients.

    Raises
    ------
    OptionError
        If `rng` is no numpy Generator.

    Examples
    --------
    >>> import dpstats as dps, numpy as np
    >>> from dpstats.mechanisms import fp
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = fp("hours_per_week ~ age", adult, 1.0, schema=schema, rng=np.random.default_rng(1))
    >>> list(fit.params.index)
    ['Intercept', 'age']
    """
    if not isinstance(rng, Generator):
        raise OptionError(f"fp is for studies: pass rng=numpy.random.default_rng(1), not {shown(rng)}")
    call = _prepare(formula, data, epsilon, schema, family, exponent)
    del data
    if call.grid.n_cells >= 2**62:
        raise OptionError(f"{formula!r} has {call.grid.n_cells:.1e} cells, too many to be numbered; use fewer columns")
    kept = call.n_rows if size is None else _whole("size", size)
    scale = max(MOVED / epsilon, LEAST_SCALE)
    default = default_threshold(call.grid.n_cells, scale, kept)
    least = default if threshold is None else _whole("threshold", threshold)
    sample = filter_and_sample(
        lambda: count_cells(call.source, call.grid), call.grid.n_cells, scale, least, kept, SimulatedNoise(rng)
    )
    return call.wrap(regress(call.features, call.grid, sample, family), Budget(epsilon=epsilon), "simulated")


def default_threshold(n_cells: int, scale: float, size: int) -> int:
    """Return the threshold at which about `size` empty cells pass the filter of `fp`."""
    alpha = math.exp(-1 / scale)
    return max(1, math.ceil(scale * math.log(max(n_cells / ((1 + alpha) * size), 1.0))))


def truncated(formula: str, data: Any, *, schema: Schema) -> BaselineFit:
    """Minimise the Taylor logistic objective without noise: the functional mechanism's bias alone; NOT PRIVATE.

    Parameters
    ----------
    formula, data, schema
        As for `dpme`, with an outcome of two levels.

    Returns
    -------
    BaselineFit
        4 x least squares of y - 1/2.

    Examples
    --------
    >>> import dpstats as dps
    >>> from dpstats.mechanisms import truncated
    >>> adult, schema = dps.datasets.load_adult()
    >>> list(truncated("income ~ age", adult, schema=schema).params.index)
    ['Intercept', 'age']
    """
    call = _prepare(formula, data, math.inf, schema, "logistic", None)
    del data
    bits = choose_bits(call.n_rows, 1.0)
    products = sum_products(call.source, call.features, bits).products / 4.0**bits
    solution = np.linalg.lstsq(products[:-1, :-1], products[:-1, -1], rcond=None)[0]
    params = call.named(call.features.raw_coefficients(np.asarray(solution)))
    return BaselineFit(params, PrivacyCost(Budget(math.inf), {}, noise="none"), 0)


@dataclass(frozen=True, slots=True)
class _Call:
    """A baseline's call before a record is read."""

    design: Design
    features: Features
    grid: CellGrid
    source: Source
    n_rows: int
    epsilon: float

    def named(self, params: NDArray[np.float64]) -> pd.Series:
        return pd.Series(params, index=self.design.exog_names)

    def wrap(self, params: NDArray[np.float64], cost: Budget, label: Label) -> BaselineFit:
        privacy = PrivacyCost(Budget(epsilon=self.epsilon), {"histogram": cost}, noise=label)
        return BaselineFit(self.named(params), privacy, self.grid.n_cells)


def _prepare(formula: str, data: Any, epsilon: float, schema: Schema, family: Family, exponent: float | None) -> _Call:
    budget_of(epsilon, None, None)
    if family not in ("linear", "logistic"):
        raise OptionError(f"family must be 'linear' or 'logistic', not {shown(family)}")
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a dpstats.Schema, not {type(schema).__name__}")
    if exponent is not None and not (isinstance(exponent, int | float) and 0 < exponent <= 1):
        raise OptionError(f"exponent must lie in (0, 1], not {shown(exponent)}")
    source = as_source(data)
    del data  # a traceback that shows local variables shows no record
    facts, n_rows = source.facts, table_length(ONE_ROW, lambda: source.n_rows).at_most
    binary = family == "logistic"
    design = build_design(
        formula, complete_schema(schema, facts), facts, binary="a logistic baseline" if binary else ""
    )
    coding = code_design(design, "laplace")
    features = build_features(full_view(coding), coding, "box", binary=binary)
    symbol = design.response.symbol
    outcome = symbol.text if binary and symbol.form == "column" else None
    grid = cell_grid(design.schema, design.variables, n_rows, exponent, outcome)
    return _Call(design, features, grid, source, n_rows, epsilon)


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise OptionError(f"{name} must be a whole number of at least 1, not {shown(value)}")
    return value
