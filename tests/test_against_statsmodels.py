"""Without noise a fit is statsmodels' fit: the same names in the same order, and the same numbers.

What limits the agreement. Columns are rounded to a lattice of 2**-20 of half their declared range before they are
multiplied; after that everything is exact until the normal equations are solved in double precision. A column of few
values (years of schooling) is rounded in the same way in every row, so a coefficient moves by up to about 2**-21 of
itself: 2**-21 times its t-value in standard errors, 5e-5 at t = 100. Columns of many values err less. Conditioning
multiplies both: longley (condition number 5e9) keeps 3.7 to 7.5 digits, and a product of two splines about 2e-4 of
a standard error. Bounds much wider than the data cost digits too, since the lattice is relative to the bounds.

statsmodels is given the clipped, complete rows, because that is what a private fit estimates from.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from conftest import Table

import dpstats as dps

NORMAL_975 = 1.959963984540054
SHIPPED_ROWS = 8_000


@dataclass(frozen=True)
class Fit:
    """A formula on a table; `levels` declares integer columns as factors, `reference` is what statsmodels is given."""

    table: str
    formula: str
    levels: dict[str, list[Any]] = field(default_factory=dict)
    reference: str | None = None

    def __str__(self) -> str:
        return f"{self.table}: {self.formula}"


FITS = [
    # numeric columns; transformed outcome; dummies
    Fit("wage1", "lwage ~ educ + exper + tenure"),
    Fit("mroz", "inlf ~ nwifeinc + educ + exper + expersq + age + kidslt6 + kidsge6"),
    Fit("cps1988", "np.log(wage) ~ experience + I(experience**2) + education + C(ethnicity)"),
    Fit("hmda", "np.sqrt(pirat) ~ np.log1p(lvrat) + C(single) + unemp"),
    Fit("randhie", "mdu ~ lc + lpi + linc + age + C(health) + C(sex)"),
    # missing values; levels with spaces and commas; four partitions of rows
    Fit("acs12", "income ~ age + hrs_work + C(gender) + C(edu) + C(married) + C(disability) + C(citizen)"),
    Fit("gss_wages", "realrinc ~ age + prestg10 + childs + C(gender) + C(educcat) + C(maritalcat)"),
    Fit("fertility_census1980", "work ~ age + morekids*C(gender1) + afam"),
    # interactions of every kind
    Fit("cps1988", "wage ~ education*experience"),
    Fit("cps1988", "wage ~ education*C(region)"),
    Fit("cps1988", "wage ~ C(region)*C(ethnicity) + education"),
    Fit("cps1988", "wage ~ education*experience*C(smsa)"),
    Fit("cps1988", "wage ~ C(region):education + C(smsa):C(ethnicity)"),
    Fit("labsup", "hours ~ (kids + age + educ)**2"),
    Fit("nmes1988", "visits ~ (chronic + school + C(health))**2"),
    Fit("cps1988", "wage ~ C(region)/education + experience"),
    Fit("cps1988", "wage ~ education/experience"),
    Fit("nmes1988", "visits ~ C(health)/(age + school)"),
    # products without their parts
    Fit("hprice1", "price ~ lotsize:bdrms"),
    Fit("hprice1", "price ~ I(sqrft**2)"),
    Fit("labsup", "hours ~ educ + kids:age"),
    # transforms of regressors
    Fit("cps1988", "wage ~ np.sqrt(experience + 5) + np.exp(-education / 10)"),
    Fit("cpssw8", "earnings ~ np.maximum(age, 40) + np.abs(education - 12) + np.sin(age / 10)"),
    Fit("cpssw8", "earnings ~ I(age / 10) + I((age - 40)**3) + I(age * education)"),
    # no intercept
    Fit("gpa1", "colGPA ~ 0 + hsGPA + ACT"),
    Fit("cps1988", "wage ~ 0 + C(region) + education"),
    Fit("cps1988", "wage ~ education + C(region):experience - 1"),
    # contrasts
    Fit("nmes1988", "visits ~ C(health, Treatment('average')) + age"),
    Fit("nmes1988", "visits ~ C(health, Sum)*school + C(region, Sum)"),
    Fit("cps1988", "wage ~ C(region, Helmert) + education"),
    Fit("cps1988", "wage ~ C(region, Treatment(reference='south'))*C(smsa, Sum)"),
    # awkward names; integers that are factors, and 0/1 columns that are numbers
    Fit("bank_additional_full", "duration ~ age + Q('emp.var.rate') + C(contact)*Q('nr.employed')"),
    Fit("credit_default", "LIMIT_BAL ~ AGE + C(SEX) + C(EDUCATION) + C(MARRIAGE)"),
    Fit("credit_default", "default_payment ~ AGE + C(SEX)*C(MARRIAGE)"),
    Fit("pums_ca_1000", "income ~ age + C(sex)*married + C(race)", levels={"sex": [0, 1]}),
    # every declared column
    Fit("wage1", "lwage ~ . - wage", reference="lwage ~ educ + exper + tenure + female + married"),
    Fit("gpa1", "colGPA ~ .", reference="colGPA ~ hsGPA + ACT"),
]
SPLINE_FITS = [
    Fit("cps1988", "wage ~ education + bs(experience, knots=(10, 25), lower_bound=-5, upper_bound=65)"),
    Fit("cps1988", "wage ~ C(smsa)*bs(experience, knots=(20,), degree=2, lower_bound=-5, upper_bound=65)"),
    Fit("cpssw8", "earnings ~ 0 + cr(age, knots=(30, 40, 50), lower_bound=18, upper_bound=65) + education"),
    Fit("nmes1988", "visits ~ school:cr(age, knots=(8,), lower_bound=6.5, upper_bound=11.5) + C(health)"),
]
SHIPPED_FITS = {
    "numeric": Fit("bank", "balance ~ age + campaign + previous"),
    "dummies and missing values": Fit("adult", "hours_per_week ~ age + C(sex) + C(occupation)"),
    "numeric x numeric": Fit("adult", "hours_per_week ~ age*education_num"),
    "numeric x factor": Fit("adult", "hours_per_week ~ age*C(sex)"),
    "factor x factor": Fit("bank", "balance ~ C(marital)*C(housing) + age"),
    "B-spline": Fit("adult", "hours_per_week ~ bs(age, knots=(30, 50), lower_bound=17, upper_bound=90) + C(sex)"),
    "natural spline": Fit("adult", "hours_per_week ~ 0 + cr(age, knots=(30, 50), lower_bound=17, upper_bound=90)"),
    "no intercept": Fit("bank", "age ~ 0 + campaign + previous"),
    "no intercept, factor": Fit("bank", "age ~ 0 + C(marital) + campaign"),
    "transformed outcome": Fit("adult", "np.log(hours_per_week) ~ age + C(sex)"),
    "transforms": Fit("bank", "balance ~ np.log(age) + np.sqrt(duration) + I(day / 31)"),
    "contrasts": Fit("bank", "balance ~ C(marital, Sum) + C(education, Helmert) + C(contact, Treatment('unknown'))"),
    "quoted names": Fit("bank", "balance ~ Q('age') + C(Q('default'))"),
    "0/1 integer factor": Fit("adult", "age ~ C(income_gt50k)*C(sex)"),
    "lone product": Fit("adult", "hours_per_week ~ age:education_num"),
    "lone square": Fit("adult", "hours_per_week ~ I(age**2)"),
    "power of a sum": Fit("bank", "balance ~ (age + C(marital) + C(housing))**2"),
    "nested": Fit("bank", "balance ~ C(marital)/age"),
}

# Where statsmodels (patsy) and formulaic name or order columns differently, ours follow formulaic.
DIFFERENCES = {
    "splines are numbered from 1": (
        "y ~ bs(x, knots=(4,), lower_bound=0, upper_bound=10)",
        ["Intercept", *(f"bs(x, knots=(4,), lower_bound=0, upper_bound=10)[{j}]" for j in range(1, 5))],
        ["Intercept", *(f"bs(x, knots=(4, ), lower_bound=0, upper_bound=10)[{j}]" for j in range(4))],
    ),
    "a logical term is one number and stands among the numbers": (
        "y ~ x + I(z > 5) + C(g)",
        ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "I(z > 5)"],
        ["Intercept", "I(z > 5)[T.True]", "C(g)[T.b]", "C(g)[T.c]", "x"],
    ),
    "a bool column is one number and stands among the numbers": (
        "y ~ x + flag + C(g)",
        ["Intercept", "C(g)[T.b]", "C(g)[T.c]", "x", "flag"],
        ["Intercept", "flag[T.True]", "C(g)[T.b]", "C(g)[T.c]", "x"],
    ),
    "quotes are single and numbers are written in full": (
        'y ~ Q("a.b") + I(x / .5)',
        ["Intercept", "Q('a.b')", "I(x / 0.5)"],
        ["Intercept", 'Q("a.b")', "I(x / .5)"],
    ),
    "polynomial contrasts are named .L, .Q": (
        "y ~ C(g, Poly)",
        ["Intercept", "C(g, Poly)[.L]", "C(g, Poly)[.Q]"],
        ["Intercept", "C(g, Poly).Linear", "C(g, Poly).Quadratic"],
    ),
    "differences are named by the later level": (
        "y ~ C(g, Diff)",
        ["Intercept", "C(g, Diff)[D.b]", "C(g, Diff)[D.c]"],
        ["Intercept", "C(g, Diff)[D.a]", "C(g, Diff)[D.b]"],
    ),
}
# Other columns, though they span the same space: patsy keeps a contrast where the full factor is spanned.
OTHER_CODINGS = {
    "y ~ 0 + C(g, Sum)": ["C(g, Sum)[a]", "C(g, Sum)[b]", "C(g, Sum)[c]"],
    "y ~ C(g, Helmert):x": ["Intercept", "C(g, Helmert)[a]:x", "C(g, Helmert)[b]:x", "C(g, Helmert)[c]:x"],
}


@dataclass(frozen=True)
class Pair:
    """A fit of ours without noise, statsmodels' fit, and the rows that statsmodels was given."""

    ours: Any
    theirs: Any
    rows: pd.DataFrame


