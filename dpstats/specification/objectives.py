"""Objectives of degree two in the parameters, and what adding noise to their coefficients costs.

Per record, with features x in [-B, B]^d and a coded response u in [-1, 1],

    f(w) = q (x'w)^2 - l u x'w + u^2 .

Its coefficients are the sums of x_j x_k (times q), of u x_j (times l) and of u^2. Least squares is q = 1, l = 2; the
Taylor expansion of the logistic loss at 0 is q = 1/8, l = 1/2 with u = 2y - 1; a third objective is one more constant.

Neighbouring tables differ in one row; an incomplete row is 0. Noise of scale t1 on the sums of x_j x_k (every ordered
pair: "full"; j <= k only: "triangle"), t2 on those of u x_j and t3 on that of u^2 costs

    epsilon = sup over two records of  |change of x_j x_k|_1 / t1 + |change of u x_j|_1 / t2 + |change of u^2| / t3 .

Theorem. Let P = d B, and K = 4 for full, 2 (1 + 1/d) for triangle. Then

    epsilon <= K P^2 / (4 t1) + P / t2 + 1 / t3    if 1 / t3 >= t1 / (K t2^2),      (with u^2)
    epsilon <= max over 0 <= C <= P of  K C (P - C) / t1 + 2 C / t2,                (without u^2)

so that u^2 costs nothing at t3 = K t2^2 / t1 as long as t1 <= K P t2 / 2, where both are
(sqrt(K) P / (2 sqrt(t1)) + sqrt(t1) / (sqrt(K) t2))^2; and both suprema are attained on real numbers.

Proof. Let z = (x, u), z' be two records, a_j = |z_j + z'_j| / 2 and c_j = |z_j - z'_j| / 2, so that a_j + c_j =
max(|z_j|, |z'_j|). From z_j z_k - z'_j z'_k = ((z + z')_j (z - z')_k + (z - z')_j (z + z')_k) / 2 every change is at
most 2 (a_j c_k + c_j a_k), and it is 4 a_j c_j at j = k. Write A, C for the sums of a_j, c_j over features, a, c for
the response. All bounds grow in every a_j and c_j, so let a_j + c_j = B, A + C = P, a + c = 1. Full: the changes add
up to 4 A C. Triangle: to half of that plus half of the diagonal, 4 sum a_j c_j = 4 sum a_j (B - a_j) <=
4 (B A - A^2 / d) = 4 A C / d. Hence at most K A C / t1 + 2 (a C + c A) / t2 + 4 a c / t3. At A = P/2 - s, a = 1/2 + r
this is K P^2 / (4 t1) + P / t2 + 1 / t3 minus the form K s^2 / t1 - 4 r s / t2 + 4 r^2 / t3, which is non-negative if
and only if 1 / t3 >= t1 / (K t2^2). Without u^2 the bound is linear in a, hence largest at a = 0 or 1, which is the
second line. A record against an incomplete one changes at most K P^2 / (4 t1) + P / t2 + 1 / t3 as well: full
P^2 / t1, triangle (P^2 + d B^2) / (2 t1). Attained: x_j = B against a multiple of it, u = 1 against -1.

The published sensitivities of the functional mechanism and of Diff-LR bound each record's coefficients by themselves
and double them; they are valid and larger.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Entries = Literal["triangle", "full"]


@dataclass(frozen=True, slots=True)
class QuadraticObjective:
    """An objective q (x'w)^2 - l u x'w per record (zone: public).

    Attributes
    ----------
    name : str
        What is minimised.
    quadratic, linear : float
        q and l.
    published : tuple of float
        Coefficients (c2, c1, c0) of the published sensitivity c2 d^2 + c1 d + c0.
    binary : bool
        True if the response is an outcome of two levels, coded -1 and +1.
    """

    name: str
    quadratic: float
    linear: float
    published: tuple[float, float, float]
    binary: bool

    def published_sensitivity(self, d: int, *, constant: bool = True) -> float:
        """Return the published sensitivity for d features; the authors' code leaves the constant out."""
        c2, c1, c0 = self.published
        return c2 * d**2 + c1 * d + (c0 if constant else 0.0)


LEAST_SQUARES = QuadraticObjective("least squares", 1.0, 2.0, (2.0, 4.0, 2.0), binary=False)
TAYLOR_LOGISTIC = QuadraticObjective("Taylor logistic loss", 1 / 8, 1 / 2, (1 / 4, 3.0, 0.0), binary=True)


@dataclass(frozen=True, slots=True)
class Scales:
    """Laplace scales of the sums, in units of the features' box and of the coded response (zone: public).

    Attributes
    ----------
    products : float
        t1, of each sum of x_j x_k.
    cross : float
        t2, of each sum of u x_j.
    squares : float
        t3, of the sum of u^2; inf if it is not released.
    """

    products: float
    cross: float
    squares: float


def quadratic_constant(d: int, entries: Entries) -> float:
    """Return K of the theorem."""
    return 4.0 if entries == "full" else 2 * (1 + 1 / d)


def cost_without_squares(size: float, t1: float, t2: float, k: float) -> float:
    """Return the second line of the theorem; `size` is P."""
    c = min(size, size / 2 + t1 / (k * t2))
    return k * c * (size - c) / t1 + 2 * c / t2


def joint_cost(size: float, scales: Scales, k: float) -> float:
    """Return epsilon of the three kinds of sums together.

    Parameters
    ----------
    size : float
        P = d B.
    scales : Scales
        t1, t2, t3.
    k : float
        From `quadratic_constant`.
    """
    t1, t2, t3 = scales.products, scales.cross, scales.squares
    separate = cost_without_squares(size, t1, t2, k) + 1 / t3
    if t1 * t3 <= k * t2**2 * (1 + 1e-12):
        return min(separate, k * size**2 / (4 * t1) + size / t2 + 1 / t3)
    return separate


def squares_scale(size: float, t1: float, t2: float, k: float, epsilon: float) -> float:
    """Return the smallest t3 that keeps the joint cost at epsilon: free if the theorem says so, else what is left."""
    free = k * t2**2 / t1
    if joint_cost(size, Scales(t1, t2, free), k) <= epsilon * (1 + 1e-12):
        return free
    left = epsilon - cost_without_squares(size, t1, t2, k)
    return 1 / left if left > 0 else math.inf


def scales_at_ratio(size: float, ratio: float, k: float, epsilon: float, *, squares: bool = True) -> Scales:
    """Return the scales with t1 / t2 = ratio that cost exactly epsilon.

    Parameters
    ----------
    size : float
        P = d B.
    ratio : float
        t1 / t2.
    k : float
        From `quadratic_constant`.
    epsilon : float
        What may be spent.
    squares : bool
        Whether u^2 is released; free for all but very small designs.
    """
    if not squares:
        t2 = cost_without_squares(size, ratio, 1.0, k) / epsilon
        return Scales(ratio * t2, t2, math.inf)
    t2 = (math.sqrt(k / ratio) * size / 2 + math.sqrt(ratio / k)) ** 2 / epsilon
    return Scales(ratio * t2, t2, k * t2 / ratio)
