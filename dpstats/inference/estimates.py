"""Least squares from noisy moments: estimate, residual variance, covariance.

Notation of the methods: coded moments M over (z_x, y); A = M_xx, b = M_xy. All inversions are done in an orthonormal
basis Q of the model's columns, L' = Q R, in which the coefficients are gamma = R beta. The response is centred, so its
raw value is half (y + o): the residual of a coded row is ga'(z_x, y) with ga = (-(Q gamma - o e_0), 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.inverse import Spectrum, invert
from dpstats.inference.moments import NoisyMoments
from dpstats.specification.coding import Coding
from dpstats.specification.features import Features
from dpstats.specification.view import ModelView


@dataclass(frozen=True, slots=True)
class ModelSpace:
    """The model's columns in coded space (zone: public).

    Attributes
    ----------
    q : ndarray
        Orthonormal basis, shape (D_x, q).
    r : ndarray
        Shape (q, q); gamma = R beta for coefficients beta of the model columns in raw units of the regressors.
    constant : ndarray
        e_0, shape (D_x,): gives 1 for every complete row.
    ones : ndarray or None
        Coefficients in the basis that give 1 in every row, shape (q,); None if the constant is not in its span.
    mid, half : float
        The response in raw units is mid + half y.
    """

    q: NDArray[np.float64]
    r: NDArray[np.float64]
    constant: NDArray[np.float64]
    ones: NDArray[np.float64] | None
    mid: float
    half: float

    @classmethod
    def of(cls, view: ModelView, constant: NDArray[np.float64], mid: float = 0.0, half: float = 1.0) -> ModelSpace:
        """Return the orthonormal basis of a view's columns; the attributes say what the other arguments are."""
        q, r = np.linalg.qr(view.contrast.T)
        return cls(q, r, constant, None if view.ones is None else r @ view.ones, mid, half)

    @property
    def has_constant(self) -> bool:
        """Whether the constant is in the span of the model's columns."""
        return self.ones is not None

    @property
    def n_params(self) -> int:
        """Number of coefficients."""
        return int(self.q.shape[1])

    @property
    def offset(self) -> float:
        """O = mid / half."""
        return self.mid / self.half

    @classmethod
    def of_features(cls, features: Features) -> ModelSpace:
        """Return the space of a model whose columns are as many features."""
        return cls.of(features.view, features.constant, features.mid, features.half)


def model_space(view: ModelView, coding: Coding) -> ModelSpace:
    """Return the space of a model that is seen in coded columns.

    Parameters
    ----------
    view : ModelView
        The model.
    coding : Coding
        The coded columns.
    """
    response = coding.design.response
    return ModelSpace.of(view, coding.constant, response.mid, response.half)


