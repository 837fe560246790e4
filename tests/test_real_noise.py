"""Real K-norm and spherical noise: lazily drawn digits, the exact rounding, radius, direction, spread, twins."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpstats.inference.monte_carlo import LAW_DRAWS, draws_in_ball, simulated_law, sum_of_laplace
from dpstats.release.knorm import draw_in_ball, simulate_in_ball
from dpstats.release.lazy import Interval, LazyUniform, round_when_decided
from dpstats.release.noise import REAL_STEP, NoNoise, RealNoise, SimulatedNoise, off_diagonals, real_error
from dpstats.specification.predictors import Ball

BALLS = {
    "singles": Ball((1, 1, 1), (1.0, 1.0, 1.0), 3),
    "factor": Ball((1, 3, 1), (1.0, 1.0, 1.0), 5),
    "factor only": Ball((4,), (1.0,), 4),
    "spline": Ball((1, 3), (1.0, 1.25), 4),
    "spherical": Ball((), (1.7,), 5),
    "line": Ball((), (1.0,), 1),
}
GAMMA = 0.7
DRAWS = 4_000
LEVEL = 1e-9
"""Of a false alarm in one of some hundred comparisons; what should be seen is seen at it."""
pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(scope="module")
def drawn():
    return {name: real_draws(ball) for name, ball in BALLS.items()}


def real_draws(ball, count=DRAWS):
    return np.array([draw_in_ball(ball, GAMMA, REAL_STEP) for _ in range(count)], dtype=float) * float(REAL_STEP)


@pytest.mark.parametrize("name", BALLS)
def test_the_norm_of_a_draw_is_gamma_distributed(drawn, name):
    ball = BALLS[name]
    norms = ball.norm(drawn[name])
    law = stats.gamma(ball.n_columns, scale=1 / GAMMA)
    assert stats.kstest(norms, law.cdf).pvalue > LEVEL
    assert stats.kstest(1.25 * norms, law.cdf).pvalue < LEVEL, "a quarter would be seen"
    one_too_many = stats.gamma(ball.n_columns + 1, scale=1 / GAMMA)
    assert stats.kstest(norms, one_too_many.cdf).pvalue < LEVEL, "another shape would be seen"


@pytest.mark.parametrize("name", BALLS)
def test_coordinates_have_the_stated_variance_and_do_not_correlate(drawn, name):
    ball, draws = BALLS[name], drawn[name]
    stated = ball.variances(GAMMA)
    kurtosis = 12.0
    np.testing.assert_allclose(draws.var(axis=0), stated, rtol=6 * math.sqrt(kurtosis / DRAWS))
    correlation = np.corrcoef(draws.T).reshape(len(stated), -1) - np.eye(len(stated))
    assert np.abs(correlation).max() < 6 / math.sqrt(DRAWS)
    assert np.abs((draws > 0).mean(axis=0) - 0.5).max() < 3 / math.sqrt(DRAWS)


@pytest.mark.parametrize("name", BALLS)
def test_the_simulated_twin_and_the_public_law_have_the_same_distribution(drawn, name):
    ball = BALLS[name]
    twin = simulate_in_ball(ball, GAMMA, np.random.default_rng(0), 50_000)
    public = draws_in_ball(ball)[:50_000] / GAMMA
    weights = np.random.default_rng(1).normal(size=(6, ball.n_columns))
    for other in (twin, public):
        np.testing.assert_allclose(other.var(axis=0), ball.variances(GAMMA), rtol=0.1)
        for w in weights:
            assert stats.ks_2samp(drawn[name] @ w, other @ w).pvalue > LEVEL


def test_directions_of_spherical_noise_are_uniform(drawn):
    draws = drawn["spherical"]
    directions = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    law = stats.beta(2, 2, loc=-1, scale=2)  # of one coordinate on the sphere in five dimensions
    for column in directions.T:
        assert stats.kstest(column, law.cdf).pvalue > LEVEL


def test_a_block_is_uniform_on_its_simplex_given_its_size(drawn):
    """The shares of a cross-polytope's coordinates at its surface are Dirichlet(1, 1, 1, 1)."""
    shares = np.abs(drawn["factor only"])
    shares /= shares.sum(axis=1, keepdims=True)
    for column in shares.T:
        assert stats.kstest(column, stats.beta(1, 3).cdf).pvalue > LEVEL


# -- exactness -----------------------------------------------------------------------------------------------------


def test_a_number_near_a_tie_draws_more_digits():
    asked = []

    def enclose(bits):
        asked.append(bits)
        half = Fraction(1, 2) + Fraction(1, 2**200)
        width = Fraction(1, 2**bits)
        return [Interval(half - width, half + width), Interval(Fraction(3), Fraction(3))]

    assert round_when_decided(enclose, Fraction(1)) == [1, 3]
    assert asked[-1] >= 200
    assert len(asked) >= 2


