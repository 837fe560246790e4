"""Noise on integer vectors: discrete Laplace and discrete Gaussian, drawn by OpenDP; simulated twins for studies.

Exactness. OpenDP's samplers are exact on integers. Independent discrete Laplace noise of scales t_k on an integer
vector that changes by D costs exactly max sum |D_k| / t_k of pure epsilon; independent discrete Gaussian noise of
variances s_k^2 costs exactly max sum D_k^2 / (2 s_k^2) of rho (Canonne, Kamath and Steinke 2020).

Transfer rule. The discrete Gaussian is not exactly mu-Gaussian-DP. With T = 9 squared lattice units and s_k^2 > T it
satisfies (epsilon' + 2 d theta', (1 + theta)^d delta(epsilon'; mu')) for mu'^2 = max sum D_k^2 / (s_k^2 - T), theta =
1.5e-77, theta' = 2 theta and d released integers: convolve the Gaussian mechanism of variance s^2 - T with a lattice
Gaussian of variance T; by Poisson summation its density differs from N(m, s^2) by a factor within theta of 1. Hence
every target variance is inflated by 9, and theta is absorbed by the accountant's slack.

Noise on real numbers (a random linear term of an objective) and spherical noise are ideal real draws, rounded to a
lattice exactly (`dpstats.release.knorm`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.release.knorm import (
    draw_in_ball,
    draw_max_norm,
    geometric_from,
    simulate_in_ball,
    simulate_max_norm,
)
from dpstats.specification.predictors import Ball
from dpstats.specification.remember import remembered
from dpstats.specification.threads import both

TRANSFER_VARIANCE = 9.0
MIN_GAUSSIAN_SCALE = 64.0
ROUNDING = 1 + 1e-9
REAL_STEP = Fraction(1, 2**40)
"""Lattice of real draws."""
MANY_DRAWS = 256
"""Draws that take longer than a second thread takes to start."""

Generator = np.random.Generator
Law = Literal["laplace", "gaussian", "max_norm", "spherical", "symmetric"]
"""Spherical noise has density exp(-||v|| / scale); symmetric noise the same in Frobenius norm, on an upper triangle."""
AddNoise = Callable[[NDArray[np.int64]], NDArray[np.int64]]


def gaussian_scale(target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discrete Gaussian's parameter s, in lattice units, for target standard deviations.

    Notes
    -----
    sqrt(target^2 + 9) with a target of at least 64, rounded up.
    """
    safe = np.maximum(target, MIN_GAUSSIAN_SCALE)
    return np.nextafter(np.sqrt(safe**2 + TRANSFER_VARIANCE) * ROUNDING, np.inf)


