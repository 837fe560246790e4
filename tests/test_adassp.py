"""AdaSSP: sensitivities by brute force, the rule for the ridge by hand, and what its results refuse."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest

import dpstats as dps
from dpstats.mechanisms.adassp import fit_adassp, plan_adassp
from dpstats.privacy.notions import Budget, gaussian_mu
from dpstats.records.features import feature_rows, smallest_eigenvalue
from dpstats.records.source import Partition, as_source
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.design import build_design
from dpstats.specification.schema import Continuous, Schema

SCHEMA = Schema({name: Continuous(-1, 1) for name in ("x0", "x1", "y")})
BUDGETS = [Budget(1.0, 1e-6), Budget(rho=0.05)]


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    return {"x0": x[:, 0], "x1": x[:, 1], "y": np.clip(0.4 * x[:, 0] - 0.2 * x[:, 1] + rng.normal(0, 0.2, n), -1, 1)}


def planned(budget, scaling="box", n=500):
    design = build_design("y ~ x0 + x1", SCHEMA, as_source(table(n)).facts)
    return plan_adassp(design, dps.AdaSSP(scaling=scaling), budget, n)


@pytest.mark.parametrize("scaling", ["box", "ball"])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_neighbouring_tables_spend_no_more_than_is_charged(budget, scaling):
    """Three Gaussian releases together, on the lattice, beside a common table of random rows."""
    plan = planned(budget, scaling)
    rng = np.random.default_rng(1)
    corners = list(itertools.product((-1.0, 0.0, 1.0), repeat=3))
    records = [*corners, *rng.uniform(-2, 2, (40, 3)), [np.nan] * 3]
    columns = {name: np.array([r[j] for r in records]) for j, name in enumerate(("x0", "x1", "y"))}
    rows, _ = feature_rows(Partition(columns, len(records)), plan.features, plan.bits)
    common, _ = feature_rows(Partition(table(60, 2), 60), plan.features, plan.bits)
    base = (common.T @ common).astype(np.int64)
    released = []
    for row in rows:
        products = base + np.outer(row, row).astype(np.int64)
        released.append([smallest_eigenvalue(products[:3, :3]), *products[plan.atoms.left, plan.atoms.right]])
    change = (np.array(released)[:, None, :] - np.array(released)[None, :, :]).astype(float)
    transfer = 9.0 if budget.delta else 0.0
    spent = (change**2 / (plan.noise.scales**2 - transfer)).sum(axis=-1) / 2
    allowed = gaussian_mu(1.0, 1e-6) ** 2 / 2 if budget.delta else budget.rho
    assert spent.max() <= plan.cost.rho <= allowed * (1 + 1e-9)
    moments = (change[..., 1:] ** 2 / (plan.noise.scales[1:] ** 2 - transfer)).sum(axis=-1) / 2
    assert (
        moments.max() >= 0.34 * plan.cost.rho
    )  # of two thirds; features of a ball are not negative, which is not used


def test_the_smallest_eigenvalue_moves_by_at_most_the_squared_radius():
    rng = np.random.default_rng(3)
    for _ in range(300):
        base = rng.uniform(-1, 1, (8, 3))
        first, second = rng.choice([-1.0, 1.0], (2, 3))
        smallest = [np.linalg.eigvalsh(base.T @ base + np.outer(r, r))[0] for r in (first, second)]
        assert abs(smallest[0] - smallest[1]) <= 3.0 + 1e-12


def test_the_ridge_follows_the_published_rule():
    plan = planned(Budget(1.0, 1e-6), n=300)
    source = as_source(table(300))
    mu = gaussian_mu(1.0, 1e-6) / math.sqrt(3)
    s = math.sqrt(2) * 3 / mu
    assert plan.deviations[1] == pytest.approx(s, rel=1e-6)  # X'X, a diagonal entry
    assert plan.deviations[2] == pytest.approx(s / math.sqrt(2), rel=1e-6)
    assert plan.deviations[0] == pytest.approx(3 / mu, rel=1e-4)
    cross = plan.deviations[1:][plan.atoms.index[0, 3]]
    assert cross == pytest.approx(2 * math.sqrt(3) / mu, rel=1e-6)
    fit = fit_adassp(plan, source, SimulatedNoise(np.random.default_rng(4)))
    drawn = SimulatedNoise(np.random.default_rng(4)).prepare("gaussian", plan.noise.scales, plan.noise.distances)
    noise = drawn(np.zeros(len(plan.noise.scales), dtype=np.int64)) / 4.0**plan.bits
    rows, _ = feature_rows(Partition(table(300), 300), plan.features, plan.bits)
    products = rows.T @ rows / 4.0**plan.bits
    noisy = products.copy()
    noisy[plan.atoms.left, plan.atoms.right] += noise[1:]
    noisy[plan.atoms.right, plan.atoms.left] = noisy[plan.atoms.left, plan.atoms.right]
    smallest = np.linalg.eigvalsh(products[:3, :3])[0] + noise[0]
    ridge = max(
        0.0, math.sqrt(3 * math.log(2 * 9 / 0.05)) * s / math.sqrt(2) - max(0.0, smallest - 1.645 * plan.deviations[0])
    )
    assert fit.ridge == pytest.approx(ridge, rel=1e-3)
    assert fit.ridge > 0
    expected = np.linalg.solve(noisy[:3, :3] + fit.ridge * np.eye(3), noisy[:3, 3])
    np.testing.assert_allclose(fit.params, expected, rtol=1e-4)


@pytest.mark.parametrize("scaling", ["box", "ball"])
@pytest.mark.parametrize("formula", ["hours_per_week ~ age + C(sex)", "hours_per_week ~ 0 + C(sex) + age"])
def test_without_noise_it_is_least_squares(formula, scaling):
    adult, schema = dps.datasets.load_adult()
    data = adult.iloc[:5_000]
    fit = dps.dp_ols(formula, data, math.inf, 1e-6, schema=schema, mechanism=dps.AdaSSP(scaling=scaling))
    reference = dps.dp_ols(formula, data, math.inf, schema=schema)
    np.testing.assert_allclose((fit.params - reference.params) / reference.bse, 0, atol=2e-3)
    rows = adult.head(3)
    np.testing.assert_allclose(fit.predict(rows), reference.predict(rows), rtol=1e-4)


@pytest.fixture(scope="module")
def fitted():
    adult, schema = dps.datasets.load_adult()
    return dps.dp_ols("hours_per_week ~ age + C(sex)", adult, 1.0, 1e-6, schema=schema, mechanism="adassp")


@pytest.mark.parametrize("name", ["bse", "conf_int", "pvalues", "cov_params", "t_test", "kappa"])
def test_inference_is_refused_in_words(fitted, name):
    with pytest.raises(dps.NotReleasedError, match="mechanism='ssp'"):
        getattr(fitted, name)


@pytest.mark.parametrize("name", ["nobs", "rsquared", "resid", "llf"])
def test_what_was_not_released_says_so(fitted, name):
    with pytest.raises(dps.NotReleasedError, match="not released"):
        getattr(fitted, name)
    assert not hasattr(fitted, "nonsense")


def test_the_table_shows_coefficients_and_why_there_is_no_more(fitted):
    text = " ".join(str(fitted.summary()).split())
    assert "no standard errors" in text
    assert "delta = 1e-06" in text
    assert "C(sex)[T.Male]" in text
    assert "NOT PRIVATE" not in text
    again = pickle.loads(pickle.dumps(fitted))
    assert again.params.equals(fitted.params)
    with pytest.raises(dps.NotReleasedError, match="new rows"):
        fitted.predict()