def columns_in(formula: str, data: pd.DataFrame) -> list[str]:
    """Columns that a formula names, in table order."""
    return [name for name in data.columns if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.(=])", formula)]


def fit_both(fit: Fit, source: Table) -> Pair:
    """Fit by both packages; statsmodels gets the clipped, complete rows."""
    reference = fit.reference or fit.formula
    names = columns_in(reference, source.data)
    levels = {**source.levels, **fit.levels}
    bounds = {name: pair for name, pair in source.bounds.items() if name not in levels}
    rows = Table(source.data, bounds, levels).complete_cases(names)
    ours = dps.dp_ols(fit.formula, source.data, epsilon=math.inf, bounds=bounds, levels=levels)
    return Pair(ours, smf.ols(reference, rows).fit(), rows)


def shipped(name: str) -> Table:
    """A sample of a shipped table, with its schema as bounds and levels."""
    data, schema = {"adult": dps.datasets.load_adult, "bank": dps.datasets.load_bank}[name]()
    bounds = {n: (c.lower, c.upper) for n, c in schema.columns.items() if isinstance(c, dps.Continuous)}
    levels = {n: list(c.levels) for n, c in schema.columns.items() if not isinstance(c, dps.Continuous)}
    return Table(data.sample(SHIPPED_ROWS, random_state=1), bounds, levels)