def laplace_scale(target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the discrete Laplace's scale t, in lattice units, rounded up."""
    return np.nextafter(target * ROUNDING, np.inf)


class NoiseSource(Protocol):
    """Where noise comes from."""

    @property
    def label(self) -> Literal["real", "simulated", "none"]:
        """``"real"`` noise is private; nothing else is."""

    def prepare(self, law: Law, scales: NDArray[np.float64], distances: NDArray[np.float64]) -> AddNoise:
        """Return a function that adds noise of the given scales to an integer vector."""

    def real_vector(self, ball: Ball, gamma: float) -> list[Fraction]:
        """Return a draw with density proportional to exp(-gamma N(b)), within `real_error` of a real one."""


def real_error(size: int) -> float:
    """Return how far, in Euclidean norm, a draw of `real_vector` of some length is at most from the ideal real one."""
    return float(np.sqrt(size)) * float(REAL_STEP) / 2


@dataclass(frozen=True, slots=True)
class RealNoise:
    """Exact discrete noise from the operating system's generator, through OpenDP."""

    label: Literal["real"] = "real"

    def prepare(self, law: Law, scales: NDArray[np.float64], distances: NDArray[np.float64]) -> AddNoise:
        """Build one measurement per group of equal scale, and compare its cost with ours, before data are read.

        Parameters
        ----------
        law : {"laplace", "gaussian", "max_norm", "spherical", "symmetric"}
            Law of the noise; all but the first two have one scale for the whole vector.
        scales : ndarray
            Shape (K,), in lattice units.
        distances : ndarray
            Shape (K,): the largest L1, L2 or max-norm change, in lattice units, of each entry's group.
        """
        if law == "max_norm":
            return _max_norm(len(scales), float(scales[0]))
        if law in ("spherical", "symmetric"):
            return _spherical(law, len(scales), float(scales[0]))
        groups = [np.flatnonzero(scales == scale) for scale in np.unique(scales)]
        measurements = [_checked(law, float(scales[group[0]]), float(distances[group[0]])) for group in groups]

        def add(values: NDArray[np.int64]) -> NDArray[np.int64]:
            noisy = np.empty_like(values)
            for group, measurement in zip(groups, measurements, strict=True):
                noisy[group] = _measured(measurement, values[group])
            return noisy

        return add

    def real_vector(self, ball: Ball, gamma: float) -> list[Fraction]:
        """Draw digits from the operating system's generator until the rounding is decided."""
        return [whole * REAL_STEP for whole in draw_in_ball(ball, gamma, REAL_STEP)]


def _spherical(law: Law, size: int, scale: float) -> AddNoise:
    """Off the diagonal of a symmetric matrix an entry counts twice: its noise is smaller by sqrt 2."""
    stretch = off_diagonals(size) if law == "symmetric" else None
    ball = Ball((), (1.0,), size)
    return lambda values: values + np.array(draw_in_ball(ball, 1 / scale, Fraction(1), stretch), dtype=np.int64)


def off_diagonals(size: int) -> list[int]:
    """Return 1 or 2, the times that an entry of the upper triangle stands in the matrix, shape (size,)."""
    d = int(np.sqrt(2 * size))
    rows, columns = np.triu_indices(d)
    return [1 + int(i != j) for i, j in zip(rows, columns, strict=True)]


def _max_norm(size: int, scale: float) -> AddNoise:
    geometric = geometric_from(_measurement("laplace", scale), batch=4 * (size + 1))
    return lambda values: values + draw_max_norm(size, scale, geometric)


def _measured(measurement: Any, values: NDArray[np.int64]) -> list[int]:
    """Draw independent noise for each value; many draws are shared by two threads."""
    if len(values) < MANY_DRAWS:
        return list(measurement(values.tolist()))
    half = len(values) // 2
    first, second = both(lambda: measurement(values[:half].tolist()), lambda: measurement(values[half:].tolist()))
    return [*first, *second]


@remembered
def _checked(law: Law, scale: float, distance: float) -> Any:
    """Return a measurement whose cost for a change of some size was compared with ours."""
    measurement = _measurement(law, scale)
    check_cost(law, measurement, scale, distance)
    return measurement


def _measurement(law: Law, scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)


def check_cost(law: Law, measurement: Any, scale: float, distance: float) -> None:
    """Compare a measurement's own privacy map with ours at one distance; a disagreement is a bug, so it is fatal."""
    if law == "laplace":
        whole = min(int(np.ceil(distance)), 2**62)
        ours, theirs = whole / scale, measurement.map(whole)
    else:
        ours, theirs = distance**2 / (2 * scale**2), measurement.map(distance)
    if not theirs <= ours * (1 + 1e-9):
        raise RuntimeError(f"OpenDP's cost {theirs!r} of {law} noise differs from {ours!r}")


@dataclass(frozen=True, slots=True)
class SimulatedNoise:
    """The same laws from a seeded generator, for studies and tests: NOT PRIVATE."""

    generator: np.random.Generator
    label: Literal["simulated"] = "simulated"

    def prepare(self, law: Law, scales: NDArray[np.float64], distances: NDArray[np.float64]) -> AddNoise:
        """Return a function that adds simulated noise."""

        def add(values: NDArray[np.int64]) -> NDArray[np.int64]:
            if law == "max_norm":
                return values + simulate_max_norm(len(values), float(scales[0]), self.generator)
            if law in ("spherical", "symmetric"):
                real = simulate_in_ball(Ball((), (1.0,), len(values)), 1 / float(scales[0]), self.generator)[0]
                real /= np.sqrt(off_diagonals(len(values)) if law == "symmetric" else 1)
                return np.asarray(values + np.rint(real).astype(np.int64))
            if law == "laplace":
                noise = np.rint(self.generator.laplace(scale=scales))
            else:
                noise = np.rint(self.generator.normal(scale=scales))
            return values + noise.astype(np.int64)

        return add

    def real_vector(self, ball: Ball, gamma: float) -> list[Fraction]:
        """Return a simulated draw."""
        return [Fraction(value) for value in simulate_in_ball(ball, gamma, self.generator)[0].tolist()]


@dataclass(frozen=True, slots=True)
class NoNoise:
    """No noise, for an infinite budget: NOT PRIVATE."""

    label: Literal["none"] = "none"

    def prepare(self, law: Law, scales: NDArray[np.float64], distances: NDArray[np.float64]) -> AddNoise:
        """Return the identity."""
        return lambda values: values

    def real_vector(self, ball: Ball, gamma: float) -> list[Fraction]:
        """Return 0."""
        return [Fraction(0)] * ball.n_columns


def noise_source(rng: Any, *, private: bool) -> NoiseSource:
    """Return real noise, simulated noise, or none for an infinite budget.

    Parameters
    ----------
    rng : numpy.random.Generator or None
        None draws real noise.
    private : bool
        False for an infinite budget.

    Raises
    ------
    OptionError
        If `rng` is not a numpy Generator.
    """
    if rng is not None and not isinstance(rng, Generator):
        raise OptionError(f"rng must be a numpy Generator, as in numpy.random.default_rng(1), not {shown(rng)}")
    if not private:
        return NoNoise()
    return RealNoise() if rng is None else SimulatedNoise(rng)
