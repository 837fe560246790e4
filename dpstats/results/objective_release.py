"""A released noisy objective: one model, minimised without further cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import NotReleasedError
from dpstats.inference.estimates import LeastSquares, ModelSpace, Solution, with_covariance
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.ridge import Ridge, solve_ridge
from dpstats.privacy.cost import PrivacyCost
from dpstats.results.release import PROJECTION
from dpstats.specification.features import Features
from dpstats.specification.view import ModelView

_TAYLOR = (
    "minimiser of the second-order Taylor expansion of the logistic loss at 0, which is 4 x least squares of y - 1/2, "
    "complete cases. These are NOT the coefficients of a logit, and the intervals are not about those"
)


def shrinkage(features: Features, size: float, what: str) -> str:
    """Say what a ridge on coded columns does to the coefficients; nothing without one."""
    if size == 0:
        return ""
    middle = ", the outcome taken about the middle of its range" if features.has_intercept else ""
    return (
        f"; {what} of {size:.4g} on columns coded to {features.coded_range}{middle}, pulls the coefficients together "
        "towards 0 (single ones may change sign)"
    )


@dataclass(frozen=True, slots=True)
class ObjectiveRelease:
    """The noisy coefficients of one quadratic objective, as the functional mechanism releases them (zone: released).

    Attributes
    ----------
    features : Features
        The model's columns on their box.
    moments : NoisyMoments
        Noisy sums of products of features in [-1, 1] and of the coded response.
    ridge : Ridge
        How the objective is kept bounded.
    method : str
        Name of the mechanism.
    binary : bool
        True for the Taylor logistic objective.
    privacy : PrivacyCost
        What the release cost.
    remarks : tuple of str
        What a reader of the summary should know beyond the estimand.
    declared : str
        Where bounds and levels came from.
    """

    features: Features
    moments: NoisyMoments
    ridge: Ridge
    method: str
    binary: bool
    privacy: PrivacyCost
    remarks: tuple[str, ...] = ()
    declared: str = "declared"

    @property
    def formula(self) -> str:
        """The formula that was released."""
        return self.features.view.design.formula

    @property
    def mechanism(self) -> str:
        """What was released, and with which noise."""
        return f"{self.method}, Laplace"

    @property
    def has_noisy_coefficients(self) -> bool:
        """False: the noise is in the sums that the coefficients solve for."""
        return False

    @property
    def law(self) -> str:
        """Law of the noise."""
        return self.moments.law

    @property
    def estimand(self) -> str:
        """What the coefficients estimate."""
        target = _TAYLOR if self.binary else PROJECTION
        return target + shrinkage(self.features, self.ridge.size, "a public ridge")

    def space(self, view: ModelView) -> ModelSpace:
        """Return the model's columns in the space of features."""
        return ModelSpace.of_features(self.features)

    def solve(self, moments: NoisyMoments, space: ModelSpace) -> Solution:
        """Minimise the noisy objective."""
        return solve_ridge(moments, space, self.ridge)

    def infer(self, moments: NoisyMoments, space: ModelSpace, solution: Solution) -> LeastSquares:
        """Attach the covariance to a solution."""
        return with_covariance(moments, space, solution)

    def retained(self, moments: NoisyMoments, space: ModelSpace, fit: LeastSquares) -> NDArray[np.float64]:
        """Return the share of each coefficient that comes from the data and not from the ridge, shape (q,).

        The diagonal of the map from least-squares to ridged coefficients, noise included.
        """
        gram = space.q.T @ moments.matrix[:-1, :-1] @ space.q
        return np.diag(np.linalg.solve(space.r, fit.inverse @ gram @ space.r))

    def usable_moments(self) -> NoisyMoments:
        """Return the moments that the fit uses."""
        return self.moments

    def fit(self, formula: str | None = None) -> Any:
        """Refuse another formula.

        Raises
        ------
        NotReleasedError
            Always: the objective of one formula was released.
        """
        raise NotReleasedError(
            f"mechanism {self.method!r} releases the objective of one formula; dp_moments(...) releases sums that fit "
            "any number of formulas"
        )

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<ObjectiveRelease: {self.formula!r}, {self.mechanism}, {self.privacy.budget}{state}>"
