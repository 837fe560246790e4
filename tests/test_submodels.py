"""Any number of models from one release: same sums, no further cost, saved and loaded, honest about their span."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dps

FORMULA = (
    "hours_per_week ~ age * education_num + I(age**2) + C(sex) * C(race) + np.log1p(capital_gain) + bs(fnlwgt, df=4)"
)
NESTED = [
    "hours_per_week ~ 1",
    "hours_per_week ~ age",
    "hours_per_week ~ age + education_num",
    "hours_per_week ~ age + education_num + C(sex)",
    "hours_per_week ~ age + education_num + C(sex) + C(race)",
]
OTHERS = [
    "hours_per_week ~ age:education_num",
    "hours_per_week ~ I((age - 40)**2) + age",
    "hours_per_week ~ 0 + C(race):C(sex)",
    "hours_per_week ~ C(race, Sum) + np.log1p(capital_gain)",
    "hours_per_week ~ 0 + age + C(sex, Treatment('Male'))",
    "hours_per_week ~ bs(fnlwgt, df=4)",
    "hours_per_week ~ I(age + 2 * education_num)",
]


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


def reference(adult, formula):
    data = adult.data.assign(
        race=adult.data.race.astype("category").cat.set_categories(adult.schema["race"].levels),
        fnlwgt=adult.data.fnlwgt.clip(0, 1_500_000),
    )
    return smf.ols(formula, data).fit()


@pytest.mark.parametrize("formula", [f for f in NESTED + OTHERS if "bs(" not in f])
def test_without_noise_every_sub_model_is_statsmodels(adult, formula):
    release = dps.dp_moments(FORMULA, adult.data, epsilon=np.inf, schema=adult.schema)
    ours, theirs = release.fit(formula), reference(adult, formula)
    assert list(ours.params.index) == list(theirs.params.index)
    gap = np.abs(ours.params.to_numpy() - theirs.params.to_numpy()) / theirs.bse.to_numpy()
    assert gap.max() < 1e-3
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-4)
    assert ours.rsquared == pytest.approx(theirs.rsquared, abs=1e-6)
    assert ours.scale == pytest.approx(theirs.scale, rel=1e-5)


@pytest.mark.parametrize("formula", NESTED + OTHERS)
def test_a_sub_model_equals_its_own_fit_without_noise(adult, formula):
    whole = dps.dp_moments(FORMULA, adult.data, epsilon=np.inf, schema=adult.schema).fit(formula)
    alone = dps.dp_ols(formula, adult.data, epsilon=np.inf, schema=adult.schema)
    gap = np.abs(whole.params - alone.params) / alone.bse
    assert gap.max() < 1e-3
    np.testing.assert_allclose(whole.bse, alone.bse, rtol=1e-4)


def test_five_nested_columns_cost_what_one_fit_costs(adult):
    release = dps.dp_moments(NESTED[-1], adult.data, epsilon=1, schema=adult.schema)
    fits = dps.fit_many(release, NESTED)
    assert [len(fit.params) for fit in fits] == [1, 2, 3, 4, 8]
    for fit in fits:
        assert fit.privacy == release.privacy
        assert fit.privacy.spent.epsilon <= 1
        assert fit.release is release
    scales = [fit.scale for fit in fits]
    assert np.diff(scales).max() < 0.01 * scales[0]
    text = str(fits[1].summary())
    assert "shared" in text
    assert repr(NESTED[-1]) in text
    assert "shared" not in str(fits[-1].summary())


def test_refit_is_a_fit_of_the_same_release(adult):
    fit = dps.dp_ols(NESTED[-1], adult.data, epsilon=1, schema=adult.schema)
    again = fit.refit(NESTED[-1])
    pd.testing.assert_series_equal(again.params, fit.params)
    pd.testing.assert_frame_equal(again.conf_int(), fit.conf_int())
    smaller = fit.refit("hours_per_week ~ age")
    assert smaller.release is fit.release
    assert smaller.nobs == fit.nobs


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("hours_per_week ~ np.log(age)", "'np.log(age)' is not in the span"),
        ("hours_per_week ~ age + I(age**3)", "is not in the span"),
        ("hours_per_week ~ education_num:C(race)", "is not in the span"),
        ("age ~ hours_per_week", "the release is about 'hours_per_week', not 'age'"),
        ("hours_per_week ~ capital_loss", "'capital_loss' is not a column"),
        ("hours_per_week ~ age + I(2 * age)", "linearly dependent"),
    ],
)
def test_what_is_not_in_the_span_is_refused_by_name(adult, formula, says):
    release = dps.dp_moments(FORMULA, adult.data.head(5_000), epsilon=1, schema=adult.schema, infeasible="fit")
    with pytest.raises(dps.DPStatsError) as caught:
        release.fit(formula)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "budget", [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 0.1}, {"epsilon": np.inf}], ids=str
)
def test_a_release_survives_saving(adult, tmp_path, budget):
    release = dps.dp_moments(FORMULA, adult.data, schema=adult.schema, **budget)
    path = tmp_path / "hours.json"
    release.save(path)
    loaded = dps.load_release(path)
    assert repr(loaded) == repr(release)
    assert loaded.privacy == release.privacy
    for formula in (None, NESTED[2]):
        first, second = release.fit(formula), loaded.fit(formula)
        pd.testing.assert_frame_equal(first.conf_int(), second.conf_int())
        assert str(first.summary()) == str(second.summary())


def test_a_saved_release_holds_public_facts_and_released_numbers_only(adult, tmp_path):
    release = dps.dp_moments(NESTED[-1], adult.data, epsilon=1, schema=adult.schema)
    path = tmp_path / "hours.json"
    release.save(path)
    content = json.loads(path.read_text())
    assert set(content) == {
        *("format", "formula", "schema", "noise", "values", "variances", "privacy", "reconciled", "declared"),
        *("bought", "rough_bounds", "rules"),
    }
    assert len(content["values"]) == len(content["variances"]) == len(release.moments.values)
    assert path.stat().st_size < 20_000


@pytest.mark.parametrize("content", ["", "not json", "[]", '{"format": "other"}'])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(dps.DataError, match=r"other\.json"):
        dps.load_release(path)
    with pytest.raises(dps.DataError, match=r"missing\.json"):
        dps.load_release(tmp_path / "missing.json")


def test_a_release_says_if_it_is_not_private(adult):
    release = dps.dp_moments("hours_per_week ~ age", adult.data, epsilon=np.inf, schema=adult.schema)
    assert "NOT PRIVATE" in repr(release)
    assert "NOT PRIVATE" in repr(release.privacy)
    assert "NOT PRIVATE" in repr(release.fit().t_test("age = 0"))


def test_options_of_the_mechanism_are_honoured(adult):
    data, schema = adult
    plain = dps.dp_ols(
        "hours_per_week ~ C(race) + C(workclass)", data, epsilon=1, schema=schema, rng=np.random.default_rng(1)
    )
    raw = dps.dp_ols(
        "hours_per_week ~ C(race) + C(workclass)",
        data,
        epsilon=1,
        schema=schema,
        mechanism=dps.SSP(reconcile=False),
        rng=np.random.default_rng(1),
    )
    assert plain.nobs_sd < raw.nobs_sd
    assert (plain.params != raw.params).all()
    gaussian = dps.dp_ols(
        "hours_per_week ~ age", data, epsilon=1, delta=1e-6, schema=schema, mechanism=dps.SSP(noise="gaussian")
    )
    assert gaussian.mechanism == "ssp, Gaussian"
    with pytest.raises(dps.BudgetError, match="gaussian noise needs a delta or rho"):
        dps.dp_ols("hours_per_week ~ age", data, epsilon=1, schema=schema, mechanism=dps.SSP(noise="gaussian"))
    with pytest.raises(dps.OptionError, match="noise must be"):
        dps.SSP(noise="cauchy")