@pytest.fixture(scope="module")
def both(table):
    """Return a cached ``both(fit)`` for the real tables."""
    return cached(lambda fit: fit_both(fit, table(fit.table)))


@pytest.fixture(scope="module")
def both_shipped():
    """Return a cached ``both_shipped(kind)``."""
    tables = cached(shipped)
    return cached(lambda kind: fit_both(SHIPPED_FITS[kind], tables(SHIPPED_FITS[kind].table)))


def cached(function):
    found: dict[str, Any] = {}

    def call(key):
        if str(key) not in found:
            found[str(key)] = function(key)
        return found[str(key)]

    return call


def from_zero(name: str) -> str:
    """Number spline columns from 0, as patsy does; ours are numbered from 1."""
    return re.sub(r"((?:bs|cr)\([^\[]*\))\[(\d+)\]", lambda m: f"{m[1]}[{int(m[2]) - 1}]", name)


def as_formulaic_spells(name: str) -> str:
    return name.replace(", )", ",)")


def assert_same_names(pair: Pair, *, splines: bool = False) -> None:
    ours, theirs = list(pair.ours.params.index), list(pair.theirs.params.index)
    if splines:
        ours, theirs = [from_zero(name) for name in ours], [as_formulaic_spells(name) for name in theirs]
    assert ours == theirs
    assert pair.ours.model.endog_names == pair.theirs.model.endog_names


