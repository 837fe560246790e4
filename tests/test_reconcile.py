"""Redundant sums agree after reconciliation, and no variance goes up (methods 1.6)."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import planned

from dpstats.inference.estimates import fit_least_squares
from dpstats.inference.moment_test import contrasts
from dpstats.inference.reconcile import reconcile
from dpstats.specification.identities import find_identities
from dpstats.specification.schema import Binary, Categorical, Continuous

SCHEMA = {
    "y": Continuous(-2, 2),
    "x": Continuous(-1, 1),
    "z": Continuous(-1, 1),
    "g": Categorical(["a", "b", "c"]),
    "h": Categorical(["u", "v", "w"]),
    "k": Categorical(["p", "q", "r"]),
    "b": Binary(),
}
FORMULAS = [
    "y ~ x * C(g) + z + C(h)",
    "y ~ C(g) + C(h) + C(k)",
    "y ~ C(g) * C(h) + C(k) + x:C(k)",
    "y ~ x + C(g)",
    "y ~ bs(x, df=4) * C(g) + C(h) + b",
]
BUDGETS = [{"epsilon": 1.0}, {"rho": 0.05}]


def data(n=3_000, seed=0):
    rng = np.random.default_rng(seed)
    columns = {"x": rng.uniform(-1, 1, n), "z": rng.uniform(-1, 1, n), "b": rng.integers(0, 2, n)}
    columns |= {name: rng.choice(SCHEMA[name].levels, n) for name in "ghk"}
    columns["h"] = np.where(rng.random(n) < 0.1, "undeclared", columns["h"])
    mean = 0.3 * columns["x"] + 0.2 * (columns["g"] == "b") - 0.1 * (columns["h"] == "v")
    return columns | {"y": np.clip(mean + rng.normal(0, 0.3, n), -2, 2)}


def identities_of(case):
    coding = case.plan.coding
    return find_identities(coding.all_blocks, case.plan.atoms, coding.signs)


@pytest.fixture(
    scope="module", params=[(f, str(b), b) for f in FORMULAS for b in BUDGETS], ids=lambda p: " ".join(p[:2])
)
def case(request):
    formula, _, budget = request.param
    return planned(formula, data(), SCHEMA, **budget)


def test_exact_sums_satisfy_the_identities(case):
    identities = identities_of(case)
    assert len(identities.matrix) > 0
    values = case.exact().values
    np.testing.assert_allclose(identities.matrix @ values, 0, atol=1e-9 * np.abs(values).max())


def test_reconciled_sums_satisfy_them_and_exact_ones_are_left_alone(case):
    identities = identities_of(case)
    reconciled = reconcile(case.noisy(np.random.default_rng(1)), identities)
    scale = np.abs(reconciled.values).max()
    np.testing.assert_allclose(identities.matrix @ reconciled.values, 0, atol=1e-9 * scale)
    exact = case.exact_with_noise()
    np.testing.assert_allclose(reconcile(exact, identities).values, exact.values, atol=1e-9 * scale)


def test_no_variance_goes_up(case):
    before = case.exact_with_noise()
    after = reconcile(before, identities_of(case))
    rng = np.random.default_rng(2)
    for _ in range(100):
        form = rng.normal(size=len(before.values)) * (rng.random(len(before.values)) < 0.3)
        assert after.variance_of(form) <= before.variance_of(form) * (1 + 1e-9)


def test_the_stated_variance_is_that_of_simulated_releases(case):
    identities = identities_of(case)
    rng = np.random.default_rng(3)
    variances = case.plan.variances
    laplace = case.plan.noise.law == "laplace"
    shape = (6_000, len(variances))
    scale = np.sqrt(variances)
    eta = rng.laplace(size=shape) / np.sqrt(2) * scale if laplace else rng.normal(size=shape) * scale
    after = reconcile(case.exact_with_noise(), identities)
    noise = eta - (eta @ identities.matrix.T) @ after.gain.T
    for _ in range(5):
        form = rng.normal(size=len(variances))
        assert (noise @ form).var() == pytest.approx(after.variance_of(form), rel=0.12)


def test_a_number_alone_has_nothing_to_reconcile():
    case = planned("y ~ x + z", data(), SCHEMA)
    moments = case.noisy(np.random.default_rng(4))
    assert len(identities_of(case).matrix) == 0
    assert reconcile(moments, identities_of(case)) is moments


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_second_factor_gains_most_and_nothing_loses(budget):
    """Bar 5.6: privacy sd of the second factor's contrasts at most .70 of that without, 1 for everything."""
    case = planned("y ~ x * C(g) + z + C(h)", data(20_000), SCHEMA, **budget)
    before = case.exact_with_noise()
    rows = np.eye(case.space.n_params)

    def privacy_sd(moments):
        found = contrasts(moments, case.space, fit_least_squares(moments, case.space), rows)
        return np.sqrt([c.q0 - c.sampling for c in found])

    ratio = dict(zip(case.names, privacy_sd(reconcile(before, identities_of(case))) / privacy_sd(before), strict=True))
    assert max(ratio.values()) <= 1 + 1e-9
    assert max(ratio["C(h)[T.v]"], ratio["C(h)[T.w]"]) <= 0.70


def test_reconciled_values_need_reconciled_variances():
    """Pitfall 16: the variances of the raw sums would be wrong for the reconciled ones."""
    case = planned("y ~ C(g) + C(h) + C(k)", data(), SCHEMA)
    before = case.exact_with_noise()
    after = reconcile(before, identities_of(case))
    cell = np.zeros(len(before.values))
    cell[before.index[0, 0]] = 1.0
    assert after.variance_of(cell) < 0.8 * before.variance_of(cell)
