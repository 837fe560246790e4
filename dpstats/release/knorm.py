"""Exact noise of a shape that fits what a record can change: K-norm noise (Hardt and Talwar 2010).

Max-norm noise on integer vectors has probability proportional to exp(-a max_j |v_j|). For statistics whose changes fill
a cube [-K, K]^m, a = epsilon / K is epsilon-DP, and a coordinate's standard deviation is about half of joint Laplace
noise's or less once m is 5 or more.

Its exactness. Let G be a sum of m + 1 independent geometric variables P(k) = (1 - e^-a) e^(-ak), so that its weight at
g is binom(g + m, m) e^(-ag). Accept it with probability prod_{i=1..m} (2g + 1) / (2g + 2i): the accepted weight is
proportional to (2g + 1)^m e^(-ag). A uniform point of {-g..g}^m then has probability proportional to sum_{g >= max|v|}
e^(-ag), which is proportional to e^(-a max|v|). A geometric variable is a discrete Laplace variable, which OpenDP draws
exactly, given that it is not negative; acceptance and uniform draws compare big integers.

Noise with a real density proportional to exp(-gamma N(b)), N a norm of blocks or the Euclidean norm, is drawn as an
ideal real number and rounded to a lattice (`dpstats.release.lazy`). Added to an integer statistic, the rounded draw is
the rounding of the statistic with real noise: post-processing of it.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpstats.release.lazy import STEP, Interval, LazyUniform, round_when_decided
from dpstats.specification.predictors import Ball


def max_norm_sd(reach: float, epsilon: float, size: int) -> float:
    """Return a coordinate's standard deviation for changes in [-reach, reach]^size."""
    return reach / epsilon * math.sqrt((size + 1) * (size + 2) / 3)


def draw_max_norm(size: int, scale: float, geometric: Callable[[], int]) -> NDArray[np.int64]:
    """Draw one integer vector with probability proportional to exp(-max|v| / scale).

    Parameters
    ----------
    size : int
        m, length of the vector.
    scale : float
        1 / a, in lattice units.
    geometric : callable
        Exact draws of P(k) proportional to exp(-k / scale), k >= 0.
    """
    while True:
        radius = sum(geometric() for _ in range(size + 1))
        bound = math.prod(2 * radius + 2 * i for i in range(1, size + 1))
        if secrets.randbelow(bound) < (2 * radius + 1) ** size:
            return np.array([secrets.randbelow(2 * radius + 1) - radius for _ in range(size)], dtype=np.int64)


def geometric_from(laplace: Callable[[list[int]], list[int]], batch: int) -> Callable[[], int]:
    """Return geometric draws: discrete Laplace draws around 0 that are not negative."""
    waiting: list[int] = []

    def one() -> int:
        while not waiting:
            waiting.extend(value for value in laplace([0] * batch) if value >= 0)
        return waiting.pop()

    return one


def simulate_max_norm(size: int, scale: float, generator: np.random.Generator) -> NDArray[np.int64]:
    """Draw the continuous twin, rounded, for studies: NOT PRIVATE."""
    return np.rint(generator.gamma(size + 1) * scale * generator.uniform(-1, 1, size)).astype(np.int64)


def draw_in_ball(ball: Ball, gamma: float, unit: Fraction, stretch: Sequence[int] | None = None) -> list[int]:
    """Draw a vector with density proportional to exp(-gamma N(b)), rounded to multiples of `unit`.

    Parameters
    ----------
    ball : Ball
        The norm N.
    gamma : float
        Rate.
    unit : Fraction
        Step of the lattice.
    stretch : sequence of int, optional
        Each coordinate is divided by the square root of its number, shape (D,).

    Notes
    -----
    Blocks: b = G u with G a Gamma variable of shape D + 1 and rate gamma and u uniform in the unit ball: a single
    coordinate is uniform in (-1, 1); l coordinates of a cross-polytope are signs times (E_1..E_l) / (E_1 + .. +
    E_{l+1}) with exponential E. (The density of G u at v is the integral over g >= N(v) of g^D e^(-g) / g^D.)
    Euclidean: b = G w with G of shape D and w uniform on the sphere, from normal numbers by the polar method.
    """
    exact = Fraction(gamma)
    build = _euclidean(ball) if ball.is_euclidean else _blocks(ball)
    roots = [1] * ball.n_columns if stretch is None else list(stretch)

    def enclose(bits: int) -> list[Interval]:
        digits = 20 + bits // 3
        draws = build(bits, digits)
        scales = {s: Interval(Fraction(s), Fraction(s)).root(digits) for s in set(roots) if s != 1}
        return [
            (b if s == 1 else b.over(scales[s])).scaled(1 / exact).coarse(2 * bits)
            for b, s in zip(draws, roots, strict=True)
        ]

    return round_when_decided(enclose, unit)


