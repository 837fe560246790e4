"""`dp_logit` and `dp_svm` from formula to table: equality without noise, budgets, refusals, prediction, coverage."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.special import expit

import dpstats as dps
from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.options import CLASSIFIERS
from dpstats.mechanisms.perturbed import plan_perturbed
from dpstats.mechanisms.stages import split_budget
from dpstats.mechanisms.wkl import plan_wkl
from dpstats.privacy.notions import Budget, zcdp_of_pure
from dpstats.specification.design import build_design
from dpstats.specification.losses import LOGISTIC, HuberHinge
from dpstats.specification.perturbation import cost
from dpstats.specification.schema import TableFacts

N = 8_000
BOUNDS = {"x": (-1, 3), "z": (0, 10)}
LEVELS = {"g": ["a", "b", "c"], "h": ["no", "yes"], "won": ["lost", "won"]}
PRIVATE = ["objective", "wkl-objective", "wkl-output"]
BUDGETS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.1}]


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.uniform(-1, 3, n),
            "z": rng.uniform(0, 10, n),
            "g": rng.choice(["a", "b", "c"], n),
            "h": rng.choice(["no", "yes"], n),
        }
    )
    eta = -1 + 0.7 * frame["x"] - 0.1 * frame["z"] + 0.5 * (frame["g"] == "b") - 0.6 * (frame["h"] == "yes")
    frame["won"] = np.where(rng.random(n) < expit(eta), "won", "lost")
    return frame


def with_numbers(frame):
    frame = frame.assign(y=(frame["won"] == "won").astype(int))
    for name in ("g", "h"):
        frame[name] = pd.Categorical(frame[name], LEVELS[name])
    return frame


FORMULAS = [
    "x + z",
    "x + z + C(g) + C(h)",
    "x * C(g)",
    "0 + C(g) + x",
    "C(g) * C(h) + np.exp(x / 4)",
    "x + I(x**2) + z",
    "C(g, Sum) + x:z",
    "0 + x + z",
    "1",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_without_noise_a_logit_is_that_of_statsmodels(formula):
    """Names, order, coefficients to 1e-4 of a standard error, standard errors, intervals, p-values, tests."""
    frame = table()
    fit = dps.dp_logit(f"won ~ {formula}", frame, math.inf, bounds=BOUNDS, levels=LEVELS)
    reference = smf.logit(f"y ~ {formula}", with_numbers(frame)).fit(disp=0, tol=1e-12)
    assert list(fit.params.index) == list(reference.params.index)
    assert (np.abs(fit.params - reference.params) / reference.bse).max() < 1e-4
    np.testing.assert_allclose(fit.bse, reference.bse, rtol=1e-3)
    np.testing.assert_allclose(fit.conf_int(), reference.conf_int(), atol=2e-3 * reference.bse.max())
    np.testing.assert_allclose(fit.pvalues, reference.pvalues, atol=2e-3)
    np.testing.assert_allclose(fit.cov_params(), reference.cov_params(), atol=2e-3 * (reference.bse**2).max())
    assert fit.nobs == reference.nobs
    assert fit.df_resid == reference.df_resid
    if len(reference.params) > 2:
        rows = np.eye(len(reference.params))[1:]
        ours, theirs = fit.wald_test(rows), reference.wald_test(rows, scalar=True)
        assert ours.statistic == pytest.approx(float(theirs.statistic), rel=5e-3)


@pytest.mark.parametrize("cov_type", ["HC0", "HC1"])
def test_without_noise_robust_errors_are_those_of_statsmodels(cov_type):
    frame = table()
    fit = dps.dp_logit("won ~ x + C(g)", frame, math.inf, bounds=BOUNDS, levels=LEVELS, cov_type=cov_type)
    reference = smf.logit("y ~ x + C(g)", with_numbers(frame)).fit(disp=0, cov_type=cov_type)
    np.testing.assert_allclose(fit.bse, reference.bse, rtol=2e-3)
    assert fit.cov_type == cov_type


@pytest.mark.parametrize("outcome", ["text", "bool", "number", "comparison", "levels of numbers"])
def test_outcomes(outcome):
    frame = table(2_000)
    reference = dps.dp_logit("won ~ x", frame, math.inf, bounds=BOUNDS, levels=LEVELS).params
    levels, bounds, formula = {}, {"x": (-1, 3)}, "won ~ x"
    if outcome == "text":
        levels = {"won": ["lost", "won"]}
    elif outcome == "comparison":
        levels, formula = {"won": ["lost", "won"]}, "I(won == 'won') ~ x"
    else:
        frame["won"] = frame["won"] == "won"
        if outcome != "bool":
            frame["won"] = frame["won"].astype(int)
            levels, bounds = ({"won": [0, 1]}, bounds) if "levels" in outcome else ({}, {**bounds, "won": (0, 1)})
    fit = dps.dp_logit(formula, frame, math.inf, bounds=bounds, levels=levels)
    np.testing.assert_allclose(fit.params, reference, atol=1e-8)


def test_a_share_as_outcome_is_a_fractional_logit():
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 3, 3_000)
    y = np.clip(expit(-0.3 + 0.5 * x) + rng.normal(0, 0.1, 3_000), 0, 1)
    fit = dps.dp_logit("y ~ x", {"x": x, "y": y}, math.inf, bounds={"x": (-1, 3), "y": (0, 1)}, cov_type="HC0")
    reference = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial()).fit(cov_type="HC0")
    np.testing.assert_allclose(fit.params, reference.params, rtol=1e-4)
    np.testing.assert_allclose(fit.bse, reference.bse, rtol=5e-3)


@pytest.mark.parametrize("loss", ["huber", "quartic"])
@pytest.mark.parametrize("h", [0.5, 1.0])
def test_without_noise_an_svm_minimises_its_loss(loss, h):
    """Against a general optimiser on the raw columns; the sandwich against its formula."""
    from scipy.optimize import minimize

    frame = table(3_000)
    fit = dps.dp_svm("won ~ x + C(g)", frame, math.inf, bounds=BOUNDS, levels=LEVELS, loss=loss, h=h)
    u = np.where(frame["won"] == "won", 1.0, -1.0)
    X = np.column_stack([np.ones(len(u)), frame["g"] == "b", frame["g"] == "c", frame["x"]]).astype(float)

    def value(v):
        s = 1 - v
        inside = np.abs(s) <= h
        if loss == "huber":
            return np.where(inside, (s + h) ** 2 / (4 * h), np.maximum(s, 0))
        return np.where(inside, -(s**4) / (16 * h**3) + 3 * s**2 / (8 * h) + s / 2 + 3 * h / 16, np.maximum(s, 0))

    found = minimize(lambda b: value(u * (X @ b)).mean(), np.zeros(4), method="BFGS", options={"gtol": 1e-9})
    assert list(fit.params.index) == ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x"]
    np.testing.assert_allclose(fit.params, found.x, atol=1e-5)
    s = np.clip((1 - u * (X @ found.x)) / h, -1, 1)
    slope = (1 + s) / 2 if loss == "huber" else 0.5 + s * (3 - s * s) / 4
    second = (np.abs(s) < 1) / (2 * h) if loss == "huber" else 3 / (4 * h) * (1 - s * s)
    bread = np.linalg.inv((X * second[:, None]).T @ X)
    sandwich = bread @ ((X * slope[:, None] ** 2).T @ X) @ bread
    np.testing.assert_allclose(fit.bse, np.sqrt(np.diag(sandwich)), rtol=2e-3)


@pytest.mark.parametrize("mechanism", PRIVATE)
@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm])
def test_every_mechanism_is_the_same_without_noise_and_penalty(mechanism, model):
    frame = table(3_000)
    options = {**CLASSIFIERS, "wkl-output": dps.WKLOutput(penalty=1e-9)}[mechanism]
    fit = model("won ~ x + z", frame, math.inf, bounds=BOUNDS, levels=LEVELS, mechanism=options)
    reference = model("won ~ x + z", frame, math.inf, bounds=BOUNDS, levels=LEVELS, mechanism="objective")
    np.testing.assert_allclose(fit.params, reference.params, atol=1e-3 * reference.bse.min())
    if model is dps.dp_svm:
        np.testing.assert_allclose(fit.bse, reference.bse, rtol=5e-3)


# -- budgets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("mechanism", PRIVATE)
@pytest.mark.parametrize("cov_type", ["nonrobust", "HC0"])
def test_the_releases_together_spend_the_budget(budget, mechanism, cov_type):
    frame = table()
    arguments = {**budget, "bounds": BOUNDS, "levels": LEVELS, "mechanism": mechanism, "cov_type": cov_type}
    if mechanism != "objective" and ("delta" in budget or cov_type != "nonrobust"):
        with pytest.raises(dps.DPStatsError, match=r"epsilon alone, or rho|needs mechanism='objective'"):
            dps.dp_logit("won ~ x + z", frame, **arguments)
        return
    fit = dps.dp_logit("won ~ x + z", frame, **arguments, infeasible="fit")
    asked, spent = fit.privacy.budget, fit.privacy.spent
    for name in ("epsilon", "rho"):
        if getattr(asked, name) is not None:
            assert getattr(spent, name) == pytest.approx(getattr(asked, name), rel=1e-4)
            assert getattr(spent, name) <= getattr(asked, name) * (1 + 1e-12)
    assert (spent.delta or 0.0) <= (asked.delta or 0.0)


@pytest.mark.parametrize("scores", [0.0, 0.1])
def test_a_mixed_budget_uses_delta_once_and_stays_pure_for_the_minimiser(scores):
    """Pitfall 13."""
    stages = split_budget(Budget(epsilon=2.0, delta=1e-6), 0.75 - scores, 0.25, scores)
    budget, share = stages.later("gaussian", stages.hessian)
    assert budget.epsilon == pytest.approx((0.25 + scores) * 2.0)
    assert budget.delta == 1e-6
    assert share == pytest.approx(0.25 / (0.25 + scores))
    gaussian = {"Hessian": Budget(rho=1e-4), **({"squared scores": Budget(rho=4e-5)} if scores else {})}
    parts = stages.charge(gaussian)
    assert len(parts) == 1, "both Gaussian stages are charged together"
    assert stages.pure(0.3) == Budget(epsilon=0.3)


def test_stages_of_a_rho_budget_compose_to_it():
    stages = split_budget(Budget(rho=0.2), 0.65, 0.25, 0.1)
    parts = [stages.epsilon_exact, stages.epsilon_output, 0.25 * stages.epsilon, 0.1 * stages.epsilon]
    assert sum(map(zcdp_of_pure, parts)) == pytest.approx(0.2, rel=1e-9)
    assert stages.later("gaussian", 0.25)[0].rho == pytest.approx(zcdp_of_pure(0.25 * stages.epsilon))


def planned(d=4, budget=None, n=20_000, loss=LOGISTIC, options=None):
    names = [f"x{j}" for j in range(d)]
    schema = dps.Schema({**{name: dps.Continuous(-1, 1) for name in names}, "y": dps.Binary((0, 1))})
    facts = TableFacts((*names, "y"), {**dict.fromkeys(names, "number"), "y": "number"})
    design = build_design(f"y ~ {' + '.join(names)}", schema, facts, binary="dp_logit")
    budget = budget or Budget(epsilon=1.0)
    if isinstance(options, dps.WKLObjective | dps.WKLOutput):
        return plan_wkl(design, loss, options, budget, n)
    return plan_perturbed(design, loss, options or Objective(), budget, n, None)


def test_the_ridge_is_for_a_row_and_the_loss_a_sum():
    """Pitfall 11: R2 and not the number of columns; one norm for rows and noise; a ridge that does not grow with n."""
    frame_free = planned(4)
    assert frame_free.minimum.perturbation.ridge == pytest.approx(5 / (2 * frame_free.minimum.perturbation.gamma))
    assert frame_free.ridge == planned(4, n=10**6).ridge
    assert frame_free.minimum.ball == frame_free.predictors.ball
    levels = [f"l{i}" for i in range(20)]
    schema = dps.Schema({"g": dps.Categorical(levels), "y": dps.Binary((0, 1))})
    facts = TableFacts(("g", "y"), {"g": "object", "y": "number"})
    design = build_design("y ~ C(g)", schema, facts, binary="dp_logit")
    factor = plan_perturbed(design, LOGISTIC, Objective(), Budget(epsilon=1.0), 10_000, None)
    assert factor.predictors.row_size == 1.0
    assert factor.ridge == pytest.approx(1 / (2 * factor.minimum.perturbation.gamma))


@pytest.mark.parametrize("loss", [LOGISTIC, HuberHinge(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_costs_are_recomputed_from_the_scales(loss, epsilon):
    plan = planned(budget=Budget(epsilon=epsilon), loss=loss)
    minimum = plan.minimum
    exact = cost(loss, minimum.perturbation.gamma, plan.predictors.row_size, plan.ridge)
    assert minimum.epsilon_exact == exact <= 0.74 * epsilon
    assert minimum.noise.distances[0] / minimum.noise.scales[0] == minimum.epsilon_output <= 0.01 * epsilon
    assert plan.hessian.cost.epsilon <= 0.25 * epsilon


def test_the_smaller_noise_is_taken_for_the_hessian():
    few, many = (planned(d, Budget(epsilon=1.0, delta=1e-6)).hessian for d in (2, 12))
    assert few.law == "laplace"
    assert many.law == "gaussian"
    forced = planned(2, Budget(epsilon=1.0, delta=1e-6), options=Objective(noise="gaussian")).hessian
    assert forced.law == "gaussian"
    assert forced.typical_sd > few.typical_sd
    with pytest.raises(dps.BudgetError, match="delta or rho"):
        planned(2, Budget(epsilon=1.0), options=Objective(noise="gaussian"))


def test_the_rates_of_the_paper():
    """gamma = epsilon_1 / 2 without a logarithm at the default penalty; c = 1 / (n epsilon_1); split .7, .15, .15."""
    plan = planned(options=dps.WKLObjective())
    first = 0.7 * 0.99
    assert plan.penalty == pytest.approx(1 / (20_000 * first), rel=1e-9)
    assert plan.minimum.perturbation.gamma == pytest.approx(first / 2, rel=1e-9)
    fixed = planned(options=dps.WKLObjective(penalty=0.001))
    assert fixed.ridge == pytest.approx(2 * 20_000 * 0.001 * 5)
    output = planned(options=dps.WKLOutput(penalty=0.001))
    sensitivity = 2 * math.sqrt(5) / output.ridge
    sd = math.sqrt(output.minimum.variance)
    assert sd == pytest.approx(sensitivity / 0.7 * math.sqrt(6), rel=2e-3)
    zcdp = planned(options=dps.WKLObjective(), budget=Budget(rho=0.1))
    assert zcdp.minimum.perturbation.gamma == pytest.approx(math.sqrt(2 * 0.07) / 2, rel=1e-3)
    huber = planned(options=dps.WKLObjective(), loss=HuberHinge(0.5))
    assert huber.ridge == pytest.approx(5 / math.expm1(0.1 * first), rel=1e-9)
    with pytest.raises(dps.OptionError, match="penalty is too small"):
        planned(options=dps.WKLObjective(penalty=1e-9), budget=Budget(epsilon=0.01))


def test_without_noise_what_is_not_identified_says_so_and_leaves_the_rest_alone():
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, 4_000)
    y = (rng.random(4_000) < expit(x)).astype(int)
    constant = {"x": x, "c": np.full(4_000, 0.5), "y": y}
    bounds = {"x": (-1, 1), "c": (0, 1), "y": (0, 1)}
    for model, formula in ((dps.dp_logit, "y ~ x + c"), (dps.dp_ols, "y ~ x + c")):
        fit = model(formula, constant, math.inf, bounds=bounds)
        alone = model("y ~ x", constant, math.inf, bounds=bounds)
        assert np.isinf(fit.conf_int().loc[["Intercept", "c"]]).all(axis=None)
        np.testing.assert_allclose(fit.conf_int().loc["x"], alone.conf_int().loc["x"], rtol=1e-3)
        assert fit.wald_test("x = 0").pvalue < 1e-6
        assert fit.wald_test("c = 0").pvalue == 1.0
        assert "Prob (chi2):" in str(fit.summary())
    for outcome in ((x > 0).astype(int), np.ones(4_000, int)):
        fit = dps.dp_logit("y ~ x", {"x": x, "y": outcome}, math.inf, bounds=bounds)
        assert np.isinf(fit.conf_int()).all(axis=None), "separated classes: no finite interval"
        assert fit.pvalues.min() == 1.0


def test_where_the_noise_exceeds_the_signal_the_estimate_stays_near_the_released_minimiser():
    """A raw Newton step would send coefficients anywhere."""
    rng = np.random.default_rng(8)
    frame = table(3_000)
    arguments = {"bounds": {"x": (-50, 50), "z": (-100, 100)}, "levels": LEVELS, "rng": rng, "infeasible": "fit"}
    fits = [dps.dp_logit("won ~ x + z", frame, 0.5, **arguments) for _ in range(40)]
    assert np.median([fit.kappa for fit in fits]) > 1
    steps = np.array([np.abs(fit.params.to_numpy()).max() for fit in fits])
    assert steps.max() < 30


# -- what must not matter ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", PRIVATE)
@pytest.mark.parametrize("model", ["dp_logit", "dp_svm"])
@pytest.mark.parametrize("rows", ["plain", "separated", "one class", "constant", "unreadable"])
def test_every_table_ends_alike(model, mechanism, rows):
    """Separation, one class, constant or unreadable columns: an ordinary result, with the same words."""
    frame = table(3_000)
    if rows == "separated":
        frame["won"] = np.where(frame["x"] > 1, "won", "lost")
    elif rows == "one class":
        frame["won"] = "won"
    elif rows == "constant":
        frame["x"] = 1.0
    elif rows == "unreadable":
        frame["x"], frame["won"] = np.nan, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit = getattr(dps, model)(
            "won ~ x + C(g)", frame, 5.0, bounds=BOUNDS, levels=LEVELS, mechanism=mechanism, infeasible="fit"
        )
        text = str(fit.summary())
    assert not caught
    assert list(fit.params.index) == ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x"]
    assert np.isfinite(fit.params).all()
    assert fit.nobs == 3_000
    ends = fit.conf_int().to_numpy()
    assert (ends[:, 0] <= ends[:, 1]).all()
    assert "Estimand:" in text


def test_too_few_rows_are_refused_before_anything_is_read(monkeypatch):
    monkeypatch.setattr("dpstats.mechanisms.objective.as_table", None)
    frame = table(60)
    with pytest.raises(dps.InfeasibleError, match=r"nothing useful can come out .* rows, or epsilon = "):
        dps.dp_logit("won ~ x + z + C(g)", frame, 0.2, bounds=BOUNDS, levels=LEVELS)
    with pytest.raises(dps.InfeasibleError, match=r"60 rows and rho = 0.0001 \(zCDP\)"):
        dps.dp_svm("won ~ x + z + C(g)", frame, rho=1e-4, bounds=BOUNDS, levels=LEVELS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda d: dps.dp_logit("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, mechanism="ssp"),
            "mechanism must be one",
        ),
        (
            lambda d: dps.dp_svm("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, mechanism="functional"),
            "mechanism must be",
        ),
        (lambda d: dps.dp_svm("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, loss="hinge"), "loss must be"),
        (lambda d: dps.dp_svm("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, h=0), "h must be"),
        (
            lambda d: dps.dp_svm("I(x / 4 + .25) ~ z", d, 1, bounds=BOUNDS, levels=LEVELS),
            "dp_svm needs an outcome of two",
        ),
        (lambda d: dps.dp_logit("g ~ x", d, 1, bounds=BOUNDS, levels=LEVELS), "outcome of two levels"),
        (lambda d: dps.dp_logit("won ~ x", d, bounds=BOUNDS, levels=LEVELS), "give a privacy budget"),
        (lambda d: dps.dp_logit("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, cov_type="HC3"), "cov_type must be"),
        (lambda d: dps.dp_logit("won ~ x", d, 1, bounds=BOUNDS, levels=LEVELS, mechanism=dps.Objective), "is a class"),
        (lambda d: dps.dp_logit("won ~ x", d, 1e-200, bounds=BOUNDS, levels=LEVELS), "so small"),
        (lambda d: dps.dp_logit("won ~ x", d, rho=1e-200, bounds=BOUNDS, levels=LEVELS), "so small"),
        (
            lambda d: dps.dp_logit("won ~ x", d, 50, bounds=BOUNDS, levels=LEVELS, cov_type=dps.HC1(share=0.99)),
            "leave nothing for the coefficients",
        ),
        (lambda d: dps.WKLObjective(penalty=0), "penalty must be"),
        (lambda d: dps.WKLOutput(penalty=None), "penalty must be"),
        (lambda d: dps.WKLObjective(split=(0.5, 0.5)), "split must be 3 shares"),
        (lambda d: dps.WKLObjective(split=(0.5, 0.5, 0.5)), "split must be 3 shares"),
        (lambda d: dps.WKLObjective(debias="yes"), "debias must be"),
        (lambda d: dps.Objective(hessian_share=0), "hessian_share must be above 0"),
        (lambda d: dps.Objective(noise="normal"), "noise must be"),
    ],
)
def test_wrong_arguments_are_refused_in_words(call, message):
    with pytest.raises(dps.DPStatsError, match=message):
        call(table(500))


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logit():
    rng = np.random.default_rng(2)
    return dps.dp_logit("won ~ x + z + C(g)", table(20_000), 1.0, bounds=BOUNDS, levels=LEVELS, rng=rng)


def test_predictions_agree_with_the_coefficients(logit):
    new = pd.DataFrame(
        {"x": [0.0, 2.0, 99.0, np.nan], "z": [1.0, 5.0, 5.0, 5.0], "g": ["a", "b", "c", "a"]}, index=list("pqrs")
    )
    linear = logit.predict(new, which="linear")
    p = logit.params
    assert linear["p"] == pytest.approx(p["Intercept"] + p["z"])
    assert linear["r"] == pytest.approx(p["Intercept"] + 3 * p["x"] + 5 * p["z"] + p["C(g)[T.c]"]), (
        "clipped, as in the fit"
    )
    assert np.isnan(linear["s"])
    np.testing.assert_allclose(logit.predict(new)[:3], expit(linear[:3]))
    classes = logit.predict(new, which="class")
    assert list(classes[:3]) == ["won" if value > 0 else "lost" for value in linear[:3]]
    assert classes["s"] is None or pd.isna(classes["s"])
    frame = logit.get_prediction(new).summary_frame(alpha=0.1)
    assert list(frame.columns) == ["predicted", "se", "ci_lower", "ci_upper"]
    assert list(frame.index) == list("pqrs")
    np.testing.assert_allclose(frame["predicted"][:3], expit(linear[:3]))
    assert ((frame["ci_lower"] < frame["predicted"]) & (frame["predicted"] < frame["ci_upper"]))[:3].all()
    assert frame.loc["s"].isna().all()
    wide = logit.get_prediction(new, which="linear")
    contrast = logit.t_test(np.array([[1, 0, 0, 0, 1]]))
    np.testing.assert_allclose(wide.conf_int(0.1)[0], contrast.conf_int(0.1)[0], rtol=1e-3)  # a tenth of the draws
    assert wide.se[0] == pytest.approx(contrast.sd[0])


def test_predictions_without_noise_are_those_of_statsmodels():
    frame = table(4_000)
    fit = dps.dp_logit("won ~ x + C(g)", frame, math.inf, bounds=BOUNDS, levels=LEVELS)
    reference = smf.logit("y ~ x + C(g)", with_numbers(frame)).fit(disp=0)
    new = frame.head(20)
    theirs = reference.get_prediction(with_numbers(new)).summary_frame()
    ours = fit.get_prediction(new).summary_frame()
    np.testing.assert_allclose(ours["predicted"], theirs["predicted"], rtol=1e-4)
    np.testing.assert_allclose(ours["se"], theirs["se"], rtol=5e-3)


def test_decision_values_of_an_svm():
    fit = dps.dp_svm("won ~ x", table(20_000), 2.0, bounds=BOUNDS, levels=LEVELS)
    new = {"x": [0.0, 2.0]}
    values = fit.predict(new)
    np.testing.assert_allclose(values, fit.params["Intercept"] + fit.params["x"] * np.array([0.0, 2.0]))
    assert list(fit.predict(new, which="class")) == ["won" if value > 0 else "lost" for value in values]
    assert fit.get_prediction(new).summary_frame().shape == (2, 4)
    with pytest.raises(dps.OptionError, match="which must be 'linear' or 'class'"):
        fit.predict(new, which="mean")
    assert fit.model_name == "DP SVM"
    assert fit.cov_type == "HC0"


def test_what_was_not_released_says_so(logit):
    for name in ("llf", "resid", "rsquared", "prsquared", "pred_table"):
        with pytest.raises(dps.NotReleasedError):
            getattr(logit, name)
    with pytest.raises(dps.NotReleasedError, match="pass new rows"):
        logit.predict()
    with pytest.raises(dps.NotReleasedError, match="pass new rows"):
        logit.get_prediction()
    with pytest.raises(dps.NotReleasedError, match="budget, of its own"):
        logit.refit("won ~ x")


def test_results_can_be_copied_and_pickled(logit):
    for other in (copy.deepcopy(logit), pickle.loads(pickle.dumps(logit))):
        pd.testing.assert_frame_equal(other.conf_int(), logit.conf_int())
        assert str(other.summary()) == str(logit.summary())
    assert len(pickle.dumps(logit)) < 60_000


def test_what_statsmodels_code_passes_is_accepted(logit):
    assert logit.wald_test("x = 0", scalar=True).statistic == logit.wald_test("x = 0").statistic
    assert "(F)" in repr(logit.wald_test("x = 0", use_f=True))
    pd.testing.assert_frame_equal(logit.conf_int(cols=["x"]), logit.conf_int().loc[["x"]])
    pd.testing.assert_frame_equal(logit.conf_int(cols=[-1]), logit.conf_int().iloc[[-1]])
    with pytest.raises(dps.OptionError, match="cols must hold positions or names"):
        logit.conf_int(cols=["nobody"])
    for name in ("get_margeff", "aic", "converged", "resid_response"):
        with pytest.raises(dps.NotReleasedError, match=name):
            getattr(logit, name)


def test_intervals_tests_and_p_values_agree(logit):
    for alpha in (0.2, 0.05, 0.01):
        ends = logit.conf_int(alpha)
        inside = (ends[0] <= 0) & (ends[1] >= 0)
        assert (inside == (logit.pvalues >= alpha)).all()
    joint = logit.wald_test("C(g)[T.b] = 0, C(g)[T.c] = 0")
    assert joint.df_num == 2
    assert logit.wald_test_terms().table.loc["C(g)", "pvalue"] == pytest.approx(joint.pvalue)
    np.testing.assert_allclose(np.sqrt(np.diag(logit.cov_params())), logit.bse)
    np.testing.assert_allclose(logit.bse**2, logit.bse_sampling**2 + logit.bse_privacy**2)


@pytest.mark.parametrize("budget", [{"rho": 0.002}, {"epsilon": 0.3}], ids=str)
def test_noise_on_the_coefficients_is_counted_once(budget):
    """theta~ = minimiser + nu: the Hessian's noise E acts on the sampling error H^-1 U alone, which it widens."""
    options = {"bounds": BOUNDS, "levels": LEVELS, "infeasible": "fit", "rng": np.random.default_rng(2)}
    fit = dps.dp_logit("won ~ x + z", table(900), mechanism=dps.WKLOutput(penalty=0.002), **budget, **options)
    low, high = fit.conf_int().to_numpy().T
    np.testing.assert_allclose((low + high) / 2, fit.params, rtol=1e-9)
    moments, space = fit.release.moments, fit.release.model_space
    rows = np.linalg.inv(space.r)
    output = rows @ (np.eye(len(rows)) * moments.variances[-1]) @ rows.T
    np.testing.assert_allclose(fit.bse_privacy**2, np.diag(output), rtol=1e-9)
    hessian = space.q.T @ moments.push @ space.q
    inverse = np.linalg.inv(hessian)
    plain = inverse @ (space.q.T @ fit.release.meat @ space.q) @ inverse
    rng = np.random.default_rng(3)
    scores = rng.multivariate_normal(np.zeros(3), plain, 20_000)
    entries = rng.normal(size=(20_000, 6)) * np.sqrt(moments.variances[:6])
    upper = np.triu_indices(3)
    noise = np.zeros((20_000, 3, 3))
    noise[:, upper[0], upper[1]] = noise[:, upper[1], upper[0]] = entries
    error = np.einsum("nij,nj->ni", inverse @ (space.q.T @ noise @ space.q), scores) + scores
    np.testing.assert_allclose(fit.bse_sampling**2, np.diag(rows @ np.cov(error.T) @ rows.T), rtol=0.06)
    assert (fit.bse_sampling**2 > 1.2 * np.diag(rows @ plain @ rows.T)).all(), "the noise matters here"


