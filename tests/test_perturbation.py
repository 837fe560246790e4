"""Losses, and the price of publishing a perturbed minimiser: formulas, proofs by search, calibration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from dpstats.errors import OptionError
from dpstats.privacy.notions import pure_of_zcdp, zcdp_of_pure
from dpstats.specification.losses import LOGISTIC, HuberHinge, HuberResidual, QuarticHinge, hinge_loss
from dpstats.specification.perturbation import calibrate, cost, logistic_cost, with_ridge

MARGIN_LOSSES = [LOGISTIC, HuberHinge(0.5), HuberHinge(1.0), QuarticHinge(0.5), QuarticHinge(0.8)]
RESIDUAL_LOSSES = [HuberResidual(0.5), HuberResidual(0.1), HuberResidual(2.0)]
LOSSES = MARGIN_LOSSES + RESIDUAL_LOSSES


def value(loss, v):
    """The loss at a margin, from its definition in the papers."""
    if loss.is_logistic:
        return np.logaddexp(0, -v)
    h = loss.h
    inside = np.abs(1 - v) <= h
    if isinstance(loss, HuberHinge):
        return np.where(inside, (1 + h - v) ** 2 / (4 * h), np.maximum(1 - v, 0))
    s = 1 - v
    return np.where(inside, -(s**4) / (16 * h**3) + 3 * s**2 / (8 * h) + s / 2 + 3 * h / 16, np.maximum(s, 0))


@pytest.mark.parametrize("loss", MARGIN_LOSSES, ids=repr)
@pytest.mark.parametrize("u", [-1.0, 1.0])
def test_derivatives_are_those_of_the_loss(loss, u):
    eta = np.linspace(-4, 4, 4001) + 1e-4
    step = 1e-5
    slope = (value(loss, u * (eta + step)) - value(loss, u * (eta - step))) / (2 * step)
    np.testing.assert_allclose(-loss.residual(eta, np.full_like(eta, u)), slope, atol=2e-5)
    wide = 1e-3
    second = (loss.residual(eta - wide, u) - loss.residual(eta + wide, u)) / (2 * wide)
    kinks = np.abs(np.abs(1 - u * eta) - getattr(loss, "h", np.inf)) < 2 * wide
    np.testing.assert_allclose(loss.curvature(eta, u)[~kinks], second[~kinks], atol=2e-3)


@pytest.mark.parametrize("loss", RESIDUAL_LOSSES, ids=repr)
@pytest.mark.parametrize("u", [-1.0, 0.3, 1.0])
def test_derivatives_of_the_loss_of_a_residual_are_those_of_huber(loss, u):
    eta, step, t = np.linspace(-4, 4, 4001) + 1e-4, 1e-5, loss.threshold

    def huber(eta):
        size = np.abs(u - eta)
        return np.where(size <= t, size**2 / (2 * t), size - t / 2)

    slope = (huber(eta + step) - huber(eta - step)) / (2 * step)
    np.testing.assert_allclose(-loss.residual(eta, u), slope, atol=1e-4)
    second = (loss.residual(eta - step, u) - loss.residual(eta + step, u)) / (2 * step)
    kinks = np.abs(np.abs(u - eta) - t) < 2 * step
    np.testing.assert_allclose(loss.curvature(eta, u)[~kinks], second[~kinks], atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_slopes_and_curvatures_keep_their_bounds(loss):
    eta = np.concatenate([np.linspace(-50, 50, 100_001), [-1e300, 1e300, -1e3, 1e3]])
    for u in (-1.0, 0.0, 1.0) if loss.is_regression else (-1.0, 1.0):
        residual, curvature = loss.residual(eta, u), loss.curvature(eta, u)
        assert np.abs(residual).max() == pytest.approx(1.0)
        assert np.abs(residual).max() <= 1.0
        assert curvature.min() >= 0
        assert 0.999 * loss.bound <= curvature.max() <= loss.bound
        if loss.is_logistic:
            s = np.abs(residual)
            np.testing.assert_allclose(curvature, s * (1 - s), atol=1e-15)


def test_a_share_as_outcome_has_a_smaller_slope_than_one_of_the_levels():
    """The step of the proof that covers outcomes between the two levels."""
    eta = np.linspace(-8, 8, 401)
    for u in np.linspace(-1, 1, 21):
        largest = np.maximum(np.abs(LOGISTIC.residual(eta, 1.0)), np.abs(LOGISTIC.residual(eta, -1.0)))
        assert (np.abs(LOGISTIC.residual(eta, u)) <= largest + 1e-15).all()
        np.testing.assert_array_equal(LOGISTIC.curvature(eta, u), LOGISTIC.curvature(eta, 1.0))


@pytest.mark.parametrize(("loss", "h"), [("hinge", 0.5), (None, 0.5), ("huber", 0), ("huber", 1.5), ("quartic", "x")])
def test_unknown_hinge_losses_are_refused(loss, h):
    with pytest.raises(OptionError, match=r"loss must be|h must be"):
        hinge_loss(loss, h)


@pytest.mark.parametrize(
    ("epsilon", "gamma", "ridge"),
    [
        (0.1, 0.047131, 10.6088),
        (0.5, 0.236953, 2.11012),
        (0.75, 0.356502, 1.40252),
        (1, 0.476636, 1.04902),
        (2, 0.961606, 0.519963),
        (5, 2.438596, 0.205036),
    ],
)
def test_the_table_of_rates(epsilon, gamma, ridge):
    found = calibrate(LOGISTIC, 3.0, epsilon)
    assert found.gamma == pytest.approx(gamma, abs=6e-7)
    assert found.ridge == pytest.approx(3.0 * ridge, rel=1e-5)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("kappa", [1e-3, 0.2, 1.0, 3.0, 50.0])
def test_the_logistic_cost_is_the_maximum(gamma, kappa):
    found = minimize_scalar(
        lambda s: -(gamma * s + math.log1p(kappa * s * (1 - s))),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-12},
    )
    ends = max(-found.fun, gamma)
    assert logistic_cost(gamma, kappa) == pytest.approx(gamma + ends, rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3, 0.3, 1.0, 10.0, 300.0])
def test_calibrations_spend_no_more_than_the_budget(loss, epsilon):
    found = calibrate(loss, 5.0, epsilon)
    assert epsilon * (1 - 1e-6) <= cost(loss, found.gamma, 5.0, found.ridge) <= epsilon
    fixed = with_ridge(loss, 5.0, epsilon, 10.0 / epsilon)
    if fixed.gamma > 0:
        assert epsilon * (1 - 1e-6) <= cost(loss, fixed.gamma, 5.0, 10.0 / epsilon) <= epsilon


def test_the_logarithm_is_free_for_the_default_penalty_of_the_paper():
    assert with_ridge(LOGISTIC, 4.0, 1.0, 2 * 4.0).gamma == pytest.approx(0.5)
    assert with_ridge(LOGISTIC, 4.0, 1.0, 4.0).gamma < 0.49
    assert with_ridge(HuberHinge(0.5), 4.0, 0.01, 1e-3).gamma < 0


# -- the worst pair of tables ------------------------------------------------------------------------------------------


def corner_rows():
    """Rows of a single column and a factor of two levels: norm 1 in each block."""
    rows = [np.array([s, *cell]) for s in (-1.0, 1.0) for cell in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0))]
    return [*rows, np.zeros(3)]


def faces():
    """Extreme points of the dual ball: gradients of N on its faces."""
    singles = [np.array([s, 0.0, 0.0]) for s in (-1.0, 1.0)]
    return singles + [np.array([0.0, a, b]) for a, b in itertools.product((-1.0, 1.0), repeat=2)]


def norm(v):
    return np.maximum(np.abs(v[:, 0]), np.abs(v[:, 1]) + np.abs(v[:, 2]))


def log_density(loss, gamma, ridge, theta, others, z, u):
    """Log density of the minimiser at theta, up to a constant, for a record (z, u); one search per row.

    All other records together add `others` to the gradient, and nothing to the Hessian.
    """
    eta = (z * theta).sum(axis=1)
    b = others + z * loss.residual(eta, u)[:, None] - ridge * theta
    return -gamma * norm(b) + np.log1p(loss.curvature(eta, u) * (z**2).sum(axis=1) / ridge)


def worst_ratio(loss, gamma, ridge, starts=200, steps=1_500):
    """Search outputs theta and pairs of records for the largest log ratio of densities, the others being free."""
    rng = np.random.default_rng(3)
    corners, directions = np.array(corner_rows()), np.array(faces())
    first, second = (corners[rng.integers(len(corners), size=starts)] for _ in range(2))
    u, v = rng.uniform(-1.0, 1.0, (2, starts)) if loss.is_regression else rng.choice([-1.0, 1.0], (2, starts))
    far = 1e5 * directions[np.arange(starts) % len(directions)]

    def ratio(theta):
        others = far + ridge * theta
        one = log_density(loss, gamma, ridge, theta, others, first, u)
        return one - log_density(loss, gamma, ridge, theta, others, second, v)

    theta = rng.normal(0, 2, (starts, 3))
    best, size = ratio(theta), np.ones((starts, 1))
    for _ in range(steps):
        trial = theta + size * rng.normal(size=(starts, 3))
        found = ratio(trial)
        better = found > best
        theta[better], best[better] = trial[better], found[better]
        size = np.where(better[:, None], 1.3 * size, np.maximum(0.97 * size, 1e-6))
    return best.max()


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("loss", [LOGISTIC, HuberHinge(0.5), QuarticHinge(0.5), *RESIDUAL_LOSSES], ids=repr)
def test_the_worst_pair_of_tables_approaches_the_cost_and_never_exceeds_it(loss, epsilon):
    found = calibrate(loss, 2.0, epsilon)
    worst = worst_ratio(loss, found.gamma, found.ridge)
    least = 0.98 if loss.is_logistic else 0.9
    assert least * epsilon <= worst <= 1.0001 * epsilon
    assert worst_ratio(loss, 1.15 * found.gamma, found.ridge, 100) > epsilon, "a broken rate is caught"


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 5.0, 20.0])
def test_what_the_determinant_costs(epsilon):
    assert 0.94 <= 2 * calibrate(LOGISTIC, 2.0, epsilon).gamma / epsilon < 1.0
    assert 2 * calibrate(HuberHinge(0.5), 2.0, epsilon).gamma / epsilon == pytest.approx(0.85)


def test_five_per_cent_more_noise_rate_is_caught():
    found = calibrate(LOGISTIC, 2.0, 1.0)
    assert worst_ratio(LOGISTIC, 1.05 * found.gamma, found.ridge) > 1.0


def test_dropping_the_logarithm_is_caught():
    """The rate epsilon / 2 is free only for a ridge that is large enough."""
    ridge = calibrate(LOGISTIC, 2.0, 1.0).ridge / 4
    assert worst_ratio(LOGISTIC, 0.5, ridge) > 1.0


# -- zCDP of a pure release --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1.0, 4.0, 20.0])
def test_randomised_response_is_within_the_claimed_zcdp(epsilon):
    alpha = 1 + np.logspace(-6, 4, 400)
    p = 1 / (1 + math.exp(-epsilon))
    log_p, log_q = math.log(p), -epsilon + math.log(p)
    moments = np.logaddexp(alpha * log_p + (1 - alpha) * log_q, alpha * log_q + (1 - alpha) * log_p)
    divergence = moments / (alpha - 1)
    rho = zcdp_of_pure(epsilon)
    assert (divergence <= alpha * rho * (1 + 1e-6) + 1e-9).all()
    assert divergence[0] == pytest.approx(rho, rel=1e-3)
    assert rho <= epsilon**2 / 2


@pytest.mark.parametrize("shares", [[1.0], [0.74, 0.01, 0.25]])
@pytest.mark.parametrize("rho", [1e-6, 0.1, 3.0])
def test_the_parts_of_a_rho_budget_cost_rho(shares, rho):
    epsilon = pure_of_zcdp(rho, shares)
    total = sum(zcdp_of_pure(share * epsilon) for share in shares)
    assert rho * (1 - 1e-9) <= total <= rho
