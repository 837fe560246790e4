"""Baselines of the experiments: histograms with noise in every cell, or filtered and sampled, and the Taylor logit."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import dpstats as dps
from dpstats.mechanisms import dpme, fp, truncated
from dpstats.records.histogram import CellCounts, count_cells
from dpstats.records.source import ArraySource, as_source
from dpstats.release.filtered import filter_and_sample
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.cells import cell_grid
from dpstats.specification.schema import Binary, Categorical, Continuous, Schema

SCHEMA = Schema({"x": Continuous(0, 10), "g": Categorical(["a", "b", "c"]), "y": Continuous(-5, 5)})

SEEDED = np.random.default_rng(0)


def table(n=2_000, seed=0):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(0, 10, n), rng.choice(["a", "b", "c"], n)
    y = 0.5 * x - 2 + (g == "b") + rng.normal(0, 0.5, n)
    return {"x": x, "g": g, "y": np.clip(y, -5, 5)}


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


def test_the_grid_has_bins_for_numbers_and_a_cell_per_level():
    grid = cell_grid(SCHEMA, ["x", "g", "y"], 296_000, None)
    bins = math.ceil((math.sqrt(math.log(296_000)) / 296_000) ** (-2 / 5))
    assert grid.shape == (bins, 3, bins)
    assert cell_grid(SCHEMA, list("xgy"), 296_000, 2 / 16).shape[0] == 5
    rows = grid.rows(np.arange(grid.n_cells))
    values = {"x": rows["x"], "g": rows["g"].codes, "y": rows["y"]}
    np.testing.assert_array_equal(grid.number(values), np.arange(grid.n_cells))


def test_counts_are_exact_and_do_not_depend_on_partitions():
    data, grid = table(), cell_grid(SCHEMA, ["x", "g", "y"], 2_000, None)
    whole = count_cells(as_source(data), grid)
    arrays = {name: np.asarray(column, dtype=object if name == "g" else float) for name, column in data.items()}
    parts = count_cells(ArraySource(arrays, 2_000, 77), grid)
    np.testing.assert_array_equal(whole.cells, parts.cells)
    np.testing.assert_array_equal(whole.counts, parts.counts)
    assert whole.counts.sum() == 2_000


def test_a_replaced_row_moves_two_counts_by_one():
    data, grid = table(300), cell_grid(SCHEMA, ["x", "g", "y"], 300, None)
    dense = np.zeros((2, grid.n_cells), dtype=int)
    for changed in (False, True):
        if changed:
            data = {name: column.copy() for name, column in data.items()}
            data["x"][5], data["y"][5] = 99.0, -99.0
        found = count_cells(as_source(data), grid)
        dense[int(changed), found.cells] = found.counts
    assert np.abs(dense[0] - dense[1]).sum() == 2
    data["x"][5] = np.nan
    assert count_cells(as_source(data), grid).counts.sum() == 299


@pytest.mark.parametrize("fit", [dpme, fp])
def test_without_much_noise_they_regress_on_cell_centres(fit):
    data = table()
    found = fit("y ~ x + C(g)", data, 1e6, schema=SCHEMA, rng=np.random.default_rng(0))
    grid = cell_grid(SCHEMA, ["y", "x", "g"], 2_000, None)
    rounded = pd.DataFrame(data)
    for name in ("x", "y"):
        low, high = SCHEMA[name].lower, SCHEMA[name].upper
        bins = grid.shape[0]
        place = np.minimum((rounded[name] - low) / (high - low) * bins // 1, bins - 1)
        rounded[name] = low + (place + 0.5) / bins * (high - low)
    reference = smf.ols("y ~ x + C(g)", rounded).fit().params
    np.testing.assert_allclose(found.params, reference[found.params.index], rtol=1e-6)
    assert not found.privacy.is_private


@pytest.mark.parametrize("fit", [dpme, fp])
@pytest.mark.parametrize("outcome", ["text", "number", "bool"])
def test_logit_of_cells(fit, outcome):
    data = table(4_000)
    success = data["y"] > 0
    data["y"] = {"text": np.where(success, "yes", "no"), "number": success.astype(float), "bool": success}[outcome]
    declared = {"text": Categorical(["no", "yes"]), "number": Continuous(0, 1), "bool": Binary((False, True))}[outcome]
    schema = SCHEMA.updated(Schema({"y": declared}))
    found = fit("y ~ x + C(g)", data, 1e6, schema=schema, family="logistic", rng=np.random.default_rng(0))
    frame = pd.DataFrame(data).assign(y=success.astype(float))
    reference = smf.logit("y ~ x + C(g)", frame).fit(disp=0).params
    np.testing.assert_allclose(found.params, reference[found.params.index], rtol=0.1)


def test_real_noise_in_every_cell():
    found = dpme("y ~ x", table(400), 2.0, schema=SCHEMA, exponent=0.4)
    assert found.privacy.is_private
    assert found.privacy.spent.epsilon == pytest.approx(2.0, rel=1e-6)
    assert found.privacy.spent.epsilon <= 2.0


@pytest.mark.slow
def test_the_filter_has_the_law_of_noise_in_every_cell():
    """Number and values of the empty cells that pass, against two-sided geometric noise in each of them."""
    exact = CellCounts(np.arange(0, 4_000, 8), np.full(500, 3))
    scale, threshold, n_cells = 2.0, 3, 4_000
    rng = np.random.default_rng(11)
    lazy, direct = [], []
    lazy_values, direct_values = [], []
    for _ in range(400):
        kept = filter_and_sample(lambda: exact, n_cells, scale, threshold, 10**6, SimulatedNoise(rng))
        empty = kept.cells % 8 != 0
        assert len(np.unique(kept.cells)) == len(kept.cells)
        lazy.append(empty.sum())
        lazy_values.append(kept.weights[empty])
        noise = rng.geometric(1 - math.exp(-1 / scale), (2, 3_500))
        noise = noise[0] - noise[1]
        direct.append((noise >= threshold).sum())
        direct_values.append(noise[noise >= threshold])
    assert stats.ks_2samp(lazy, direct).pvalue > 1e-3
    assert stats.ttest_ind(np.concatenate(lazy_values), np.concatenate(direct_values)).pvalue > 1e-3
    assert np.mean(lazy) == pytest.approx(np.mean(direct), rel=0.02)


def test_a_priority_sample_keeps_totals_on_average():
    rng = np.random.default_rng(2)
    counts = rng.integers(20, 2_000, 300)
    exact = CellCounts(np.arange(300), counts)
    first = np.arange(300) < 100
    totals = []
    for _ in range(3_000):
        kept = filter_and_sample(lambda: exact, 300, 0.05, 1, 60, SimulatedNoise(rng))
        assert len(kept.cells) == 60
        totals.append(kept.weights[first[kept.cells]].sum())
    assert np.mean(totals) == pytest.approx(counts[first].sum(), rel=0.02)


def test_empty_cells_are_never_listed():
    schema = Schema({f"x{j}": Continuous(0, 1) for j in range(9)} | {"y": Continuous(0, 1)})
    rng = np.random.default_rng(0)
    data = {name: rng.uniform(0, 1, 3_000) for name in schema.columns}
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(9))
    found = fp(formula, data, 0.5, schema=schema, exponent=0.6, rng=rng)
    assert found.cells > 10**15
    assert np.isfinite(found.params).all()
    with pytest.raises(dps.OptionError, match="too many for dpme"):
        dpme(formula, data, 0.5, schema=schema, exponent=0.6, rng=rng)


def test_a_table_with_more_cells_than_numbers_is_refused():
    schema = Schema({f"x{j}": Continuous(0, 1) for j in range(40)} | {"y": Continuous(0, 1)})
    data = {name: np.zeros(50) for name in schema.columns}
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(40))
    with pytest.raises(dps.OptionError, match="too many to be numbered"):
        fp(formula, data, 1.0, schema=schema, exponent=0.9, rng=np.random.default_rng(0))


@pytest.mark.parametrize("fit", [dpme, fp])
def test_an_infinite_budget_is_not_private(fit):
    found = fit("y ~ x", table(), math.inf, schema=SCHEMA, rng=np.random.default_rng(0))
    assert not found.privacy.is_private
    again = fit("y ~ x", table(), 1e9, schema=SCHEMA, rng=np.random.default_rng(0))
    np.testing.assert_allclose(found.params, again.params)


def test_an_outcome_made_of_numbers_keeps_its_bins():
    data = table(4_000)
    low, high = (dpme(f"I(y > {c}) ~ x", data, 1e6, schema=SCHEMA, family="logistic") for c in (-1, 2))
    assert low.params["Intercept"] > high.params["Intercept"] + 1


def test_truncated_is_the_functional_mechanism_without_noise(adult):
    formula = "income ~ age + education_num + C(sex)"
    fit = dps.dp_logit(formula, adult.data, math.inf, schema=adult.schema, mechanism="functional")
    np.testing.assert_allclose(truncated(formula, adult.data, schema=adult.schema).params, fit.params, rtol=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda data: fp("y ~ x", data, 1.0, schema=SCHEMA, rng=None), "fp is for studies"),
        (lambda data: dpme("y ~ x", data, 1.0, schema=SCHEMA, family="poisson"), "family must be"),
        (lambda data: dpme("y ~ x", data, -1.0, schema=SCHEMA), "epsilon must be above 0"),
        (lambda data: truncated("y ~ x", data, schema=SCHEMA), "between 0 and 1"),
        (lambda data: dpme("y ~ x", data, 1.0, schema={"x": (0, 1)}), "schema must be a dpstats.Schema"),
        (lambda data: dpme("y ~ x", data, 1.0, schema=SCHEMA, exponent=math.nan), "exponent must lie"),
        (lambda data: fp("y ~ x", data, 1.0, schema=SCHEMA, rng=np.random.default_rng(0), size=0), "size must be"),
        (
            lambda data: fp("y ~ x", data, 1.0, schema=SCHEMA, rng=np.random.default_rng(0), threshold=0),
            "threshold must",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(dps.DPStatsError, match=message):
        call(table(50))
