"""Predictions for new, public rows, coerced and clipped as the fit's rows were."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from dpstats.errors import DataError, OptionError, shown
from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.results.contrast_test import check_alpha
from dpstats.specification.coercion import array_of, coerce
from dpstats.specification.design import Design
from dpstats.specification.grids import as_frame

NEW_ROWS = "predictions for the confidential rows were not released; pass new rows, as in predict(new_data)"


def predict_rows(design: Design, params: NDArray[np.float64], exog: Any) -> pd.Series:
    """Return the linear predictor of new rows.

    Parameters
    ----------
    design : Design
        The model.
    params : ndarray
        Its coefficients, shape (q,), in raw units.
    exog : pandas.DataFrame, pandas.Series (one row) or dict of array-like
        New rows.

    Raises
    ------
    DataError
        If a column is missing or the type is not supported.
    """
    rows = model_rows(design, exog)
    return pd.Series(np.where(rows.complete, rows.matrix @ params + rows.offset, np.nan), index=rows.index)


@dataclass(frozen=True, slots=True)
class ModelRows:
    """New rows as the model sees them (zone: public).

    Attributes
    ----------
    matrix : ndarray
        Model matrix, shape (n, q).
    complete : ndarray of bool
        Rows without a missing entry or an undeclared level, shape (n,).
    offset : ndarray
        What is added to the linear predictor, shape (n,); 0 without an offset.
    index : pandas.Index
        Of the rows.
    """

    matrix: NDArray[np.float64]
    complete: NDArray[np.bool_]
    offset: NDArray[np.float64]
    index: pd.Index


def model_rows(design: Design, exog: Any) -> ModelRows:
    """Coerce and clip new rows and build their model matrix.

    Raises
    ------
    DataError
        If a column is missing or the type is not supported.
    """
    frame = _as_frame(exog)
    names = design.prediction_variables
    for name in names:
        if name not in frame.columns:
            raise DataError(f"column {name!r} is missing in the new data; predict needs {', '.join(names)}")
    values, complete = coerce(design.schema, {name: array_of(frame[name]) for name in names}, len(frame))
    regressors = {name: values[name] for name in design.regressor_variables}
    matrix = design.model_matrix(as_frame(design.schema, regressors), len(frame))
    offset = np.zeros(len(frame)) if design.offset is None else design.offset.of(values, len(frame))
    return ModelRows(matrix, complete, offset, frame.index)


@dataclass(frozen=True, slots=True)
class LinearPredictions:
    """Linear predictors of new rows with their inference, in the response's unit (zone: released).

    Attributes
    ----------
    found : tuple of Contrast or None
        Per row, in coded units; None for a row that is not complete.
    scale : float
        Half the response's range.
    offset : ndarray
        Known part, shape (n,).
    index : pandas.Index
        Of the rows.
    """

    found: tuple[Contrast | None, ...]
    scale: float
    offset: NDArray[np.float64]
    index: pd.Index

    @classmethod
    def of(
        cls, design: Design, exog: Any, moments: NoisyMoments, space: ModelSpace, fit: LeastSquares
    ) -> LinearPredictions:
        """Test one contrast per complete row.

        Raises
        ------
        DataError
            If a column is missing or the type is not supported.
        """
        rows = model_rows(design, exog)
        tested = iter(contrasts(moments, space, fit, rows.matrix[rows.complete]) if rows.complete.any() else [])
        found = tuple(next(tested) if complete else None for complete in rows.complete)
        return cls(found, space.half, rows.offset, rows.index)

    @property
    def estimates(self) -> NDArray[np.float64]:
        """Linear predictors, shape (n,)."""
        return self.scale * np.array([np.nan if c is None else c.shown for c in self.found]) + self.offset

    @property
    def errors(self) -> NDArray[np.float64]:
        """Standard errors, shape (n,)."""
        return self.scale * np.array([np.nan if c is None else c.sd for c in self.found])

    def intervals(self, alpha: float) -> NDArray[np.float64]:
        """Return confidence intervals of level 1 - alpha, shape (n, 2)."""
        level = check_alpha(alpha)
        ends = np.array([(np.nan, np.nan) if c is None else c.interval(level) for c in self.found]).reshape(-1, 2)
        return self.scale * ends + self.offset[:, None]


class MeanPredictions:
    """Predicted means of new rows with intervals, as statsmodels prints those of least squares (zone: released).

    Parameters
    ----------
    linear : LinearPredictions
        The means and their inference.
    var_resid : float
        Residual variance, for new observations.

    Attributes
    ----------
    predicted_mean, predicted : ndarray
        Shape (n,).
    se_mean, se, se_obs : ndarray
        Standard errors of the mean, and of a new observation, shape (n,).

    Notes
    -----
    The interval for a new observation adds z^2 times the residual variance to the square of each side of the interval
    for the mean; it takes the residuals to be normal, and does not clip them.
    """

    def __init__(self, linear: LinearPredictions, var_resid: float) -> None:
        self._linear = linear
        self.var_resid = var_resid
        self.predicted_mean = self.predicted = linear.estimates
        self.se_mean = self.se = linear.errors
        self.se_obs = np.sqrt(linear.errors**2 + var_resid)

    def conf_int(self, obs: bool = False, alpha: float = 0.05) -> NDArray[np.float64]:
        """Return intervals of level 1 - alpha, for the mean or for a new observation; shape (n, 2)."""
        ends = self._linear.intervals(alpha)
        if not obs:
            return ends
        sides = np.abs(ends - self.predicted_mean[:, None])
        wider = np.sqrt(sides**2 + ndtri(1 - alpha / 2) ** 2 * self.var_resid)
        return np.asarray(self.predicted_mean[:, None] + np.array([-1.0, 1.0]) * wider)

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return predictions, standard errors and intervals with statsmodels' column names."""
        mean, obs = self.conf_int(alpha=alpha), self.conf_int(obs=True, alpha=alpha)
        columns = {
            "mean": self.predicted_mean,
            "mean_se": self.se_mean,
            "mean_ci_lower": mean[:, 0],
            "mean_ci_upper": mean[:, 1],
            "obs_ci_lower": obs[:, 0],
            "obs_ci_upper": obs[:, 1],
        }
        return pd.DataFrame(columns, index=self._linear.index)


