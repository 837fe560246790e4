"""Heteroskedasticity-consistent standard errors from a second, small release (White 1980; methods, 1.11).

At the released estimate, with l_j = L'A^-1 c_j for each coefficient c_j, the statistic is
H_j = sum_i (l_j'z_i)^2 psi_c(r_i)^2. l_j, the residual's coefficients and the clip c come from the first release, so
they are constants here. A row adds between 0 and U_j, so that replacing it moves H within prod_j [-U_j, U_j]: there is
no factor 2.

Covariances of all coefficients come from the same statistic for coordinates in which the model's covariance is the
identity, and for sums of two of them. There no variance is a small difference of large ones, as that of a prediction is
beside those of a slope and an intercept far from the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.moments import NoisyMoments
from dpstats.specification.blocks import Block
from dpstats.specification.forms import Forms

CLIP = 4.0
LOWEST_RATIO = 0.2
NARROW = 1e-12
"""Of the largest variance: coordinates with less are measured in that unit."""
LARGEST_NOISE = 1e150
"""Beside a variance; the square of a larger number is no float."""
SMALLEST = float(np.finfo(float).tiny ** 0.5)


@dataclass(frozen=True, slots=True)
class ScoreTarget:
    """What the second release measures: functions of the first release and of public facts (zone: released).

    Attributes
    ----------
    forms : Forms
        l_j of each coefficient, or of coordinates of them all and of pairs of these.
    back : ndarray or None
        Maps coordinates to coefficients, shape (q, q); None if the forms are those of coefficients.
    residual : ndarray
        ga, shape (D,): the residual of a coded row.
    clip : float
        c, in units of half the response's range: four residual standard deviations, the estimate's own noise
        included, or the public range of a residual if that is smaller; without noise the latter, so that nothing is
        clipped.
    ranges : ndarray
        U: largest term of one row, one for each form.
    model : ndarray
        m: model-based variance, one for each form.
    row_size : float
        Largest squared norm of a coded regressor row.
    """

    forms: Forms
    back: NDArray[np.float64] | None
    residual: NDArray[np.float64]
    clip: float
    ranges: NDArray[np.float64]
    model: NDArray[np.float64]
    row_size: float

    @classmethod
    def of(
        cls,
        space: ModelSpace,
        fit: LeastSquares,
        largest: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        row_size: float,
        residual: NDArray[np.float64],
        clip: float = 1.0,
        *,
        whole: bool,
    ) -> ScoreTarget:
        """Measure each coefficient, or the whole covariance.

        Parameters
        ----------
        space, fit
            The first release and its fit.
        largest : callable
            Maps forms, shape (m, D_x), to the largest |l'z| of a row, shape (m,).
        row_size, residual, clip
            As attributes.
        whole : bool
            Whether to measure the whole covariance.
        """
        if whole:
            values, vectors = np.linalg.eigh(fit.sampling)
            sizes = np.sqrt(np.maximum(values, max(NARROW * values[-1], SMALLEST)))
            coordinates, back = (vectors / sizes).T, np.linalg.solve(space.r, vectors * sizes)
        else:
            coordinates, back = np.linalg.inv(space.r), None
        forms = Forms.of(np.asarray(coordinates @ fit.inverse @ space.q.T), paired=whole)
        matrix = forms.matrix
        squared = np.minimum(largest(matrix) ** 2, (matrix**2).sum(axis=1) * row_size)
        model = forms.sums(coordinates @ fit.sampling @ coordinates.T)
        ranges = np.maximum(clip**2 * squared, SMALLEST)
        return cls(forms, back, residual, clip, ranges, np.maximum(model, SMALLEST), row_size)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Unit in which a form is measured: m, but at least one row's largest term; one for each form."""
        return np.maximum(self.model, self.ranges)

    @property
    def joint_size(self) -> float:
        """Bound on the Euclidean norm of one row's terms, each in units of its weight.

        The sum of squares of non-negative terms is at most their largest times their sum, which is a quadratic form of
        the row.
        """
        scaled = self.forms.matrix / np.sqrt(self.weights)[:, None]
        total = self.clip**2 * self.row_size * float(np.linalg.eigvalsh(scaled.T @ scaled)[-1])
        return min(total, math.sqrt(float((self.ranges / self.weights).max()) * total))


