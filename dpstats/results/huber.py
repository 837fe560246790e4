"""Results of Huber's regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dpstats.errors import NotReleasedError
from dpstats.inference.estimates import ModelSpace, Solution
from dpstats.inference.moments import NoisyMoments
from dpstats.results.not_released import NOT_RELEASED_BY_HUBER
from dpstats.results.perturbed import DPPerturbedResults
from dpstats.results.perturbed_release import PerturbedRelease
from dpstats.results.prediction import Predictions


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class HuberRelease(PerturbedRelease):
    """What the releases of a Huber regression gave (zone: released); the other attributes are described there.

    Attributes
    ----------
    threshold : float
        Largest residual that counts as it is, in the response's unit.
    centre : float
        Middle of the response's range, about which the outcome was taken, in units of half the range.
    sigma2 : float
        Variance of clipped residuals over the share that is not clipped, in units of half the range squared.
    clamped : bool
        True if the noise hides it.
    """

    threshold: float
    centre: float
    sigma2: float
    clamped: bool

    def solve(self, moments: NoisyMoments, space: ModelSpace) -> Solution:
        """Step from the released minimiser to the coefficients, and add the centre of the response."""
        found = PerturbedRelease.solve(self, moments, space)
        return replace(found, origin=found.origin + self.centre * space.q.T @ space.constant)


class DPHuberResults(DPPerturbedResults):
    """A private Huber regression, by ``dp_ols(..., mechanism="huber")``.

    Attributes as of `DPResults`. ``nobs`` is the public length of the table: how many rows were complete is not
    released. `scale` is the variance of clipped residuals over the share that is not clipped. R-squared is not
    released.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema, mechanism="huber")
    >>> fit.threshold
    24.5
    >>> bool((fit.bse > fit.bse_sampling).all())
    True
    """

    model_name = "DP Huber"
    release: HuberRelease

    @property
    def threshold(self) -> float:
        """Largest residual that counts as it is, in the response's unit."""
        return self.release.threshold

    @property
    def scale(self) -> float:
        """Variance of clipped residuals over the share that is not clipped, in squared units of the response.

        The residual variance where no residual is clipped, less than that otherwise.
        """
        return self._space.half**2 * self.release.sigma2

    @property
    def scale_clamped(self) -> bool:
        """True if the noise does not resolve the residual variance, so that `scale` is a bound instead."""
        return self.release.clamped

    @property
    def _loss_width(self) -> float:
        return self.threshold

    def get_prediction(self, exog: Any = None) -> Predictions:
        """Predict for new rows, with confidence intervals for what is predicted, not for new observations.

        How far residuals go beyond the threshold was not released, so that there is no interval for an observation.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.

        Returns
        -------
        Predictions
            ``predicted``, ``se``, ``conf_int(alpha)`` and ``summary_frame(alpha)``.

        Raises
        ------
        NotReleasedError, DataError
            As for `predict`.
        """
        return Predictions(self._intervals(exog), logistic=False)

    rsquared = rsquared_adj = property()
    """Absent, so that `__getattr__` says why."""

    def __getattr__(self, name: str) -> Any:
        if name in NOT_RELEASED_BY_HUBER:
            raise NotReleasedError(f"{name} was not released: {NOT_RELEASED_BY_HUBER[name]}")
        return super().__getattr__(name)