def assert_same_numbers(pair: Pair, tolerance: float = 1e-4) -> None:
    """Coefficients within `tolerance` standard errors; the rest to five digits or better."""
    ours, theirs = pair.ours, pair.theirs
    gap = np.abs(ours.params.to_numpy() - theirs.params.to_numpy()) / theirs.bse.to_numpy()
    assert gap.max() < tolerance
    np.testing.assert_allclose(ours.bse.to_numpy(), theirs.bse.to_numpy(), rtol=1e-5)
    np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-5)
    np.testing.assert_allclose(ours.rsquared, theirs.rsquared, atol=1e-6)
    np.testing.assert_allclose(ours.rsquared_adj, max(theirs.rsquared_adj, 0.0), atol=1e-6)  # shown in [0, 1]
    assert ours.nobs == theirs.nobs
    assert ours.df_model == theirs.df_model
    assert ours.df_resid == theirs.df_resid


def assert_same_intervals(pair: Pair) -> None:
    """Intervals are normal ones, so compare with ``fit(use_t=False)``."""
    ours, theirs = pair.ours.conf_int().to_numpy(), pair.theirs.model.fit(use_t=False).conf_int().to_numpy()
    assert (np.abs(ours - theirs) / pair.theirs.bse.to_numpy()[:, None]).max() < 2e-4


# -- every formula on real tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", FITS, ids=str)
def test_names_and_numbers_are_those_of_statsmodels(both, fit):
    pair = both(fit)
    assert_same_names(pair)
    assert_same_numbers(pair)
    assert_same_intervals(pair)


@pytest.mark.parametrize("fit", SPLINE_FITS, ids=str)
def test_splines_with_explicit_knots_are_those_of_statsmodels(both, fit):
    pair = both(fit)
    assert_same_names(pair, splines=True)
    assert_same_numbers(pair)
    assert_same_intervals(pair)


@pytest.mark.parametrize("kind", SHIPPED_FITS)
def test_each_kind_of_formula_agrees_on_a_shipped_table(both_shipped, kind):
    pair = both_shipped(kind)
    assert_same_names(pair, splines="spline" in kind)
    assert_same_numbers(pair)
    assert_same_intervals(pair)


@pytest.mark.parametrize("fit", FITS[::3], ids=str)
def test_covariance_matrix_is_that_of_statsmodels(both, fit):
    pair = both(fit)
    theirs = pair.theirs.cov_params()
    size = np.sqrt(np.outer(np.diag(theirs), np.diag(theirs)))
    ours = pair.ours.cov_params()
    assert list(ours.columns) == list(ours.index) == list(theirs.columns)
    assert (np.abs(ours.to_numpy() - theirs.to_numpy()) / size).max() < 1e-4


@pytest.mark.parametrize("fit", [*FITS, *SPLINE_FITS], ids=str)
def test_predictions_for_new_rows_are_those_of_statsmodels(both, fit):
    pair = both(fit)
    new = pair.rows.sample(50, replace=True, random_state=1)
    ours, theirs = pair.ours.predict(new), pair.theirs.predict(new)
    assert list(ours.index) == list(theirs.index)
    assert np.abs(ours.to_numpy() - theirs.to_numpy()).max() < 1e-4 * math.sqrt(pair.theirs.scale)


@pytest.mark.parametrize("kind", SHIPPED_FITS)
def test_predictions_agree_on_a_shipped_table(both_shipped, kind):
    pair = both_shipped(kind)
    new = pair.rows.sample(50, random_state=1)
    gap = pair.ours.predict(new) - pair.theirs.predict(new)
    assert gap.abs().max() < 1e-4 * math.sqrt(pair.theirs.scale)


# -- the values do not come from statsmodels alone -----------------------------------------------------------------


def test_published_coefficients_of_wage1_come_out(both):
    params = both(FITS[0]).ours.params
    assert [round(value, 4) for value in params] == [0.2844, 0.0920, 0.0041, 0.0221]


def test_normal_quantiles_give_the_interval_without_noise(both):
    ours = both(FITS[0]).ours
    lower, upper = ours.params - NORMAL_975 * ours.bse, ours.params + NORMAL_975 * ours.bse
    np.testing.assert_allclose(ours.conf_int().to_numpy(), np.column_stack([lower, upper]), rtol=1e-9)


