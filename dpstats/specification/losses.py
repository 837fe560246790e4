"""Losses of classification in the margin, and the two bounds on which their privacy rests.

A record with predictor eta = z'theta and outcome u, -1 or +1, has the loss f(v) in the margin v = u eta. All losses
here have |f'| <= 1 and 0 <= f'' <= `bound`. The logistic loss also allows u between -1 and +1, as the loss of a share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpstats.errors import OptionError, shown

Array = NDArray[np.float64]
HINGE_LOSSES = ("huber", "quartic")


class Loss(Protocol):
    """A convex loss of one record in the predictor eta (zone: public)."""

    @property
    def name(self) -> str:
        """As printed."""

    @property
    def bound(self) -> float:
        """Largest second derivative."""

    @property
    def is_logistic(self) -> bool:
        """True for the logistic loss, whose slope and curvature are tied: f'' = |f'| (1 - |f'|)."""

    def residual(self, eta: Array, u: Array) -> Array:
        """Return minus the first derivative in eta, in [-1, 1]: the score of a record is z times it."""

    def curvature(self, eta: Array, u: Array) -> Array:
        """Return the second derivative in eta, in [0, bound]."""


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logistic loss f(v) = log(1 + exp(-v)).

    With y = (1 + u) / 2 and p = 1 / (1 + exp(-eta)) the residual is y - p and the curvature p (1 - p) <= 1/4.
    """

    name: str = "logistic"
    bound: float = 0.25
    is_logistic: bool = True

    def residual(self, eta: Array, u: Array) -> Array:
        """Return y - p."""
        return np.asarray((1 + u) / 2 - expit(eta))

    def curvature(self, eta: Array, u: Array) -> Array:
        """Return p (1 - p)."""
        p = expit(eta)
        return np.asarray(p * (1 - p))


@dataclass(frozen=True, slots=True)
class HuberHinge:
    """The hinge loss with a quadratic piece of half width h around its kink (Chapelle 2007).

    f = 0 for v > 1 + h, (1 + h - v)^2 / (4 h) for |1 - v| <= h, 1 - v below; f'' is 1 / (2 h) in the band and 0
    outside.
    """

    h: float = 0.5
    name: str = "Huberised hinge"
    is_logistic: bool = False

    @property
    def bound(self) -> float:
        """1 / (2 h)."""
        return 1 / (2 * self.h)

    def residual(self, eta: Array, u: Array) -> Array:
        """Return u times a slope that falls from 1 to 0 over the band."""
        return np.asarray(u * np.clip((1 + self.h - u * eta) / (2 * self.h), 0.0, 1.0))

    def curvature(self, eta: Array, u: Array) -> Array:
        """Return 1 / (2 h) in the band, 0 outside."""
        return np.where(np.abs(1 - u * eta) <= self.h, self.bound, 0.0)


@dataclass(frozen=True, slots=True)
class QuarticHinge:
    """The hinge loss with a piece of degree four around its kink, twice differentiable (Chaudhuri et al. 2011).

    With s = 1 - v and |s| <= h: f = -s^4 / (16 h^3) + 3 s^2 / (8 h) + s / 2 + 3 h / 16, f'' = 3 (h^2 - s^2) / (4 h^3).
    """

    h: float = 0.5
    name: str = "quartic hinge"
    is_logistic: bool = False

    @property
    def bound(self) -> float:
        """3 / (4 h)."""
        return 3 / (4 * self.h)

    def residual(self, eta: Array, u: Array) -> Array:
        """Return u times a slope that falls smoothly from 1 to 0 over the band."""
        s = np.clip((1 - u * eta) / self.h, -1.0, 1.0)
        return np.asarray(u * (0.5 + s * (3 - s * s) / 4))

    def curvature(self, eta: Array, u: Array) -> Array:
        """Return 3 (h^2 - s^2) / (4 h^3) in the band, 0 outside."""
        s = np.clip((1 - u * eta) / self.h, -1.0, 1.0)
        return np.asarray(self.bound * (1 - s * s))


LOGISTIC = Logistic()


def hinge_loss(loss: Literal["huber", "quartic"] | object, h: object) -> HuberHinge | QuarticHinge:
    """Return the hinge loss that two arguments of `dp_svm` name.

    Raises
    ------
    OptionError
        If there is no such loss, or h is not a number from .05 to 1.
    """
    if not isinstance(loss, str) or loss not in HINGE_LOSSES:
        raise OptionError(f"loss must be 'huber' or 'quartic', not {shown(loss)}")
    if isinstance(h, bool) or not isinstance(h, int | float) or not 0.05 <= h <= 1:
        raise OptionError(f"h must be a number from 0.05 to 1, as in h=0.5, not {shown(h)}")
    return HuberHinge(float(h)) if loss == "huber" else QuarticHinge(float(h))
