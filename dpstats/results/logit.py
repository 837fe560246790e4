"""Results of a logistic regression by the functional mechanism."""

from __future__ import annotations

from typing import Any

import pandas as pd
from scipy.special import expit

from dpstats.errors import NotReleasedError
from dpstats.results.prediction import NEW_ROWS, LinearPredictions, Predictions, require_which
from dpstats.results.results import DPResults

_LINEAR_ONLY = frozenset({"rsquared", "rsquared_adj", "fvalue", "f_pvalue"})


class DPTaylorLogitResults(DPResults):
    """A logistic regression fitted by the Taylor objective of the functional mechanism.

    The coefficients minimise the second-order Taylor expansion of the logistic loss at 0, which is 4 x least squares of
    y - 1/2, with the ridge that `estimand` states. Standard errors, tests and ``conf_int`` are about that minimiser:
    there is no interval for the coefficients of a logit, because the distance between the two depends on the data and
    was not released.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_logit("income ~ age + C(sex)", adult, epsilon=1, schema=schema, mechanism="functional")
    >>> "ridge" in fit.estimand
    True
    """

    model_name = "DP Logit (Taylor)"
    is_binary = True

    def predict(self, exog: Any = None, which: str = "mean") -> pd.Series:
        """Predict probabilities of the last outcome level for new rows.

        They rank and classify rows about as a logit does, but are not calibrated: they are too near 1/2.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.
        which : {"mean", "linear"}
            Probabilities 1 / (1 + exp(-x'beta)), or x'beta.

        Returns
        -------
        pandas.Series
            nan for rows with a missing entry or an undeclared level.

        Raises
        ------
        NotReleasedError
            Without `exog`.
        DataError
            If a column is missing.
        OptionError
            If `which` is neither.
        """
        require_which(which, ("mean", "linear"))
        linear = super().predict(exog)
        return linear if which == "linear" else pd.Series(expit(linear.to_numpy()), index=linear.index)

    def get_prediction(self, exog: Any = None, which: str = "mean") -> Predictions:
        """Predict for new rows, with intervals about the Taylor objective's minimiser.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.
        which : {"mean", "linear"}
            As for `predict`.

        Raises
        ------
        NotReleasedError, DataError, OptionError
            As for `predict`.
        """
        require_which(which, ("mean", "linear"))
        if exog is None:
            raise NotReleasedError(NEW_ROWS)
        found = LinearPredictions.of(self.design, exog, self._moments, self._space, self._fit)
        return Predictions(found, logistic=which == "mean")

    rsquared = rsquared_adj = fvalue = f_pvalue = property()
    """Absent, so that `__getattr__` says why."""

    def __getattr__(self, name: str) -> Any:
        if name in _LINEAR_ONLY:
            raise NotReleasedError(f"{name} belongs to a linear model; a logistic regression has none")
        return super().__getattr__(name)
