"""Losses of one record in its predictor eta = z'theta, and the two bounds on which their privacy rests.

All losses here have a slope in [-1, 1] and a curvature in [0, `bound`]. Those of classification are functions of the
margin v = u eta, with an outcome u of -1 or +1; the logistic loss also allows u in between, as the loss of a share. The
loss of regression is a function of the residual u - eta, with an outcome u in [-1, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpstats.errors import OptionError, shown

Array = NDArray[np.float64]
HINGE_LOSSES = ("huber", "quartic")
TYPICAL_RESIDUAL = 0.2
"""Standard deviation of residuals that is assumed before anything is read, in units of half the outcome's range."""


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

    @property
    def is_regression(self) -> bool:
        """True if predictor and outcome have the same unit."""

    @property
    def typical_curvature(self) -> float:
        """Mean second derivative that a forecast assumes, in units of `bound`."""

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
    is_regression: bool = False
    typical_curvature: float = 0.8

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
    is_regression: bool = False
    typical_curvature: float = 0.4

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
    is_regression: bool = False
    typical_curvature: float = 0.4

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


@dataclass(frozen=True, slots=True)
class HuberResidual:
    """The loss of Huber (1964) in the residual e = u - eta, in units of its threshold t.

    f = e^2 / (2 t) for |e| <= t and |e| - t / 2 beyond: t times it is half of the square of a small residual.
    """

    threshold: float = 0.5
    name: str = "Huber"
    is_logistic: bool = False
    is_regression: bool = True

    @property
    def bound(self) -> float:
        """1 / t."""
        return 1 / self.threshold

    @property
    def typical_curvature(self) -> float:
        """Share of typical residuals that are not clipped, less a tenth."""
        return 0.9 * math.erf(self.threshold / TYPICAL_RESIDUAL / math.sqrt(2))

    @property
    def typical_square(self) -> float:
        """Mean square of typical residuals in units of t, clipped."""
        return min((TYPICAL_RESIDUAL / self.threshold) ** 2, 0.8)

    def residual(self, eta: Array, u: Array) -> Array:
        """Return the residual in units of t, clipped to [-1, 1]."""
        return np.asarray(np.clip((u - eta) / self.threshold, -1.0, 1.0))

    def curvature(self, eta: Array, u: Array) -> Array:
        """Return 1 / t for residuals up to t, 0 beyond."""
        return np.where(np.abs(u - eta) <= self.threshold, self.bound, 0.0)


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