@dataclass(frozen=True, slots=True)
class Solution:
    """Coefficients from noisy moments, in the orthonormal basis (zone: released).

    Attributes
    ----------
    gamma : ndarray
        beta-tilde: raw solution A^-1 b, shape (q,).
    shown : ndarray
        Solution corrected for its second-order bias, shape (q,).
    inverse : ndarray
        A^-1, shape (q, q); symmetric, perhaps indefinite.
    gram : Spectrum
        A, or what a ridge was added to.
    singular : bool
        True if A has an eigenvalue that is 0 for all practical purposes; no interval is bounded then.
    trimmed : bool
        True if directions without curvature were left out of a noisy objective.
    null : ndarray or None
        Without noise: directions that the data do not identify, shape (q, k), left out of the inverse; all contrasts
        that have no part in them are identified. With noise no contrast is if `singular`.
    origin : ndarray or float
        Coefficients, shape (q,), from which gamma is a step; 0 if gamma are the coefficients themselves.
    """

    gamma: NDArray[np.float64]
    shown: NDArray[np.float64]
    inverse: NDArray[np.float64]
    gram: Spectrum
    singular: bool
    trimmed: bool = False
    null: NDArray[np.float64] | None = None
    origin: NDArray[np.float64] | float = 0.0

    @property
    def n_identified(self) -> int:
        """Number of coefficients less the directions that data without noise leave open."""
        return len(self.gamma) - (0 if self.null is None else self.null.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastSquares(Solution):
    """Coefficients and all that inference needs (zone: released).

    Attributes
    ----------
    sampling : ndarray
        Sampling part of the covariance of gamma, shape (q, q).
    residual : ndarray
        ga at beta-tilde, shape (D,).
    noise : ndarray
        S, covariance of the noise in the moment vector, shape (q, q).
    covariance : ndarray
        C1, covariance of gamma: sampling part and A^-1 S A^-1, shape (q, q).
    sigma2 : float
        Residual variance in units half^2, between its two clamps; 1 where a loss has none.
    sigma2_sd : float
        Its privacy standard deviation.
    sigma2_clamped : bool
        True if a clamp was binding.
    df_resid : float
        n_c less the number of identified coefficients, at least 1.
    """

    sampling: NDArray[np.float64]
    residual: NDArray[np.float64]
    noise: NDArray[np.float64]
    covariance: NDArray[np.float64]
    sigma2: float
    sigma2_sd: float
    sigma2_clamped: bool
    df_resid: float

    @classmethod
    def of(
        cls,
        solution: Solution,
        sampling: NDArray[np.float64],
        residual: NDArray[np.float64],
        noise: NDArray[np.float64],
        *,
        sigma2: float = 1.0,
        sigma2_sd: float = 0.0,
        sigma2_clamped: bool = False,
        df_resid: float = math.inf,
    ) -> LeastSquares:
        """Add to a solution what follows from it; the attributes say what each argument is."""
        return cls(
            **{field.name: getattr(solution, field.name) for field in fields(Solution)},
            sampling=sampling,
            residual=residual,
            noise=noise,
            covariance=sampling + solution.inverse @ noise @ solution.inverse,
            sigma2=sigma2,
            sigma2_sd=sigma2_sd,
            sigma2_clamped=sigma2_clamped,
            df_resid=df_resid,
        )


def residual_vector(gamma: NDArray[np.float64], space: ModelSpace) -> NDArray[np.float64]:
    """Return ga: the residual of a coded row z, in units of half, is ``ga @ z``."""
    return np.append(space.offset * space.constant - space.q @ gamma, 1.0)


def noise_covariance(moments: NoisyMoments, space: ModelSpace, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return S(vector) = sum_k v_k h_k(., vector) h_k(., vector)' in the basis, shape (q, q)."""
    forms = moments.noise_of(moments.forms(space.q.T, vector))
    return np.asarray((forms * moments.variances) @ forms.T)


def spread_of(moments: NoisyMoments, space: ModelSpace, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Q(N) = E[E N E] for a symmetric N in the basis, E the noise of A, shape (q, q)."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    total = np.zeros_like(matrix)
    for value, vector in zip(eigenvalues, vectors.T, strict=True):
        total += value * noise_covariance(moments, space, space.q @ vector)
    return total


def fit_least_squares(moments: NoisyMoments, space: ModelSpace) -> LeastSquares:
    """Return the coefficients and their covariance.

    Parameters
    ----------
    moments, space
        As for `solve_least_squares`.
    """
    return with_covariance(moments, space, solve_least_squares(moments, space))


def solve_least_squares(moments: NoisyMoments, space: ModelSpace) -> Solution:
    """Solve for the coefficients.

    Parameters
    ----------
    moments : NoisyMoments
        Released sums.
    space : ModelSpace
        Model columns.

    Notes
    -----
    No eigenvalue floor and no ridge: with the raw inverse the moment vector at the estimate is an exactly known linear
    form of the noise (methods, 1.7). C1 = A^-1 (sigma^2 A_+ + S) A^-1. What is shown is gamma less its bias of second
    order (`_bias`).
    """
    gram = gram_of(moments, space)
    found = invert(gram, noisy=bool(moments.variances.any()))
    inverse = found.inverse
    matrix = moments.matrix
    target = space.q.T @ (matrix[:-1, -1] + space.offset * matrix[:-1, :-1] @ space.constant)
    gamma = inverse @ target
    corrected = gamma - _bias(moments, space, gram, gamma) if moments.variances.any() else gamma
    return Solution(gamma, corrected, inverse, gram, found.singular, null=found.null)


def _bias(moments: NoisyMoments, space: ModelSpace, gram: Spectrum, gamma: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the second-order bias of gamma, over directions of A that exceed the noise, shape (q,).

    With E the noise of A and h that of the moment vector at gamma, gamma has the error A^-1 h - A^-1 E A^-1 h + ..., of
    which the second term has a mean: for independent noises and an outcome centred at 0 it is A^-1 Q(A^-1) gamma, as
    in methods 1.7. In general h has the noise of the outcome's moments and of its centre too.

    The expansion holds where the noise is small beside the curvature. In a direction where it is not, such as that of a
    level with few rows, the correction would be many times the error, in every coefficient.
    """
    strong = gram.values >= noise_level(moments, space.n_params - space.has_constant)
    at_fit = moments.noise_of(moments.forms(space.q.T, residual_vector(gamma, space)))
    values, kept = gram.values[strong], gram.vectors[:, strong]
    mean = moments.weighted_forms((kept.T @ at_fit) * moments.variances / values[:, None], (space.q @ kept).T)
    return np.asarray(-kept @ ((kept.T @ (space.q.T @ mean)) / values))


def noise_level(moments: NoisyMoments, n_directions: int) -> float:
    """Return 2 sqrt(p) t: a bound on the eigenvalues of the noise in X'X over p directions, for most draws.

    t is the median noise standard deviation of an off-diagonal entry.
    """
    index = moments.index[:-1, :-1]
    pairs = index[np.triu_indices(len(index), 1)]
    if not (pairs >= 0).any():
        return 0.0
    return 2 * math.sqrt(n_directions) * math.sqrt(float(np.median(moments.variances[pairs[pairs >= 0]])))


def gram_of(moments: NoisyMoments, space: ModelSpace) -> Spectrum:
    """Return A, the noisy X'X in the basis."""
    return Spectrum.of(space.q.T @ moments.matrix[:-1, :-1] @ space.q)


def with_covariance(moments: NoisyMoments, space: ModelSpace, solution: Solution) -> LeastSquares:
    """Attach residual variance and covariance to a solution.

    Parameters
    ----------
    moments, space
        From which it was solved.
    solution : Solution
        Coefficients.

    Notes
    -----
    The residual sum of squares at the noisy solution is too small by 2 tr(A^-1 S) - tr(A^-1 G A^-1 S) in expectation,
    which is tr(A^-1 S) where A = G.
    """
    inverse, gram = solution.inverse, solution.gram
    residual = residual_vector(solution.gamma, space)
    noise = noise_covariance(moments, space, residual)
    df_resid = max(moments.n_complete - solution.n_identified, 1.0)
    through = inverse @ noise
    deficit = float(2 * np.trace(through) - np.trace(inverse @ gram.matrix @ through))
    sigma2, sigma2_sd, clamped = _residual_variance(moments, space, residual, deficit, df_resid)
    sampling = sigma2 * inverse @ gram.positive_part @ inverse
    return LeastSquares.of(
        solution,
        sampling,
        residual,
        noise,
        sigma2=sigma2,
        sigma2_sd=sigma2_sd,
        sigma2_clamped=clamped,
        df_resid=df_resid,
    )


def _residual_variance(
    moments: NoisyMoments, space: ModelSpace, residual: NDArray[np.float64], trace: float, df_resid: float
) -> tuple[float, float, bool]:
    """Residual variance, its privacy sd, and whether a clamp was binding (methods, 1.8).

    The upper clamp is the sum of squares of the empty model over the same degrees of freedom, so that it never binds
    without noise: y'y in coded units if the model spans the constant, the raw sum of squares otherwise. Neither clamp
    exceeds what the declared bounds of the response allow.
    """
    squares = float(residual @ moments.matrix @ residual)
    raw = (squares + trace) / df_resid
    sd = math.sqrt(moments.variance_of(moments.forms(residual[None], residual)[0])) / df_resid
    empty = empty_residual(space)
    reach = 1.0 if space.has_constant else 1.0 + abs(space.offset)
    possible = reach**2 * max(moments.n_complete, 1.0) / df_resid
    largest = float(empty @ moments.matrix @ empty) / df_resid
    smallest = min(sd, possible)
    clamped = min(max(raw, smallest), max(min(largest, possible), smallest))
    return clamped, sd, clamped != raw


def empty_residual(space: ModelSpace) -> NDArray[np.float64]:
    """Residual of the empty model: the response about its mid-range if the constant is spanned, about raw 0 if not."""
    offset = 0.0 if space.has_constant else space.offset
    return np.append(offset * space.constant, 1.0)