def test_the_summary_says_what_the_intervals_are_about():
    frame, texts = table(), {}
    for name, mechanism in {
        "default": "auto",
        "paper": "wkl-objective",
        "fixed": dps.WKLObjective(penalty=0.001),
        "free": dps.WKLObjective(penalty=0.001, debias=True),
        "output": "wkl-output",
    }.items():
        fit = dps.dp_logit("won ~ x", frame, 1.0, bounds=BOUNDS, levels=LEVELS, mechanism=mechanism)
        texts[name] = " ".join(str(fit.summary()).split())
    assert "penalty" not in texts["default"]
    assert "which is small beside the noise" in texts["paper"]
    assert "WITH the penalty c ||theta||^2, c = 0.001" in texts["fixed"]
    assert "not about those without a penalty" in texts["fixed"]
    assert "penalty" not in texts["free"]
    assert "WITH the penalty" in texts["output"]
    assert "account for the noise on the coefficients" in texts["output"]
    assert all("(Fieller)" in text for name, text in texts.items() if name != "output")
    svm = " ".join(str(dps.dp_svm("won ~ x", frame, 1.0, bounds=BOUNDS, levels=LEVELS).summary()).split())
    assert "Huberised hinge loss (h = 0.5)" in svm
    assert "not log-odds" in svm
    assert "NOT PRIVATE" in str(dps.dp_logit("won ~ x", frame, math.inf, bounds=BOUNDS, levels=LEVELS).summary())


