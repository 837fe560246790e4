"""What results of perturbed losses share: classifiers and Huber's regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.errors import NotReleasedError
from dpstats.inference.score_fit import is_large_step
from dpstats.results.fitted import RowsSeen
from dpstats.results.perturbed_release import PerturbedRelease
from dpstats.results.prediction import NEW_ROWS, LinearPredictions
from dpstats.results.results import DPResults


class DPPerturbedResults(DPResults):
    """The released minimiser of a perturbed loss, and inference about the coefficients.

    Attributes as of `DPResults`. ``nobs`` is the public length of the table: how many rows were complete is not
    released.
    """

    is_perturbed = True
    release: PerturbedRelease

    @property
    def loss(self) -> str:
        """Name of the loss."""
        return self.release.loss

    @property
    def nobs(self) -> float:
        """Public length of the table; the number of complete rows was not released."""
        return float(self.release.n_rows)

    @property
    def nobs_sd(self) -> float:
        """0: the length is public."""
        return 0.0

    @property
    def rows_seen(self) -> RowsSeen | None:
        """None: the curvature of the loss is not that of a known number of rows."""
        return None

    @property
    def df_resid(self) -> float:
        """Length of the table less the number of coefficients."""
        return self.nobs - self._solution.n_identified

    @property
    def is_large_step(self) -> bool:
        """True if the ridge was so strong that taking it out moves some row's predictor far along its loss."""
        reach = float(np.sqrt(self.release.row_size)) * self._space.half
        return is_large_step(self._fit, self._space, reach / self._loss_width)

    @property
    def _loss_width(self) -> float:
        """Change of the predictor over which the loss bends."""
        return 1.0

    def _intervals(self, exog: Any) -> LinearPredictions:
        if exog is None:
            raise NotReleasedError(NEW_ROWS)
        return LinearPredictions.of(self.design, exog, self.release.quick_moments, self._space, self._fit)
