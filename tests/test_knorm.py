"""Max-norm noise on integers: the exact law, its spread, and the cost that follows from it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpstats.release.knorm import draw_max_norm, geometric_from, max_norm_sd, simulate_max_norm
from dpstats.release.noise import RealNoise, SimulatedNoise

DRAWS = 11_000


def exact_draws(size, scale, draws=DRAWS):
    add = RealNoise().prepare("max_norm", np.full(size, scale), np.full(size, 1.0))
    return np.array([add(np.zeros(size, dtype=np.int64)) for _ in range(draws)])


@pytest.mark.parametrize(("size", "scale"), [(1, 1.5), (2, 1.0), (3, 0.7)])
def test_small_vectors_have_the_stated_probabilities(size, scale):
    draws = exact_draws(size, scale)
    reach = 60
    radius = np.arange(reach)
    shell = np.where(radius == 0, 1, (2 * radius + 1.0) ** size - (2 * radius - 1.0) ** size)
    total = (shell * np.exp(-radius / scale)).sum()
    points = list(itertools.product(range(-1, 2), repeat=size))
    expected = np.array([math.exp(-max(map(abs, point)) / scale) / total for point in points])
    counts = np.array([(draws == point).all(axis=1).sum() for point in points])
    observed = np.append(counts, len(draws) - counts.sum())
    expected = np.append(expected, 1 - expected.sum()) * len(draws)
    assert stats.chisquare(observed, expected).pvalue > 1e-9


def test_the_radius_and_spread_of_long_vectors():
    size, scale = 6, 500.0
    draws = exact_draws(size, scale, 4_000)
    radius = np.abs(draws).max(axis=1)
    assert stats.kstest(radius / scale, stats.gamma(size).cdf).pvalue > 1e-9
    assert draws.std() == pytest.approx(max_norm_sd(1.0, 1 / scale, size), rel=0.06)
    twin = SimulatedNoise(np.random.default_rng(0)).prepare("max_norm", np.full(size, scale), np.full(size, 1.0))
    simulated = np.array([twin(np.zeros(size, dtype=np.int64)) for _ in range(4_000)])
    assert stats.ks_2samp(np.abs(simulated).max(axis=1), radius).pvalue > 1e-9


def test_the_spread_quoted_in_the_methods():
    """sd 6.44 at m = 3, a = .4: the exact value is 6.444, the approximation 6.455."""
    assert max_norm_sd(1.0, 0.4, 3) == pytest.approx(6.455, abs=1e-3)


def test_moving_a_statistic_within_the_cube_costs_epsilon():
    """P(v) / P(v - d) <= exp(epsilon) for every |d|_inf <= K, with equality attained."""
    reach, epsilon = 3, 0.8
    scale = reach / epsilon
    grid = range(-6, 7)
    worst = max(
        (max(abs(v[0] - d[0]), abs(v[1] - d[1])) - max(map(abs, v))) / scale
        for v in itertools.product(grid, repeat=2)
        for d in itertools.product(range(-reach, reach + 1), repeat=2)
    )
    assert worst == pytest.approx(epsilon)


def test_geometric_draws_are_the_non_negative_half_of_laplace_draws():
    feed = iter([[-2, 0, 3], [-1, -1, -1], [5, -4, 1]])
    one = geometric_from(lambda zeros: next(feed)[: len(zeros)], batch=3)
    assert sorted([one(), one()]) == [0, 3]
    assert sorted([one(), one()]) == [1, 5]


def test_a_draw_stays_exact_for_large_scales():
    big = draw_max_norm(2, 1.0, geometric=lambda: 10**14)
    assert np.abs(big).max() <= 3 * 10**14
    assert simulate_max_norm(3, 1e12, np.random.default_rng(1)).dtype == np.int64