def test_digits_once_drawn_stay():
    draw = LazyUniform()
    first = draw.enclose(64)
    second = draw.enclose(400)
    assert first.low <= second.low < second.high <= first.high
    assert second.high - second.low <= Fraction(1, 2**400)
    assert draw.enclose(64).high - draw.enclose(64).low <= Fraction(1, 2**400)


@pytest.mark.parametrize("value", [Fraction(1, 3), Fraction(1, 2**64), Fraction(10**40 - 1, 10**40), Fraction(1)])
@pytest.mark.parametrize("digits", [30, 62, 90])
def test_logarithms_and_roots_are_enclosed(value, digits):
    from decimal import Decimal, getcontext, localcontext

    with localcontext() as context:
        context.prec = 300
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        log, root = -exact.ln(), exact.sqrt()
        found_log, found_root = Interval(value, value).minus_log(digits), Interval(value, value).root(digits)
        for found, truth in ((found_log, log), (found_root, root)):
            assert found.low <= Fraction(truth) <= found.high
            assert found.high - found.low <= Fraction(500, 10**digits) * (1 + abs(Fraction(truth)))
    assert getcontext().prec < 300


def test_a_finer_lattice_refines_the_same_real_number():
    """The interval at 128 bits contains that at 320: both round one real vector."""
    from dpstats.release.knorm import _blocks, _euclidean

    for build in (_blocks(BALLS["factor"]), _euclidean(BALLS["spherical"])):
        coarse, fine = build(128, 62), build(320, 130)
        for wide, narrow in zip(coarse, fine, strict=True):
            assert wide.low <= narrow.low <= narrow.high <= wide.high
            assert wide.high - wide.low < Fraction(1, 2**80)


def test_a_draw_is_a_multiple_of_the_step_however_large():
    vector = RealNoise().real_vector(BALLS["factor"], 1e-9)
    assert max(map(abs, vector)) > 2**20
    assert all((value / REAL_STEP).denominator == 1 for value in vector)
    assert real_error(5) == 2.0**-41 * math.sqrt(5)
    assert not any(NoNoise().real_vector(BALLS["factor"], math.inf))


def test_releases_are_distinct():
    draws = {tuple(draw_in_ball(BALLS["singles"], 1e-3, REAL_STEP)) for _ in range(300)}
    assert len(draws) == 300


# -- integer statistics with spherical noise ---------------------------------------------------------------------------


@pytest.mark.parametrize("source", [RealNoise(), SimulatedNoise(np.random.default_rng(2))], ids=lambda s: s.label)
@pytest.mark.parametrize(("law", "size"), [("spherical", 4), ("symmetric", 6)])
def test_spherical_noise_on_integers(source, law, size):
    scale = 1_000.0
    add = source.prepare(law, np.full(size, scale), np.full(size, 1.0))
    draws = np.array([add(np.full(size, 7, dtype=np.int64)) for _ in range(6_000)]) - 7
    weights = np.array(off_diagonals(size)) if law == "symmetric" else np.ones(size)
    norms = np.sqrt((weights * draws**2).sum(axis=1))
    assert stats.kstest(norms / scale, stats.gamma(size).cdf).pvalue > LEVEL
    np.testing.assert_allclose((weights * draws**2).mean(axis=0), (size + 1) * scale**2, rtol=0.35)


def test_off_diagonals_count_twice():
    assert off_diagonals(6) == [1, 2, 2, 1, 2, 1]
    assert off_diagonals(1) == [1]


# -- the simulated law of a statistic ----------------------------------------------------------------------------------


@pytest.mark.parametrize("normal_share", [0.0, 0.2, 0.9])
def test_a_simulated_law_is_that_of_the_sum(normal_share):
    laplace = sum_of_laplace(np.array([1.0]))
    law = simulated_law(np.sqrt(1 - normal_share) * laplace, normal_share)
    rng = np.random.default_rng(3)
    draws = rng.laplace(size=400_000) * np.sqrt((1 - normal_share) / 2) + rng.normal(size=400_000) * np.sqrt(
        normal_share
    )
    for u in (0.5, 1.0, 2.0, 3.0):
        expected = (np.abs(draws) > u).mean()
        assert law.tail(u) == pytest.approx(expected, abs=6 * math.sqrt(expected / LAW_DRAWS) + 0.004)
    for alpha in (0.3, 0.05, 0.001):
        assert law.tail(law.critical_value(alpha)) == pytest.approx(alpha, rel=1e-6)
    assert law.tail(1e6) == 1 / (2 * LAW_DRAWS + 1)
    assert law.n_draws == LAW_DRAWS
    assert law.tail(0.0) == pytest.approx(1.0, abs=1e-9)


def test_many_small_noises_are_normal_together():
    draws = sum_of_laplace(np.full(400, 0.05))
    assert draws.var() == pytest.approx(1.0, rel=0.03)
    assert abs(stats.kurtosis(draws)) < 0.1