class Predictions:
    """Predictions for public rows with intervals, as statsmodels prints those of a logit.

    Parameters
    ----------
    linear : LinearPredictions
        Linear predictors and their inference.
    logistic : bool
        True for probabilities.
    """

    def __init__(self, linear: LinearPredictions, logistic: bool) -> None:
        self._linear = linear
        self._logistic = logistic

    def _map(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(expit(values)) if self._logistic else values

    @property
    def predicted(self) -> NDArray[np.float64]:
        """Predictions, shape (n,)."""
        return self._map(self._linear.estimates)

    @property
    def se(self) -> NDArray[np.float64]:
        """Standard errors, sampling and privacy noise together (delta method for probabilities), shape (n,)."""
        p = self.predicted
        return self._linear.errors * (p * (1 - p) if self._logistic else 1.0)

    def conf_int(self, alpha: float = 0.05) -> NDArray[np.float64]:
        """Return confidence intervals of level 1 - alpha, shape (n, 2)."""
        return self._map(self._linear.intervals(alpha))

    def summary_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return predictions, standard errors and intervals with statsmodels' column names."""
        ends = self.conf_int(alpha)
        columns = {"predicted": self.predicted, "se": self.se, "ci_lower": ends[:, 0], "ci_upper": ends[:, 1]}
        return pd.DataFrame(columns, index=self._linear.index)


def require_which(which: object, allowed: tuple[str, ...]) -> None:
    """Refuse a kind of prediction that there is not.

    Raises
    ------
    OptionError
        If it is none of those allowed.
    """
    if not isinstance(which, str) or which not in allowed:
        *others, last = map(repr, allowed)
        raise OptionError(f"which must be {', '.join(others)} or {last}, not {shown(which)}")


def _as_frame(exog: Any) -> pd.DataFrame:
    if isinstance(exog, pd.DataFrame):
        return exog
    if isinstance(exog, pd.Series):
        return exog.to_frame().T
    if isinstance(exog, Mapping):
        return pd.DataFrame({name: np.atleast_1d(np.asarray(values)) for name, values in exog.items()})
    if hasattr(exog, "to_pandas"):
        return pd.DataFrame(exog.to_pandas())
    raise DataError(
        "new data must be a DataFrame of pandas or polars, a pyarrow Table, one row as a Series, or a dict of arrays, "
        f"not {type(exog).__name__}"
    )