@dataclass(frozen=True, slots=True)
class RobustSampling:
    """The sampling part of a covariance, as squared scores have it (zone: released).

    Attributes
    ----------
    ratios : ndarray or None
        Robust over model-based variance of each coefficient, shape (q,), correlations being those of the model.
    covariance : ndarray or None
        Robust covariance of the coefficients, shape (q, q), if it was measured instead.
    """

    ratios: NDArray[np.float64] | None
    covariance: NDArray[np.float64] | None = None


def score_target(
    moments: NoisyMoments,
    space: ModelSpace,
    fit: LeastSquares,
    blocks: Sequence[Block],
    row_size: float,
    *,
    whole: bool,
) -> ScoreTarget:
    """Fix what the second release measures, for every coefficient of the model.

    Parameters
    ----------
    moments, space, fit
        The first release and its fit.
    blocks : sequence of Block
        Coded regressor blocks.
    row_size : float
        Largest squared norm of a coded regressor row, lattice rounding included.
    whole : bool
        Whether to measure the whole covariance.
    """
    uncertain = fit.sigma2 + max(float(np.trace(fit.gram.positive_part @ fit.covariance)), 0.0) / max(
        moments.n_complete, 1.0
    )
    reach = float(largest_products(np.abs(fit.residual[None, :-1]), blocks)[0]) + 1.0
    clip = min(CLIP * math.sqrt(uncertain), reach) if moments.variances.any() else reach
    return ScoreTarget.of(
        space,
        fit,
        lambda forms: largest_products(np.abs(forms), blocks),
        row_size,
        fit.residual,
        clip,
        whole=whole,
    )


def largest_products(sizes: NDArray[np.float64], blocks: Sequence[Block]) -> NDArray[np.float64]:
    """Return the largest |l'z| over complete rows: per block the largest column, or the norm of a vector block.

    Parameters
    ----------
    sizes : ndarray
        |l|, shape (m, D_x).
    blocks : sequence of Block
        Coded regressor blocks, in order.
    """
    total = np.zeros(len(sizes))
    start = 0
    for block in blocks:
        part = sizes[:, start : start + block.n_columns]
        total += np.sqrt((part**2).sum(axis=1)) if block.vectors else part.max(axis=1)
        start += block.n_columns
    return total


def robust_sampling(
    target: ScoreTarget, released: NDArray[np.float64], sd: NDArray[np.float64], correction: float
) -> RobustSampling:
    """Return what squared scores say of the coefficients' sampling covariance.

    Parameters
    ----------
    target : ScoreTarget
        What was measured.
    released : ndarray
        Noisy H, one for each form.
    sd : ndarray
        Standard deviation of its noise, one for each form.
    correction : float
        1 for HC0, n / (n - q) for HC1.

    Notes
    -----
    A noisy variance is shrunk towards the model's by w = (m/2)^2 / ((m/2)^2 + sd^2). It is at least two standard
    deviations of its noise, or a fifth of the model's if that is less. For the whole covariance, in coordinates in
    which the model's is the identity, so is every eigenvalue, with the largest noise of a coordinate.
    """
    m = len(target.forms.single)
    model = target.model[:m]
    noise = np.minimum(sd[:m], LARGEST_NOISE * model) / model
    trust = 0.25 / (0.25 + noise**2)
    lowest = np.minimum(LOWEST_RATIO, 2 * noise)
    if target.back is None:
        return RobustSampling(np.maximum((model + trust * (correction * released - model)) / model, lowest))
    expected = target.forms.products(target.model)
    shrunk = expected + trust.min() * (correction * target.forms.products(released) - expected)
    values, vectors = np.linalg.eigh(shrunk)
    root = target.back @ vectors * np.sqrt(np.maximum(values, lowest.max() * model.max()))
    return RobustSampling(None, root @ root.T)


def with_robust_sampling(fit: LeastSquares, space: ModelSpace, robust: RobustSampling) -> LeastSquares:
    """Return the fit with the sampling part of its covariance replaced by a robust one."""
    if robust.ratios is None:
        beta = cast("NDArray[np.float64]", robust.covariance)
    else:
        back, stretch = np.linalg.inv(space.r), np.sqrt(robust.ratios)
        beta = (back @ fit.sampling @ back.T) * np.outer(stretch, stretch)
    sampling = space.r @ beta @ space.r.T
    return replace(fit, sampling=sampling, covariance=sampling + fit.inverse @ fit.noise @ fit.inverse)