# -- accuracy ----------------------------------------------------------------------------------------------------------


def test_error_falls_as_epsilon_rises():
    """Median distance to the non-private fit, pinned; at epsilon = 1000 within 1 % of a standard error."""
    frame = table(10_000)
    arguments = {"bounds": BOUNDS, "levels": LEVELS, "infeasible": "fit"}
    exact = dps.dp_logit("won ~ x + z + C(g)", frame, math.inf, **arguments)
    curve = []
    for epsilon in (0.3, 1.0, 3.0, 10.0, 1000.0):
        rng = np.random.default_rng(3)
        gaps = [
            np.linalg.norm(
                (dps.dp_logit("won ~ x + z + C(g)", frame, epsilon, rng=rng, **arguments).params - exact.params)
                / exact.bse
            )
            for _ in range(15)
        ]
        curve.append(float(np.median(gaps)))
    assert all(later < earlier for earlier, later in itertools.pairwise(curve))
    assert curve[-1] < 0.01
    np.testing.assert_allclose(curve[:4], [PINNED[e] for e in (0.3, 1.0, 3.0, 10.0)], rtol=0.02)


PINNED = {0.3: 1.564, 1.0: 0.4555, 3.0: 0.1515, 10.0: 0.0445}


def coverage(fits, truth):
    ends = np.array([fit.conf_int().to_numpy()[1:] for fit in fits])
    return float(((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean())


def draw(rng, n, beta):
    x = rng.uniform(-1, 1, (n, len(beta)))
    y = (rng.random(n) < expit(x @ beta - 0.3)).astype(int)
    return {**{f"x{j}": column for j, column in enumerate(x.T)}, "y": y}


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("mechanism", ["objective", "wkl-objective"])
def test_intervals_cover_the_coefficients_of_the_logit(mechanism, budget):
    if mechanism == "wkl-objective" and "delta" in budget:
        return
    rng = np.random.default_rng(4)
    beta = np.array([1.0, -0.5, 0.0])
    schema = dps.Schema({**{f"x{j}": dps.Continuous(-1, 1) for j in range(3)}, "y": dps.Binary((0, 1))})
    fits = [
        dps.dp_logit("y ~ x0 + x1 + x2", draw(rng, 6_000, beta), **budget, schema=schema, rng=rng, mechanism=mechanism)
        for _ in range(150)
    ]
    # 450 intervals: .013 of simulation error; the default penalty of the paper takes a little
    assert (0.92 if mechanism == "objective" else 0.90) <= coverage(fits, beta) <= 0.985


def test_a_fixed_penalty_loses_the_coefficients_of_the_logit():
    rng = np.random.default_rng(5)
    beta = np.array([1.0, -0.5, 0.0])
    schema = dps.Schema({**{f"x{j}": dps.Continuous(-1, 1) for j in range(3)}, "y": dps.Binary((0, 1))})
    kept = {}
    for name, options in {"fixed": {"penalty": 0.001}, "debiased": {"penalty": 0.001, "debias": True}}.items():
        fits = [
            dps.dp_logit(
                "y ~ x0 + x1 + x2",
                draw(rng, 30_000, beta),
                2.0,
                schema=schema,
                rng=rng,
                mechanism=dps.WKLObjective(**options),
            )
            for _ in range(40)
        ]
        kept[name] = coverage(fits, beta)
    assert kept["fixed"] < 0.6
    assert kept["debiased"] > 0.85
