"""The noise that is really drawn has the claimed law: scale, independence, distinct releases, no seed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpstats.mechanisms.ssp import plan_moments, release_moments
from dpstats.privacy.notions import Budget
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.release.noise import MANY_DRAWS, RealNoise, SimulatedNoise, check_cost, gaussian_scale, laplace_scale
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Categorical, Continuous, Schema

RELEASES = 3_000
BUDGETS = {"laplace": Budget(epsilon=1.0), "gaussian": Budget(rho=0.1)}
SOURCES = {"real": RealNoise(), "simulated": SimulatedNoise(np.random.default_rng(5))}


def planned(budget):
    rng = np.random.default_rng(0)
    data = {"x": rng.uniform(-1, 1, 300), "g": rng.choice(list("abc"), 300), "y": rng.uniform(0, 1, 300)}
    schema = Schema({"x": Continuous(-1, 1), "g": Categorical(list("abc")), "y": Continuous(0, 1)})
    source = as_source(data)
    return plan_moments(build_design("y ~ x * C(g)", schema, source.facts), budget, 300), source


def noise_draws(kind, label):
    """Released minus exact moments in units of each atom's standard deviation, shape (RELEASES, K)."""
    plan, source = planned(BUDGETS[kind])
    assert plan.noise.law == kind
    exact = sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits) / 4.0**plan.bits
    draws = np.array([release_moments(plan, source, SOURCES[label]).values for _ in range(RELEASES)])
    return (draws - exact) / np.sqrt(plan.variances), draws


@pytest.fixture(scope="module", params=[(kind, label) for kind in BUDGETS for label in SOURCES], ids="-".join)
def draws(request):
    return request.param[0], *noise_draws(*request.param)


def test_noise_has_the_claimed_law_and_scale(draws):
    kind, standardised, _ = draws
    law = stats.norm() if kind == "gaussian" else stats.laplace(scale=np.sqrt(0.5))
    assert stats.kstest(standardised.ravel(), law.cdf).pvalue > 1e-9


def test_a_scale_wrong_by_a_seventh_would_be_seen(draws):
    kind, standardised, _ = draws
    law = stats.norm() if kind == "gaussian" else stats.laplace(scale=np.sqrt(0.5))
    assert stats.kstest(1.15 * standardised.ravel(), law.cdf).pvalue < 1e-9


def test_every_atom_has_its_own_variance(draws):
    kind, standardised, _ = draws
    kurtosis = 3.0 if kind == "gaussian" else 6.0
    error = np.sqrt((kurtosis - 1) / RELEASES)
    assert np.abs(standardised.var(axis=0) - 1).max() < 7 * error


def test_atoms_are_independent(draws):
    _, standardised, _ = draws
    correlations = np.corrcoef(standardised.T)[np.triu_indices(standardised.shape[1], 1)]
    assert np.abs(correlations).max() < 7 / np.sqrt(RELEASES)


def test_releases_are_distinct_in_every_number(draws):
    _, _, released = draws
    assert all(len(np.unique(column)) == RELEASES for column in released.T)


def test_released_numbers_lie_on_the_lattice(draws):
    kind, _, released = draws
    plan, _ = planned(BUDGETS[kind])
    assert np.array_equal(released * 4.0**plan.bits, np.rint(released * 4.0**plan.bits))


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_draws_shared_by_two_threads_keep_their_places_and_have_nothing_in_common(law):
    size, scale = 20 * MANY_DRAWS, 1e6
    values = np.arange(size) * 2**40
    noise = RealNoise().prepare(law, np.full(size, scale), np.ones(size))(values) - values
    assert np.abs(noise).max() < 100 * scale
    first, second = noise[: size // 2], noise[size // 2 :]
    assert (first == second).mean() < 0.01
    assert abs(np.corrcoef(first, second)[0, 1]) < 7 / np.sqrt(size / 2)


def test_gaussian_scales_carry_the_transfer_rule():
    targets = np.array([1.0, 64.0, 1e3, 1e9])
    scales = gaussian_scale(targets)
    assert (scales**2 >= np.maximum(targets, 64.0) ** 2 + 9).all()
    assert (scales**2 <= (np.maximum(targets, 64.0) ** 2 + 9) * (1 + 1e-8)).all()


def test_laplace_scales_are_rounded_up():
    targets = np.array([1e-3, 1.0, 1 / 3, 1e12])
    assert (laplace_scale(targets) > targets).all()
    assert (laplace_scale(targets) < targets * (1 + 1e-8)).all()


class Liar:
    """A measurement whose privacy map disagrees with the scale it claims."""

    def map(self, distance):
        return 2.0 * distance


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_disagreement_with_opendp_is_fatal(kind):
    with pytest.raises(RuntimeError, match="OpenDP's cost"):
        check_cost(kind, Liar(), scale=1.0, distance=1.0)


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0), Budget(epsilon=1.0, delta=1e-6), Budget(rho=0.1)], ids=str)
def test_no_group_of_equal_scale_costs_more_than_the_budget(budget):
    plan, _ = planned(budget)
    if plan.noise.law == "laplace":
        assert (plan.noise.distances / plan.noise.scales).max() <= budget.epsilon
    elif budget.rho:
        assert (plan.noise.distances**2 / plan.noise.scales**2).max() / 2 <= budget.rho
