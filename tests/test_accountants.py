"""Our conversions beside the maps of OpenDP and Google's dp-accounting, extremes included."""

from __future__ import annotations

import itertools
import math

import numpy as np
import opendp.prelude as opendp
import pytest
from dp_accounting import NeighboringRelation, dp_event, get_sigma_gaussian
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant

from dpstats.privacy.notions import (
    Budget,
    compose,
    gaussian_delta,
    gaussian_mu,
    pure_of_zcdp,
    rho_of_approximate,
    zcdp_delta,
    zcdp_of_pure,
)
from dpstats.privacy.unit import protection_of

opendp.enable_features("contrib")

EPSILONS = np.geomspace(1e-6, 100, 9)
DELTAS = np.geomspace(1e-15, 0.5, 8)
RHOS = np.geomspace(1e-8, 1e3, 12)
INTEGERS = opendp.atom_domain(T=int), opendp.absolute_distance(T=int)


def gaussian(rho):
    return opendp.m.make_gaussian(*INTEGERS, scale=math.sqrt(1 / (2 * rho)))


def laplace(epsilon):
    return opendp.m.make_laplace(*INTEGERS, scale=1 / epsilon)


# -- Gaussian noise ----------------------------------------------------------------------------------------------------


def test_mu_is_the_scale_of_dp_accounting():
    for epsilon, delta in itertools.product(EPSILONS[3:], DELTAS):
        sigma = get_sigma_gaussian(epsilon, delta)
        assert gaussian_mu(epsilon, delta) * sigma == pytest.approx(1.0, rel=1e-9), (epsilon, delta)


@pytest.mark.parametrize("mus", [(0.3,), (0.2, 0.2, 0.1), (1.0, 0.5), (3.0, 2.0)], ids=str)
def test_composed_gaussian_releases_have_the_delta_of_their_loss_distribution(mus):
    loss = pld.from_gaussian_mechanism(1 / mus[0], value_discretization_interval=1e-4)
    for mu in mus[1:]:
        loss = loss.compose(pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4))
    for epsilon in (0.1, 0.5, 1.0, 3.0):
        total = compose(Budget(epsilon=epsilon, delta=0.5), [Budget(rho=mu**2 / 2) for mu in mus])
        theirs = loss.get_delta_for_epsilon(epsilon)
        if theirs > 1e-12:
            assert total.delta == pytest.approx(theirs, rel=0.02), epsilon
            assert total.delta <= theirs * (1 + 1e-6), "theirs is rounded up"


# -- zCDP --------------------------------------------------------------------------------------------------------------


def test_approximate_privacy_of_zcdp_is_that_of_opendp():
    for rho, delta in itertools.product(RHOS, DELTAS):
        epsilon = opendp.c.make_zCDP_to_approxDP(gaussian(rho)).map(1).epsilon(delta)
        if epsilon == 0:
            assert zcdp_delta(rho, 1e-12) <= delta * (1 + 1e-6)
            continue
        assert zcdp_delta(rho, epsilon) == pytest.approx(delta, rel=1e-9), (rho, delta)
        assert rho_of_approximate(epsilon, delta) == pytest.approx(rho, rel=1e-9), (rho, delta)
        assert rho_of_approximate(epsilon, delta) <= rho * (1 + 1e-12)


def test_approximate_privacy_of_zcdp_is_near_that_of_renyi_orders():
    """dp-accounting minimises over a list of orders, so its epsilon can only be larger."""
    for rho, delta in itertools.product(np.geomspace(1e-3, 100, 6), (1e-12, 1e-6, 1e-2)):
        theirs = RdpAccountant().compose(dp_event.ZCDpEvent(rho)).get_epsilon(delta)
        if theirs > 0:
            assert 0.8 * rho <= rho_of_approximate(theirs * 0.999, delta) * 1.001
            assert rho_of_approximate(theirs, delta) >= rho * (1 - 1e-9), (rho, delta)


