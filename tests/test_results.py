"""The result speaks statsmodels' protocol, says what it spent, and marks what is not private."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import dpstats as dps

FORMULA = "hours_per_week ~ age + education_num + C(sex)"


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


@pytest.fixture(scope="module")
def fit(adult):
    data, schema = adult
    return dps.dp_ols(FORMULA, data, epsilon=1, schema=schema)


@pytest.fixture(scope="module")
def exact(adult):
    data, schema = adult
    return dps.dp_ols(FORMULA, data, epsilon=float("inf"), schema=schema)


def test_a_name_given_to_one_index_is_on_no_other(fit):
    params = fit.params
    params.index.name = "term"
    assert fit.params.index.name is None
    assert fit.bse.index.name is None
    assert list(fit.cov_params().columns) == list(fit.cov_params().index) == fit.model.exog_names


def test_series_and_tables_have_statsmodels_shape(fit, adult):
    reference = smf.ols(FORMULA, adult.data).fit()
    for name in ("params", "bse", "tvalues", "pvalues"):
        assert list(getattr(fit, name).index) == list(getattr(reference, name).index)
    assert fit.conf_int().shape == reference.conf_int().shape
    assert list(fit.conf_int().columns) == [0, 1]
    assert list(fit.cov_params().columns) == list(reference.cov_params().columns)
    assert fit.model.endog_names == reference.model.endog_names
    assert fit.model.exog_names == reference.model.exog_names
    assert fit.model.formula == FORMULA
    assert fit.df_model == reference.df_model
    assert not fit.use_t


def test_standard_errors_split_into_sampling_and_privacy(fit):
    np.testing.assert_allclose(fit.bse**2, fit.bse_sampling**2 + fit.bse_privacy**2)
    assert (fit.bse_privacy > 0).all()
    np.testing.assert_allclose(np.sqrt(np.diag(fit.cov_params())), fit.bse)
    np.testing.assert_allclose(fit.tvalues, fit.params / fit.bse)


def test_without_noise_there_is_no_privacy_part(exact):
    assert (exact.bse_privacy == 0).all()
    assert exact.nobs == 48_842
    assert exact.nobs_sd == 0


def test_private_numbers_are_near_the_exact_ones(fit, exact):
    assert (np.abs(fit.params - exact.params) < 8 * fit.bse).all()
    assert abs(fit.nobs - exact.nobs) < 12 * fit.nobs_sd
    assert fit.rsquared == pytest.approx(exact.rsquared, abs=0.02)
    assert fit.rsquared_adj <= fit.rsquared
    assert fit.scale == pytest.approx(exact.scale, rel=0.05)


def test_intervals_shrink_with_alpha_and_pick_columns(fit):
    narrow, wide = fit.conf_int(0.5), fit.conf_int(0.01)
    assert (wide[0] < narrow[0]).all()
    assert (narrow[1] < wide[1]).all()
    pd.testing.assert_frame_equal(fit.conf_int(cols=[1, 2]), fit.conf_int().iloc[[1, 2]])
    for alpha in (0, 1, -0.1, 2):
        with pytest.raises(dps.OptionError, match="alpha"):
            fit.conf_int(alpha)


def test_p_values_are_dual_to_intervals(fit):
    for name, p in fit.pvalues.items():
        if 1e-4 < p < 1:
            low, high = fit.conf_int(p * 0.999).loc[name]
            assert low < 0 < high
            low, high = fit.conf_int(p * 1.001).loc[name]
            assert not low < 0 < high


def test_contrasts_agree_with_coefficients_and_statsmodels(fit, exact, adult):
    one = fit.t_test("age = 0")
    assert one.effect[0] == pytest.approx(fit.params["age"])
    assert one.sd[0] == pytest.approx(fit.bse["age"])
    assert float(one.pvalue) == pytest.approx(fit.pvalues["age"], abs=1e-9)
    np.testing.assert_allclose(one.conf_int(0.1)[0], fit.conf_int(0.1).loc["age"])
    reference = smf.ols(FORMULA, adult.data).fit()
    for constraint in (
        "age - education_num = 0.5",
        "C(sex)[T.Male] = 6, age = 0",
        np.eye(4)[1:3],
        (np.eye(4), np.full(4, 0.1)),
    ):
        ours, theirs = exact.t_test(constraint), reference.t_test(constraint, use_t=False)
        np.testing.assert_allclose(ours.effect, theirs.effect, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(ours.sd, np.ravel(theirs.sd), rtol=1e-4)
        np.testing.assert_allclose(np.ravel(ours.tvalue), np.ravel(theirs.tvalue), rtol=1e-2, atol=1e-2)
        assert np.shape(ours.pvalue) == np.shape(theirs.pvalue)
        assert list(ours.summary_frame().columns) == list(theirs.summary_frame().columns)
    assert "Test for Constraints" in str(fit.t_test("age = 0").summary())
    for wrong in ("nonsense = 0", np.eye(3)):
        with pytest.raises(dps.OptionError):
            fit.t_test(wrong)


def test_predictions_are_the_linear_predictor_of_new_rows(exact, adult):
    reference = smf.ols(FORMULA, adult.data).fit()
    new = adult.data.head(7)
    np.testing.assert_allclose(exact.predict(new), reference.predict(new), rtol=1e-4)
    assert list(exact.predict(new).index) == list(new.index)
    row = {"age": [30], "education_num": [10], "sex": ["Male"]}
    assert exact.predict(row).iloc[0] == pytest.approx(reference.predict(pd.DataFrame(row))[0], rel=1e-4)
    assert exact.predict(new.iloc[0]).iloc[0] == pytest.approx(exact.predict(new).iloc[0])
    assert np.isnan(exact.predict({**row, "sex": ["other"]}).iloc[0])
    clipped = exact.predict({**row, "age": [1000]}).iloc[0]
    assert clipped == pytest.approx(exact.predict({**row, "age": [90]}).iloc[0])
    with pytest.raises(dps.DataError, match="'sex' is missing"):
        exact.predict({"age": [30], "education_num": [10]})
    with pytest.raises(dps.DataError, match="DataFrame"):
        exact.predict([1, 2, 3])


@pytest.mark.parametrize("name", ["resid", "fittedvalues", "llf", "aic", "bic", "condition_number", "ssr", "HC1_se"])
def test_what_was_not_released_says_so(fit, name):
    with pytest.raises(dps.NotReleasedError, match=name):
        getattr(fit, name)
    assert not hasattr(fit, name)
    assert getattr(fit, name, None) is None


def test_predictions_for_the_confidential_rows_are_not_released(fit):
    with pytest.raises(dps.NotReleasedError, match="new rows"):
        fit.predict()


def test_an_unknown_attribute_is_an_ordinary_error(fit):
    with pytest.raises(AttributeError, match="no attribute 'parms'") as caught:
        _ = fit.parms
    assert not isinstance(caught.value, dps.NotReleasedError)


def test_a_result_survives_pickle_and_copy(fit):
    for twin in (pickle.loads(pickle.dumps(fit)), copy.copy(fit), copy.deepcopy(fit)):
        pd.testing.assert_series_equal(twin.params, fit.params)
        pd.testing.assert_frame_equal(twin.conf_int(), fit.conf_int())
        assert str(twin.summary()) == str(fit.summary())


# -- what it spent and how it prints ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "printed", "law"),
    [
        ({"epsilon": 1}, "epsilon = 1 (pure)", "Laplace"),
        ({"epsilon": 1, "delta": 1e-6}, "epsilon = 1, delta = 1e-06", "Laplace"),
        ({"rho": 0.1}, "rho = 0.1 (zCDP)", "Gaussian"),
    ],
)
def test_the_summary_prints_what_was_asked_and_spent(adult, budget, printed, law):
    data, schema = adult
    fit = dps.dp_ols(FORMULA, data, **budget, schema=schema)
    text = str(fit.summary())
    assert printed in text
    assert f"ssp, {law}" in text
    assert "replace one of n rows" in text
    assert "NOT PRIVATE" not in text
    assert fit.privacy.is_private
    spent = fit.privacy.spent.epsilon or fit.privacy.spent.rho
    asked = fit.privacy.budget.epsilon or fit.privacy.budget.rho
    assert asked * (1 - 1e-6) < spent <= asked
    assert fit.privacy.parts == {"second moments": fit.privacy.spent}


@pytest.mark.parametrize(("delta", "noted"), [(1e-2, True), (1e-6, False)])
def test_a_delta_that_permits_publishing_a_record_is_noted(adult, delta, noted):
    data, schema = adult
    gaussian = dps.SSP(noise="gaussian")
    for fit in (
        dps.dp_ols("hours_per_week ~ age", data, epsilon=1, delta=delta, schema=schema, mechanism=gaussian),
        dps.dp_logit("income ~ age", data, epsilon=1, delta=delta, schema=schema),
    ):
        assert ("permits publishing" in str(fit.summary())) == noted
        if noted:
            assert fit.privacy.spent.delta == pytest.approx(delta)


def test_laplace_noise_spends_no_delta(adult):
    data, schema = adult
    fit = dps.dp_ols("hours_per_week ~ age", data, epsilon=1, delta=1e-6, schema=schema)
    assert fit.mechanism == "ssp, Laplace"
    assert fit.privacy.spent.delta is None
    assert fit.privacy.budget.delta == 1e-6


def test_the_summary_has_the_sections_of_a_publishable_table(fit):
    text = str(fit.summary())
    head = ["Dep. Variable:", "Mechanism:", "No. Observations:", "R-squared (noisy):", "Covariance Type:"]
    privacy = ["Privacy:", "Spent:", "Neighbors:", "Privacy unit:", "Bounds, levels:", "Missing:"]
    columns = ["coef", "std err", "privacy", "z", "P>|z|", "[0.025", "0.975]"]
    notes = ["sampling and privacy noise", "Fieller", "Estimand"]
    for words in (head, privacy, columns, notes, fit.model.exog_names):
        assert all(word in text for word in words)
    assert "[0.05" in str(fit.summary(alpha=0.1))


def test_the_summary_renders_as_latex_html_and_csv(fit):
    summary = fit.summary()
    assert r"hours\_per\_week" in summary.as_latex()
    assert "<table" in summary.as_html()
    assert "C(sex)[T.Male]" in summary.as_csv()


@pytest.mark.parametrize(
    "options", [{"epsilon": float("inf")}, {"epsilon": 1, "rng": np.random.default_rng(0)}], ids=str
)
def test_what_is_not_private_says_so_everywhere(adult, options):
    data, schema = adult
    fit = dps.dp_ols(FORMULA, data, schema=schema, **options)
    assert not fit.privacy.is_private
    assert "NOT PRIVATE" in repr(fit)
    for text in (str(fit.summary()), fit.summary().as_html(), fit.summary().as_latex(), fit.summary().as_csv()):
        assert text.count("NOT PRIVATE") >= 2


def test_an_unidentified_coefficient_is_said_in_plain_words(adult):
    data, schema = adult
    fit = dps.dp_ols(FORMULA, data.head(30), epsilon=0.1, schema=schema, infeasible="fit", rng=np.random.default_rng(1))
    assert np.isinf(fit.conf_int().to_numpy()).any()
    assert np.isfinite(fit.params).all()
    assert np.isfinite(fit.bse).all()
    text = str(fit.summary())
    assert "unidentified" in text
    assert "-inf" in text


def test_two_fits_draw_fresh_noise(adult):
    data, schema = adult
    first, second = (dps.dp_ols("hours_per_week ~ age", data, epsilon=1, schema=schema) for _ in range(2))
    assert (first.params != second.params).all()


def test_simulated_noise_is_reproducible(adult):
    data, schema = adult
    first, second = (
        dps.dp_ols(FORMULA, data, epsilon=1, schema=schema, rng=np.random.default_rng(7)) for _ in range(2)
    )
    pd.testing.assert_series_equal(first.params, second.params)


def test_bounds_and_levels_come_before_the_schema(adult):
    data, schema = adult
    narrow = dps.dp_ols(FORMULA, data, epsilon=float("inf"), schema=schema, bounds={"age": (17, 40)})
    wide = dps.dp_ols(FORMULA, data, epsilon=float("inf"), schema=schema)
    assert narrow.params["age"] != wide.params["age"]
    turned = dps.dp_ols(FORMULA, data, epsilon=float("inf"), schema=schema, levels={"sex": ["Male", "Female"]})
    assert turned.params["C(sex)[T.Female]"] == pytest.approx(-wide.params["C(sex)[T.Male]"], rel=1e-5)


@pytest.mark.parametrize("mechanism", ["functionall", None, 3])
def test_an_unknown_mechanism_is_refused(adult, mechanism):
    with pytest.raises(dps.OptionError, match="'auto', 'ssp'"):
        dps.dp_ols(FORMULA, adult.data, epsilon=1, schema=adult.schema, mechanism=mechanism)


@pytest.mark.parametrize("rng", [0, np.random.RandomState(0), "seed"])
def test_a_generator_is_needed_for_simulated_noise(adult, rng):
    with pytest.raises(dps.OptionError, match="default_rng"):
        dps.dp_ols(FORMULA, adult.data, epsilon=1, schema=adult.schema, rng=rng)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": dps.Functional}, r"write mechanism=dps.Functional\(\)"),
        ({"cov_type": dps.HC1}, r"write cov_type=dps.HC1\(\)"),
    ],
)
def test_a_class_of_options_is_not_an_options_object(adult, arguments, message):
    with pytest.raises(dps.OptionError, match=message):
        dps.dp_ols(FORMULA, adult.data, epsilon=1, schema=adult.schema, **arguments)


def test_fit_many_takes_a_list(adult):
    release = dps.dp_moments(FORMULA, adult.data, epsilon=1, schema=adult.schema)
    with pytest.raises(dps.OptionError, match="list of formulas"):
        dps.fit_many(release, FORMULA)


def test_a_summary_suspects_the_spelling_of_levels_only_where_there_are_levels(adult):
    data, bounds = adult.data, {"age": (17, 90), "hours_per_week": (1, 99), "education_num": (1, 16)}
    wrong = {"sex": ["female", "male"], "income": ["<=50K", ">50K"]}
    right = {"sex": ["Female", "Male"], "income": ["<=50K", ">50K"]}

    def suspects(call, formula, table, epsilon, levels):
        rng = np.random.default_rng(0)
        fit = call(formula, table, epsilon, bounds=bounds, levels=levels, rng=rng, infeasible="fit")
        return "do the declared levels spell" in " ".join(str(fit.summary()).split())

    for call, formula in ((dps.dp_ols, "hours_per_week ~ age + sex"), (dps.dp_logit, "income ~ age + sex")):
        assert suspects(call, formula, data, 1, wrong)
        assert not suspects(call, formula, data, 1, right)
    assert not suspects(dps.dp_ols, "hours_per_week ~ age + education_num", data.head(300), 0.1, right)


def test_a_model_without_a_constant_has_an_uncentered_r_squared(adult):
    for formula, constant in (("hours_per_week ~ age", 1), ("hours_per_week ~ 0 + age", 0)):
        fit = dps.dp_ols(formula, adult.data, np.inf, schema=adult.schema)
        theirs = smf.ols(formula, adult.data).fit()
        assert fit.k_constant == theirs.k_constant == constant
        assert ("R-squared (uncentered)" in str(fit.summary())) is not bool(constant)
        assert fit.rsquared == pytest.approx(theirs.rsquared, rel=1e-5)
        assert fit.mse_resid == pytest.approx(theirs.mse_resid, rel=1e-5)
