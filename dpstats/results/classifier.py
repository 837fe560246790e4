"""Results of private classifiers: logistic regression and support vector machine."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy.special import expit

from dpstats.errors import NotReleasedError
from dpstats.inference.diagnostics import sum_of_weights
from dpstats.results.fitted import RowsSeen
from dpstats.results.not_released import NOT_RELEASED_BY_CLASSIFIERS
from dpstats.results.perturbed import DPPerturbedResults
from dpstats.results.prediction import NEW_ROWS, Predictions, predict_rows, require_which
from dpstats.specification.schema import Continuous

_LINEAR_ONLY = frozenset({"rsquared", "rsquared_adj", "fvalue", "f_pvalue"})


class DPClassifierResults(DPPerturbedResults):
    """A private classifier: coefficients of a linear predictor, and inference about them.

    Attributes as of `DPResults`. ``nobs`` is the public length of the table: how many rows were complete is not
    released.
    """

    is_binary = True
    is_classifier = True

    @property
    def levels(self) -> tuple[Any, Any]:
        """The two levels of the outcome, failure and success; 0 and 1 for a number or an expression."""
        column = self.design.schema.columns.get(self.model.endog_names)
        first, last = (0, 1) if column is None or isinstance(column, Continuous) else column.levels
        return first, last

    @property
    def scale(self) -> float:
        """1, as in statsmodels."""
        return 1.0

    def _linear(self, exog: Any) -> pd.Series:
        if exog is None:
            raise NotReleasedError(NEW_ROWS)
        return predict_rows(self.design, self.params.to_numpy(), exog)

    def _classes(self, linear: pd.Series) -> pd.Series:
        """Return the outcome level of each row: the last where the predictor is positive."""
        labels = pd.Series([self.levels[value > 0] for value in linear], index=linear.index, dtype=object)
        return labels.where(linear.notna(), None).infer_objects()

    rsquared = rsquared_adj = fvalue = f_pvalue = property()
    """Absent, so that `__getattr__` says why."""

    def __getattr__(self, name: str) -> Any:
        if name in _LINEAR_ONLY:
            raise NotReleasedError(f"{name} belongs to a linear model; a classifier has none")
        if name in NOT_RELEASED_BY_CLASSIFIERS:
            raise NotReleasedError(f"{name} was not released: {NOT_RELEASED_BY_CLASSIFIERS[name]}")
        return super().__getattr__(name)


class DPLogitResults(DPClassifierResults):
    """A private logistic regression.

    Coefficients are log-odds ratios, as in statsmodels' ``Logit``; `estimand` says what exactly they estimate.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_logit("income ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> fit.levels
    ('<=50K', '>50K')
    >>> bool(fit.predict({"age": [40], "sex": ["Male"]}).between(0, 1).all())
    True
    """

    model_name = "DP Logit"

    @property
    def rows_seen(self) -> RowsSeen | None:
        """Four times the sum of p (1 - p), which is at most the number of complete rows; None without a constant."""
        constant = self._space.constant
        if not constant.any():
            return None
        total, sd = sum_of_weights(self._moments, self._space)
        return RowsSeen(4 * total, 4 * sd)

    def predict(self, exog: Any = None, which: str = "mean") -> pd.Series:
        """Predict for new rows.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.
        which : {"mean", "linear", "class"}
            Probabilities of the last outcome level, linear predictors, or the more probable level.

        Returns
        -------
        pandas.Series
            nan (None for classes) for rows with a missing entry or an undeclared level.

        Raises
        ------
        NotReleasedError
            Without `exog`.
        DataError
            If a column is missing.
        OptionError
            If `which` is none of these.
        """
        require_which(which, ("mean", "linear", "class"))
        linear = self._linear(exog)
        if which == "class":
            return self._classes(linear)
        return linear if which == "linear" else pd.Series(expit(linear.to_numpy()), index=linear.index)

    def get_prediction(self, exog: Any = None, which: str = "mean") -> Predictions:
        """Predict for new rows, with confidence intervals.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.
        which : {"mean", "linear"}
            Probabilities, whose intervals are those of the linear predictor, transformed; or linear predictors.

        Returns
        -------
        Predictions
            ``predicted``, ``se``, ``conf_int(alpha)`` and ``summary_frame(alpha)``.

        Raises
        ------
        NotReleasedError, DataError, OptionError
            As for `predict`.
        """
        require_which(which, ("mean", "linear"))
        return Predictions(self._intervals(exog), logistic=which == "mean")


class DPSVMResults(DPClassifierResults):
    """A private linear support vector machine with a smoothed hinge loss.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_svm("income ~ age + C(sex)", adult, epsilon=2, schema=schema)
    >>> fit.predict({"age": [40], "sex": ["Female"]}, which="class").tolist()
    ['<=50K']
    """

    model_name = "DP SVM"

    def predict(self, exog: Any = None, which: str = "linear") -> pd.Series:
        """Predict for new rows.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.
        which : {"linear", "class"}
            Decision values, positive for the last outcome level, or levels.

        Returns
        -------
        pandas.Series
            nan (None for classes) for rows with a missing entry or an undeclared level.

        Raises
        ------
        NotReleasedError
            Without `exog`.
        DataError
            If a column is missing.
        OptionError
            If `which` is none of these.
        """
        require_which(which, ("linear", "class"))
        linear = self._linear(exog)
        return self._classes(linear) if which == "class" else linear

    def get_prediction(self, exog: Any = None) -> Predictions:
        """Predict decision values for new rows, with confidence intervals.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.

        Raises
        ------
        NotReleasedError, DataError
            As for `predict`.
        """
        return Predictions(self._intervals(exog), logistic=False)