def test_a_gaussian_release_has_less_delta_by_its_own_law_than_by_zcdp():
    for rho, epsilon in itertools.product(np.geomspace(1e-4, 10, 6), np.geomspace(0.01, 30, 6)):
        assert gaussian_delta(epsilon, math.sqrt(2 * rho)) <= zcdp_delta(rho, epsilon) * (1 + 1e-9)


# -- pure epsilon ------------------------------------------------------------------------------------------------------


def test_zcdp_of_pure_epsilon_is_tight_and_no_more_than_opendp_states():
    """Randomised response is the worst case: its Renyi divergences stay below alpha rho and reach it at alpha -> 1."""
    orders = [1 + 1e-4, 1.1, 1.5, 2, 3, 8, 64, 512]
    for epsilon in EPSILONS:
        rho = zcdp_of_pure(epsilon)
        assert rho <= opendp.c.make_pureDP_to_zCDP(laplace(epsilon)).map(1) * (1 + 1e-12)
        if epsilon > 1e-3:  # below that the divergences are rounding errors
            divergence = np.array([order_divergence(epsilon, order) for order in orders])
            assert (divergence <= rho * np.array(orders) * (1 + 1e-9) + 1e-11).all(), epsilon
    assert order_divergence(1.0, 1 + 1e-4) == pytest.approx(zcdp_of_pure(1.0), rel=1e-3)


def order_divergence(epsilon, order):
    """Renyi divergence between the two answers of randomised response."""
    high, low = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    terms = np.array([order * high + (1 - order) * low, order * low + (1 - order) * high])
    return float(np.logaddexp.reduce(terms)) / (order - 1)


def test_dp_accounting_finds_the_same_divergences():
    for epsilon in (0.1, 1.0, 5.0):
        event = dp_event.RandomizedResponseDpEvent(noise_parameter=2 / (1 + math.exp(epsilon)), num_buckets=2)
        for order in (1.5, 2, 8, 64):
            accountant = RdpAccountant([order], NeighboringRelation.REPLACE_ONE).compose(event)
            assert accountant._rdp[0] == pytest.approx(order_divergence(epsilon, order), rel=1e-6)


@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.5), (0.7, 0.2, 0.1), (0.9, 0.05, 0.05)], ids=str)
def test_parts_of_a_rho_budget_add_up_to_it(shares):
    for rho in RHOS:
        epsilon = pure_of_zcdp(rho, shares)
        total = math.fsum(zcdp_of_pure(share * epsilon) for share in shares)
        assert rho * (1 - 1e-9) <= total <= rho


# -- groups ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [2, 3, 10, 100])
def test_a_person_costs_what_opendp_states_for_a_distance_of_all_their_rows(rows):
    protection = protection_of(rows)
    for epsilon in EPSILONS:
        row = protection.of_row(Budget(epsilon=epsilon)).epsilon
        assert laplace(row).map(rows) == pytest.approx(epsilon, rel=1e-9)
        assert protection.of_unit(Budget(epsilon=row)).epsilon == pytest.approx(epsilon, rel=1e-9)
    for rho in RHOS:
        row = protection.of_row(Budget(rho=rho)).rho
        assert gaussian(row).map(rows) == pytest.approx(rho, rel=1e-9)


@pytest.mark.parametrize("rows", [2, 3, 10])
def test_a_person_is_protected_by_the_delta_of_their_rows(rows):
    """The exact delta of Gaussian noise at a distance of all rows is no more than the person's budget."""
    protection = protection_of(rows)
    for epsilon, delta in itertools.product((0.1, 1.0, 5.0), (1e-12, 1e-6, 1e-2)):
        row = protection.of_row(Budget(epsilon=epsilon, delta=delta))
        mu = rows * gaussian_mu(row.epsilon, row.delta)
        assert gaussian_delta(epsilon, mu) <= delta
