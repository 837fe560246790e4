"""Budgets and their conversion: the mu of (epsilon, delta), refused budgets, and what discrete Gaussian noise gives."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import BudgetError
from dpstats.privacy.notions import Budget, budget_of, gaussian_delta, gaussian_mu, stage_strength
from dpstats.release.noise import MIN_GAUSSIAN_SCALE, TRANSFER_VARIANCE, gaussian_scale

MU = {
    (0.1, 1e-6): 0.027545,
    (0.5, 1e-6): 0.124106,
    (1.0, 1e-6): 0.236704,
    (1.0, 1e-5): 0.268051,
    (1.0, 1e-9): 0.181975,
    (2.0, 1e-6): 0.448335,
    (5.0, 1e-6): 1.020357,
    (10.0, 1e-6): 1.848132,
}
EPSILONS = np.geomspace(1e-2, 50, 7)
DELTAS = np.geomspace(1e-12, 1e-2, 7)


def discrete_gaussian_delta(scale: float, shift: int, epsilon: float) -> float:
    """Smallest delta at `epsilon` between N_Z(0, scale^2) and its shift, summed over integers."""
    reach = math.ceil(45 * scale) + shift
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = np.exp(-(k**2) / (2 * scale**2))
    log_ratio = (shift**2 - 2 * shift * k) / (2 * scale**2)
    gain = np.where(log_ratio > epsilon, -np.expm1(np.minimum(epsilon - log_ratio, 0.0)), 0.0)
    return float((mass * gain).sum() / mass.sum())


def epsilons_that_matter(mu: float) -> list[float]:
    """Epsilons at which mu-Gaussian-DP has a delta between about 1e-13 and 1."""
    return [epsilon for epsilon in np.geomspace(1e-3, 60, 40) if gaussian_delta(epsilon, mu) > 1e-13]


@pytest.mark.parametrize(("pair", "mu"), MU.items())
def test_mu_table_to_five_digits(pair, mu):
    assert gaussian_mu(*pair) == pytest.approx(mu, rel=2e-5, abs=0)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_delta_of_mu_of_delta_is_delta(epsilon, delta):
    assert gaussian_delta(epsilon, gaussian_mu(epsilon, delta)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_mu_of_delta_of_mu_is_mu(epsilon):
    for delta in DELTAS:
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_mu(epsilon, gaussian_delta(epsilon, mu)) == pytest.approx(mu, rel=1e-9)


def test_mu_grows_with_epsilon_and_with_delta():
    mu = np.array([[gaussian_mu(epsilon, delta) for delta in DELTAS] for epsilon in EPSILONS])
    assert (np.diff(mu, axis=0) > 0).all()
    assert (np.diff(mu, axis=1) > 0).all()


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-8])
def test_at_epsilon_zero_delta_is_the_total_variation_distance(delta):
    mu = gaussian_mu(0.0, delta)
    assert math.erf(mu / (2 * math.sqrt(2))) == pytest.approx(delta, rel=1e-9)


def test_classical_gaussian_factor_is_not_private_above_epsilon_ten():
    delta = 1e-6
    classical_mu = {epsilon: epsilon / math.sqrt(2 * math.log(1.25 / delta)) for epsilon in (1.0, 10.0, 12.0)}
    assert classical_mu[1.0] < gaussian_mu(1.0, delta)
    assert classical_mu[10.0] > gaussian_mu(10.0, delta)
    assert gaussian_delta(12.0, classical_mu[12.0]) > delta


def test_zcdp_route_to_mu_would_waste_seven_percent():
    through_rho = 0.2209
    assert gaussian_mu(1.0, 1e-6) / through_rho == pytest.approx(1.07, abs=0.005)


def test_stage_strength_of_epsilon_delta_sets_the_transfer_slack_aside():
    exact = gaussian_mu(1.0, 1e-6)
    assert exact * (1 - 1e-10) < stage_strength(Budget(epsilon=1.0, delta=1e-6), "gaussian") < exact


def test_stage_strength_of_rho_is_the_square_root_of_two_rho():
    assert stage_strength(Budget(rho=0.125), "gaussian") == 0.5


def test_pure_epsilon_has_no_mu():
    with pytest.raises(BudgetError, match="delta"):
        stage_strength(Budget(epsilon=1.0), "gaussian")


@pytest.mark.parametrize(
    ("arguments", "notion"),
    [
        ((1, None, None), "pure epsilon-DP"),
        ((Fraction(1, 2), None, None), "pure epsilon-DP"),
        ((np.float32(0.5), 1e-6, None), "(epsilon, delta)-DP"),
        ((None, None, np.int64(1)), "rho-zCDP"),
    ],
)
def test_a_budget_has_exactly_one_notion(arguments, notion):
    budget = budget_of(*arguments)
    assert budget.notion == notion
    assert budget.is_private


@pytest.mark.parametrize("budget", [budget_of(math.inf, None, None), budget_of(None, None, math.inf)])
def test_an_infinite_budget_is_not_private(budget):
    assert not budget.is_private


@pytest.mark.parametrize("name", ["epsilon", "delta", "rho"])
@pytest.mark.parametrize("value", [0, 0.0, -1, -1e-300, math.nan, -math.inf, True, np.True_, "1", 1j, [1.0]])
def test_what_is_no_positive_number_is_refused(name, value):
    arguments = {"epsilon": None, "delta": None, "rho": None, name: value}
    if name == "delta":
        arguments["epsilon"] = 1.0
    with pytest.raises(BudgetError, match=name):
        budget_of(**arguments)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rho", "message"),
    [
        (None, None, None, "give a privacy budget"),
        (None, 1e-6, None, "delta needs an epsilon"),
        (1.0, None, 0.1, "not both"),
        (1.0, 1e-6, 0.1, "not both"),
        (None, 1e-6, 0.1, "rho needs no delta"),
        (1.0, 1.0, None, "delta must be below 1"),
        (1.0, 1.5, None, "delta must be below 1"),
        (1.0, math.inf, None, "delta must be below 1"),
    ],
)
def test_contradictory_budgets_are_refused(epsilon, delta, rho, message):
    with pytest.raises(BudgetError, match=message):
        budget_of(epsilon, delta, rho)


@pytest.mark.parametrize("target", [8.0, 16.0, 64.0, 256.0])
def test_discrete_gaussian_with_nine_added_is_no_worse_than_gaussian(target):
    scale = math.sqrt(target**2 + TRANSFER_VARIANCE)
    for shift in (1, 2, 4, 15, 40, 100):
        mu = shift / target
        for epsilon in epsilons_that_matter(mu):
            exact = discrete_gaussian_delta(scale, shift, epsilon)
            assert exact <= gaussian_delta(epsilon, mu) * (1 + 1e-9)


@pytest.mark.parametrize(("scale", "shift", "epsilon", "ratio"), [(8, 4, 0.1, 1.0007), (64, 15, 2.0, 1.0006)])
def test_discrete_gaussian_without_the_nine_exceeds_gaussian(scale, shift, epsilon, ratio):
    found = discrete_gaussian_delta(scale, shift, epsilon) / gaussian_delta(epsilon, shift / scale)
    assert found == pytest.approx(ratio, abs=1e-4)
    assert found > 1 + 1e-4


@pytest.mark.parametrize("target", [0.0, 1.0, 63.9, 64.0, 256.0, 1e6, 1e15])
def test_gaussian_scale_adds_nine_to_a_target_of_at_least_64(target):
    scale = float(gaussian_scale(np.array([target]))[0])
    needed = max(target, MIN_GAUSSIAN_SCALE) ** 2 + TRANSFER_VARIANCE
    assert needed <= Fraction(scale) ** 2 <= Fraction(needed) * (1 + Fraction(1, 10**8))


@pytest.mark.parametrize("shift", [1, 15, 64, 150])
def test_scales_passed_to_the_sampler_lie_below_the_gaussian_profile(shift):
    scale = float(gaussian_scale(np.array([64.0]))[0])
    for epsilon in epsilons_that_matter(shift / 64.0):
        assert discrete_gaussian_delta(scale, shift, epsilon) <= gaussian_delta(epsilon, shift / 64.0)
