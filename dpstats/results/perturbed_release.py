"""A released perturbed minimiser with its noisy Hessian: one model, without further cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import NotReleasedError
from dpstats.inference.estimates import LeastSquares, ModelSpace, Solution
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.inference.score_moments import ScoreMoments
from dpstats.privacy.cost import PrivacyCost
from dpstats.specification.perturbation import NO_RIDGE
from dpstats.specification.view import ModelView

QUICK_DRAWS = 10
SEPARATED = 100.0
"""Without noise: curvature, in units of the ridge, up to which the ridge alone holds a coefficient."""


@dataclass(frozen=True, slots=True)
class PerturbedRelease:
    """What the releases of a perturbed loss gave (zone: released).

    Attributes
    ----------
    view : ModelView
        The model's columns in terms of the predictors that were perturbed.
    model_space : ModelSpace
        The same with an orthonormal basis.
    theta : ndarray
        Released minimiser in the space of predictors, shape (q,).
    moments : ScoreMoments
        Noisy Hessian and shift with the known law of the noise.
    meat : ndarray or None
        Released covariance of the score, shape (q, q); None if it is taken from the Hessian.
    n_rows : int
        Public length of the table.
    row_size : float
        Largest squared norm of a row of predictors.
    ridge : float
        lam of (lam / 2) ||theta||^2 in the objective whose minimiser was released, losses being summed over rows.
    method, loss : str
        Names of mechanism and loss.
    estimand : str
        What the coefficients estimate.
    privacy : PrivacyCost
        What was spent, on what.
    remarks : tuple of str
        What a reader of the summary should know beyond the estimand.
    declared : str
        Where bounds and levels came from.
    """

    view: ModelView
    model_space: ModelSpace
    theta: NDArray[np.float64]
    moments: ScoreMoments
    meat: NDArray[np.float64] | None
    n_rows: int
    row_size: float
    ridge: float
    method: str
    loss: str
    estimand: str
    privacy: PrivacyCost
    remarks: tuple[str, ...] = ()
    declared: str = "declared"

    @property
    def formula(self) -> str:
        """The formula that was released."""
        return self.view.design.formula

    @property
    def mechanism(self) -> str:
        """What was released, and with which noise."""
        return self.method

    @property
    def has_noisy_coefficients(self) -> bool:
        """True if the only noise in the coefficients was added to them, not to what they minimise."""
        return self.moments.is_output

    @property
    def law(self) -> str:
        """Law of the Hessian's noise."""
        return self.moments.law

    def space(self, view: ModelView) -> ModelSpace:
        """Return the model's columns in the space of predictors."""
        return self.model_space

    def solve(self, moments: NoisyMoments, space: ModelSpace) -> Solution:
        """Step from the released minimiser to the coefficients."""
        floor = SEPARATED * self.ridge if self.ridge <= NO_RIDGE * self.row_size else 0.0
        return solve_scores(moments, space, self.theta, floor)

    def infer(self, moments: NoisyMoments, space: ModelSpace, solution: Solution) -> LeastSquares:
        """Attach the covariance to a solution."""
        return with_score_covariance(moments, space, solution, self.meat)

    def retained(self, moments: NoisyMoments, space: ModelSpace, fit: LeastSquares) -> NDArray[np.float64]:
        """Return the share of each coefficient that comes from the data and not from a ridge: all of it, shape (q,)."""
        return np.ones(space.n_params)

    @property
    def quick_moments(self) -> ScoreMoments:
        """The moments with a tenth of the draws of the noise's law, for intervals of very many predictions."""
        return replace(self.moments, thinning=QUICK_DRAWS)

    def usable_moments(self) -> ScoreMoments:
        """Return the moments that the fit uses."""
        return self.moments

    def fit(self, formula: str | None = None) -> Any:
        """Refuse another formula.

        Raises
        ------
        NotReleasedError
            Always: the minimiser of one formula's loss was released.
        """
        raise NotReleasedError(
            "the minimiser of one formula's loss was released; another formula needs a fit, and a budget, of its own"
        )

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<{type(self).__name__}: {self.formula!r}, {self.mechanism}, {self.privacy.budget}{state}>"