def test_longley_keeps_the_certified_digits_that_the_lattice_leaves(table):
    """NIST StRD longley, 16 rows: measured are 3.7 (GNPDEFL) to 7.5 (UNEMP) digits, and 4.4 of the standard errors."""
    certified = [-3482258.63459582, 15.0618722713733, -0.0358191792925910, -2.02022980381683]
    certified += [-1.03322686717359, -0.0511041056535807, 1829.15146461355]
    errors = [890420.383607373, 84.9149257747669, 0.0334910077722432, 0.488399681651699]
    errors += [0.214274163161675, 0.226073200069370, 455.478499142212]
    longley = table("longley")
    formula = "TOTEMP ~ GNPDEFL + GNP + UNEMP + ARMED + POP + YEAR"
    fit = dps.dp_ols(formula, longley.data, epsilon=math.inf, bounds=longley.bounds)
    digits = -np.log10(np.abs(fit.params.to_numpy() / certified - 1))
    assert (digits > [5.5, 3.6, 4.7, 6.5, 5.4, 3.6, 5.5]).all()  # a little less than measured, for other BLAS
    assert (np.abs(fit.params.to_numpy() - certified) / errors).max() < 1e-4
    assert (-np.log10(np.abs(fit.bse.to_numpy() / errors - 1))).min() > 4.3
    assert abs(fit.rsquared - 0.995479004577296) < 1e-6
    assert math.sqrt(fit.scale) == pytest.approx(304.854073561965, rel=1e-4)


# -- tests of contrasts --------------------------------------------------------------------------------------------

WAGES = Fit("cps1988", "wage ~ C(region)*C(ethnicity) + education")


@pytest.mark.parametrize(
    "constraint",
    [
        "education = 50",
        "C(region)[T.midwest] = C(region)[T.south]",
        "2 * education - C(region)[T.west]",
        "C(region)[T.midwest] = 0, C(region)[T.south] = 0",
        "C(region)[T.west]:C(ethnicity)[T.afam] = 10",
    ],
)
def test_constraints_written_as_text_are_those_of_statsmodels(both, constraint):
    pair = both(WAGES)
    assert_same_contrasts(pair, constraint)


def test_constraints_written_as_arrays_are_those_of_statsmodels(both):
    pair = both(WAGES)
    matrix = np.zeros((2, len(pair.theirs.params)))
    matrix[0, [1, 2]] = 1, -1
    matrix[1, -1] = 3
    for constraint in (matrix[0], matrix, (matrix, np.array([5.0, 7.0]))):
        assert_same_contrasts(pair, constraint)


def assert_same_contrasts(pair: Pair, constraint: Any) -> None:
    ours, theirs = pair.ours.t_test(constraint), pair.theirs.t_test(constraint)
    error = np.atleast_1d(np.squeeze(theirs.sd))
    assert (np.abs(ours.effect - theirs.effect) / error).max() < 1e-4
    np.testing.assert_allclose(ours.sd, error, rtol=1e-5)
    np.testing.assert_allclose(ours.tvalue, np.atleast_1d(np.squeeze(theirs.tvalue)), rtol=1e-4, atol=1e-3)


def test_coefficient_constraint_equals_its_row_of_the_table(both):
    ours = both(WAGES).ours
    tested = ours.t_test("education = 0")
    assert tested.effect[0] == ours.params["education"]
    assert tested.sd[0] == pytest.approx(ours.bse["education"], rel=1e-12)
    np.testing.assert_allclose(tested.conf_int()[0], ours.conf_int().loc["education"], rtol=1e-12)


# -- where patsy and formulaic differ ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({name: rng.uniform(0, 10, 400) for name in ("x", "z", "a.b")})
    frame["g"] = pd.Categorical(rng.choice(["a", "b", "c"], 400))
    frame["flag"] = rng.random(400) > 0.4
    frame["y"] = (10 + frame.x + 3 * (frame.z > 5) + 2 * (frame.g == "b") + frame.flag + rng.normal(0, 1, 400)) / 4
    return Table(frame, {"y": (0, 20), "x": (0, 10), "z": (0, 10), "a.b": (0, 10)}, {"g": ["a", "b", "c"]})