def _blocks(ball: Ball) -> Callable[[int, int], list[Interval]]:
    radius = [LazyUniform() for _ in range(ball.n_columns + 1)]
    parts = [[LazyUniform() for _ in range(1 if size == 1 else size + 1)] for size in ball.sizes]
    signs = [[secrets.randbits(1) for _ in range(size)] for size in ball.sizes]

    def build(bits: int, digits: int) -> list[Interval]:
        size = _sum([u.enclose(bits).minus_log(digits) for u in radius])
        found: list[Interval] = []
        for draws, sign, reach in zip(parts, signs, ball.radii, strict=True):
            length = size.scaled(Fraction(reach))
            if len(draws) == 1:
                shares = [draws[0].enclose(bits)]
            else:
                waits = [u.enclose(bits).minus_log(digits) for u in draws]
                total = _sum(waits)
                shares = [wait.over(total).coarse(2 * bits) for wait in waits[:-1]]
            found += [(length * share).scaled(Fraction(1 - 2 * s)) for share, s in zip(shares, sign, strict=True)]
        return found

    return build


def _euclidean(ball: Ball) -> Callable[[int, int], list[Interval]]:
    radius = [LazyUniform() for _ in range(ball.n_columns)]
    pairs = [_in_disc() for _ in range((ball.n_columns + 1) // 2)]
    signs = [secrets.randbits(1) for _ in range(2 * len(pairs))]

    def build(bits: int, digits: int) -> list[Interval]:
        size = _sum([u.enclose(bits).minus_log(digits) for u in radius]).scaled(Fraction(ball.radii[0]))
        normals: list[Interval] = []
        for first, second in pairs:
            x, y = first.enclose(bits), second.enclose(bits)
            square = x * x + y * y
            square = Interval(square.low, min(square.high, Fraction(1)))
            length = square.minus_log(digits).scaled(Fraction(2)).over(square).root(digits)
            normals += [x * length, y * length]
        normals = [normal.scaled(Fraction(1 - 2 * s)) for normal, s in zip(normals, signs, strict=True)][
            : ball.n_columns
        ]
        norm = _sum([(normal * normal).coarse(2 * bits) for normal in normals]).root(digits)
        return [(size * normal).over(norm) for normal in normals]

    return build


def _in_disc() -> tuple[LazyUniform, LazyUniform]:
    """Return a uniform point of the unit disc's positive quarter, by rejection decided on as many bits as needed."""
    while True:
        x, y = LazyUniform(), LazyUniform()
        bits = STEP
        while True:
            first, second = x.enclose(bits), y.enclose(bits)
            square = first * first + second * second
            if square.high <= 1:
                return x, y
            if square.low > 1:
                break
            bits += STEP


def _sum(terms: Sequence[Interval]) -> Interval:
    return Interval(sum((t.low for t in terms), Fraction(0)), sum((t.high for t in terms), Fraction(0)))


def simulate_in_ball(ball: Ball, gamma: float, generator: np.random.Generator, size: int = 1) -> NDArray[np.float64]:
    """Draw the floating-point twin, shape (size, D), for studies and for the known law of the noise: NOT PRIVATE."""
    if ball.is_euclidean:
        directions = generator.normal(size=(size, ball.n_columns))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return generator.gamma(ball.n_columns, size=(size, 1)) * (ball.radii[0] / gamma) * directions
    points = np.empty((size, ball.n_columns))
    for where, width, reach in ball.spans():
        if width == 1:
            points[:, where] = reach * generator.uniform(-1, 1, (size, 1))
        else:
            waits = generator.exponential(size=(size, width + 1))
            shares = waits[:, :-1] / waits.sum(axis=1, keepdims=True)
            points[:, where] = reach * shares * generator.choice([-1.0, 1.0], (size, width))
    return generator.gamma(ball.n_columns + 1, size=(size, 1)) / gamma * points
