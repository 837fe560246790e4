"""Shuffled and re-chunked data, and other containers, give identical integers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records.moments import EXACT_ROWS, MANY_COLUMNS, exact_products, sum_atoms
from dpstats.records.rows import lattice_rows
from dpstats.records.source import Partition, as_source
from dpstats.records.sources.pandas import frame_partition
from dpstats.specification.coercion import array_of
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap

FORMULAS = [
    "hours_per_week ~ age + education_num + C(sex)",
    "np.log(hours_per_week) ~ np.sqrt(age) * C(race) + I(education_num**2)",
    "hours_per_week ~ bs(age, df=5) * C(sex) + C(race)",
    "hours_per_week ~ 0 + cc(age, df=4) + poly(education_num, 3) + I(capital_gain > 5000)",
    "hours_per_week ~ 0 + cr(age, df=4):C(workclass)",
    "hours_per_week ~ np.log1p(capital_gain) / np.exp(age / 50) + np.sin(age) + C(occupation)",
]


@pytest.fixture(scope="module")
def adult():
    data, schema = dps.datasets.load_adult()
    return data.iloc[:20_001], schema


def plan_for(formula, adult, noise="laplace"):
    data, schema = adult
    budget = Budget(epsilon=1.0) if noise == "laplace" else Budget(rho=0.1)
    return plan_moments(build_design(formula, schema, as_source(data).facts), budget, len(data))


def integers(plan, source):
    return sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_shuffled_and_rechunked_data_give_identical_integers(formula, noise, adult):
    data, _ = adult
    plan = plan_for(formula, adult, noise)
    expected = integers(plan, as_source(data))
    order = np.random.default_rng(1).permutation(len(data))
    assert np.array_equal(integers(plan, as_source(data.iloc[order])), expected)
    for rows in (1_000, 7_777, 20_001):
        assert np.array_equal(integers(plan, as_source(data.iloc[order[::-1]], rows)), expected)


def test_containers_and_dtypes_give_identical_integers(adult):
    data, _ = adult
    plan = plan_for("hours_per_week ~ age * C(sex) + C(workclass)", adult)
    expected = integers(plan, as_source(data))
    used = data[["hours_per_week", "age", "sex", "workclass"]]
    assert np.array_equal(integers(plan, as_source({name: used[name].to_numpy() for name in used})), expected)
    assert np.array_equal(integers(plan, as_source({name: used[name].tolist() for name in used})), expected)
    assert np.array_equal(integers(plan, as_source(used.astype(object))), expected)
    assert np.array_equal(integers(plan, as_source(used.convert_dtypes())), expected)
    typed = used.assign(
        age=used.age.astype("int8"), sex=used.sex.astype("category"), hours_per_week=used.hours_per_week.astype("Int16")
    )
    assert np.array_equal(integers(plan, as_source(typed)), expected)
    assert np.array_equal(integers(plan, as_source(used.set_index(np.zeros(len(used))))), expected)


@pytest.mark.parametrize("n_columns", [1, 5, MANY_COLUMNS - 1, MANY_COLUMNS, MANY_COLUMNS + 3])
@pytest.mark.parametrize("n_rows", [0, 1, EXACT_ROWS - 1, EXACT_ROWS, 2 * EXACT_ROWS + 7])
def test_products_of_rows_are_exact(n_rows, n_columns):
    rng = np.random.default_rng(2)
    rows = rng.integers(-(2**20), 2**20, (n_rows, n_columns), endpoint=True)
    rows[:, 0] = 2**20
    expected = rows.T @ rows
    assert np.array_equal(exact_products(np.asfortranarray(rows, dtype=np.float64)), expected)
    assert np.array_equal(exact_products(rows.astype(np.float64)), expected)


@pytest.mark.parametrize("labels", [["x", "y"], [0, 1], ["x", 1], [("x", "u"), ("y", "v")], [None, True]], ids=repr)
def test_columns_are_read_by_the_text_of_any_label(labels):
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    frame.columns = pd.Index(labels, tupleize_cols=False)
    part = frame_partition(frame, (str(labels[1]), str(labels[0])))
    assert [column.tolist() for column in part.columns.values()] == [[1.0, 3.0, 5.0], [0.0, 2.0, 4.0]]


def test_replacing_a_row_changes_no_other_row(adult):
    data, _ = adult
    plan = plan_for(FORMULAS[2], adult)
    row_map = RowMap(plan.coding)

    def coded(frame):
        columns = {name: array_of(frame[name]) for name in row_map.variables}
        return lattice_rows(Partition(columns, len(frame)), row_map, plan.bits)[0]

    before = coded(data)
    changed = data.copy()
    changed.loc[changed.index[17], ["age", "sex"]] = [np.nan, "no such level"]
    after = coded(changed)
    others = np.arange(len(data)) != 17
    assert np.array_equal(before[others], after[others])
    assert not after[17].any()
    assert before[17].any()


def test_an_incomplete_table_gives_zero_sums(adult):
    data, _ = adult
    plan = plan_for(FORMULAS[0], adult)
    assert not integers(plan, as_source(data.assign(age=np.nan))).any()


def test_shuffled_data_give_the_same_result_under_the_same_simulated_noise(adult):
    data, schema = adult
    fits = [
        dps.dp_ols(FORMULAS[1], frame, epsilon=1, schema=schema, rng=np.random.default_rng(3))
        for frame in (data, data.sample(frac=1, random_state=4))
    ]
    pd.testing.assert_series_equal(fits[0].params, fits[1].params, rtol=0)
    pd.testing.assert_frame_equal(fits[0].conf_int(), fits[1].conf_int(), rtol=0)