def toy_pair(formula: str, toy: Table) -> Pair:
    ours = dps.dp_ols(formula, toy.data, epsilon=math.inf, bounds=toy.bounds, levels=toy.levels)
    return Pair(ours, smf.ols(formula, toy.data).fit(), toy.data)


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_known_differences_of_names_concern_names_only(toy, difference):
    formula, our_names, their_names = DIFFERENCES[difference]
    pair = toy_pair(formula, toy)
    assert list(pair.ours.params.index) == our_names
    assert list(pair.theirs.params.index) == their_names
    for name, same in zip(our_names, matched(our_names, their_names), strict=True):
        error = pair.theirs.bse[same]
        assert abs(pair.ours.params[name] - pair.theirs.params[same]) < 1e-4 * error
        assert pair.ours.bse[name] == pytest.approx(error, rel=1e-5)


def matched(our_names: list[str], their_names: list[str]) -> list[str]:
    """Statsmodels' name of each of our columns: equal up to ``[T.True]``, else by position."""
    plain = {name.removesuffix("[T.True]"): name for name in their_names}
    if set(plain) == set(our_names):
        return [plain[name] for name in our_names]
    return their_names


@pytest.mark.parametrize("formula", OTHER_CODINGS)
def test_other_codings_of_a_full_factor_fit_the_same_space(toy, formula):
    pair = toy_pair(formula, toy)
    assert list(pair.ours.params.index) == OTHER_CODINGS[formula]
    assert list(pair.theirs.params.index) != OTHER_CODINGS[formula]
    assert pair.ours.scale == pytest.approx(pair.theirs.scale, rel=1e-5)
    np.testing.assert_allclose(pair.ours.predict(toy.data), pair.theirs.predict(toy.data), rtol=1e-5)


def test_polynomials_are_orthogonal_on_the_declared_range(table):
    """patsy has no poly(): statsmodels is given the polynomials that are orthonormal on the public grid."""
    wages = table("wage1")

    def poly(x, degree):
        grid = np.linspace(*wages.bounds["educ"], 500)
        triangle = np.linalg.qr(np.vander(grid - grid.mean(), degree + 1, increasing=True))[1]
        columns = np.vander(np.asarray(x) - grid.mean(), degree + 1, increasing=True) @ np.linalg.inv(triangle)
        return (columns * np.sign(np.diag(triangle)))[:, 1:]

    ours = dps.dp_ols("wage ~ poly(educ, 3) + exper", wages.data, epsilon=math.inf, bounds=wages.bounds)
    rows = wages.complete_cases(["wage", "educ", "exper"])
    pair = Pair(ours, smf.ols("wage ~ poly(educ, 3) + exper", rows).fit(), rows)
    assert list(ours.params.index) == ["Intercept", *(f"poly(educ, 3)[{j}]" for j in (1, 2, 3)), "exper"]
    assert_same_numbers(pair)
    same_space = smf.ols("wage ~ educ + I(educ**2) + I(educ**3) + exper", rows).fit()
    np.testing.assert_allclose(ours.predict(rows), same_space.predict(rows), rtol=1e-5)


def test_a_natural_spline_beside_an_intercept_is_refused_instead_of_pseudo_inverted(toy):
    formula = "y ~ cr(x, knots=(4,), lower_bound=0, upper_bound=10)"
    with pytest.raises(dps.DesignError, match=r"Intercept, cr\(x.*linearly dependent"):
        toy_pair(formula, toy)


def test_levels_that_never_occur_leave_the_other_coefficients_alone(table):
    """A declared level without rows has a coefficient of its own; statsmodels, without it, gives the others."""
    units = table("cps_taxunits_2012_2014")
    formula = "wages ~ age_head + family_size + C(filing_status)"
    rows = units.complete_cases(["wages", "age_head", "family_size", "filing_status"])
    theirs = smf.ols(formula, rows.assign(filing_status=rows.filing_status.cat.remove_unused_categories())).fit()
    ours = dps.dp_ols(formula, units.data, epsilon=math.inf, bounds=units.bounds, levels=units.levels)
    never = "C(filing_status)[T.widow]"
    assert list(ours.params.index) == [*theirs.params.index[:-2], never, *theirs.params.index[-2:]]
    gap = (ours.params.drop(never) - theirs.params).abs() / theirs.bse
    assert gap.max() < 1e-3
    assert math.isfinite(ours.params[never])
