"""Tables of fits: each number beside its name, in every format; what is not private says so; no private value shows."""

from __future__ import annotations

import copy
import html.parser
import itertools
import math
import pickle
import re
import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from markdown_it import MarkdownIt
from pylatexenc.latex2text import LatexNodes2Text, MacroTextSpec, get_default_latex_context_db
from pylatexenc.latexwalker import LatexWalker
from test_privacy_boundary import FORMULAS, leaks, planted

import dpstats as dps

HOURS = "hours_per_week ~ age + C(sex) + education_num"
ODD = "net_pay ~ Q('R&D_%') + Q('a|b') + größe + C(g)"
LEVELS = ["a_1", "50%", "[T.b]", "b$#1", "<i>x</i> & {y}", "c\\d", "*z* ~^`", "two\nlines", "Zürich"]
PARSED = ["latex", "html", "markdown"]
FORMATS = ["text", *PARSED]


@pytest.fixture(scope="module")
def adult():
    return dps.datasets.load_adult()


@pytest.fixture(scope="module")
def bank():
    return dps.datasets.load_bank()


@pytest.fixture(scope="module")
def fits(adult, bank):
    """Private, statsmodels', simulated, noiseless, estimates only, logit: all kinds of columns."""
    hours = {"data": adult.data, "schema": adult.schema}
    exact = dps.dp_ols(HOURS, **hours, epsilon=math.inf)
    return {
        "private": dps.dp_ols(HOURS, **hours, epsilon=1),
        "zcdp": dps.dp_ols(HOURS, **hours, rho=0.1),
        "reference": smf.ols(HOURS, adult.data).fit(),
        "simulated": dps.dp_ols(HOURS, **hours, epsilon=1, rng=np.random.default_rng(0)),
        "exact": exact,
        "point": dps.dp_ols(HOURS, **hours, epsilon=1, delta=1e-6, mechanism="adassp"),
        "logit": dps.dp_logit("y ~ balance + C(housing)", bank.data, epsilon=20, schema=bank.schema),
        "taylor": dps.dp_logit("y ~ C(housing)", bank.data, 2, schema=bank.schema, mechanism="functional"),
    }


@pytest.fixture(scope="module")
def odd():
    """A fit whose names hold what LaTeX, HTML and Markdown take for commands, and its statsmodels twin."""
    n = 90 * len(LEVELS)
    rng = np.random.default_rng(0)
    data = pd.DataFrame({name: rng.uniform(0, 1, n) for name in ("net_pay", "R&D_%", "a|b", "größe")})
    data["g"] = LEVELS * 90
    bounds = dict.fromkeys(("net_pay", "R&D_%", "a|b", "größe"), (0, 1))
    ours = dps.dp_ols(ODD, data, epsilon=10, bounds=bounds, levels={"g": LEVELS}, infeasible="fit")
    return [ours, smf.ols(ODD, data.assign(g=pd.Categorical(data["g"], LEVELS))).fit()]


# -- reading a rendered table back -----------------------------------------------------------------------------------


class Cells(html.parser.HTMLParser):
    """Collect the cells of the one table of a page, and what stands outside it."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.rows, self.outside, self.open = [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data.strip()
        else:
            self.outside.append(data)


def parsed_latex(tex: str) -> list[list[str]]:
    """Check that braces and environments close, and return the cells of the tabular as a reader sees them."""
    LatexWalker(tex, tolerant_parsing=False).get_latex_nodes()
    assert tex.count("\n\\begin{tabular}") == 1
    body = tex.split("\\begin{tabular}", 1)[1].split("\n", 1)[1].split("\\end{tabular}")[0]
    lines = [line for line in body.splitlines() if not re.fullmatch(r"\\(top|mid|bottom)rule", line)]
    assert all(line.endswith("\\\\") for line in lines)
    return [[as_read(cell) for cell in re.split(r"(?<!\\)&", line[:-2])] for line in lines]


SIGNS = get_default_latex_context_db()
NAMED = {"textless": "<", "textgreater": ">", "textasciicircum": "^", "textbar": "|"}
SIGNS.add_context_category("signs", prepend=True, macros=[MacroTextSpec(name, sign) for name, sign in NAMED.items()])


def as_read(tex: str) -> str:
    return " ".join(LatexNodes2Text(latex_context=SIGNS).latex_to_text(tex).split())


def parsed(table: str, format: str) -> list[list[str]]:
    """Return the cells of a table, labels first, head included."""
    if format == "latex":
        return parsed_latex(table)
    return Cells(table if format == "html" else MarkdownIt().enable("table").render(table)).rows


def rows_by_label(grid: list[list[str]]) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in grid if row[0]}


def number(cell: str) -> float:
    return float(cell.strip("*()").replace(",", ""))


# -- numbers beside their names, in every format ---------------------------------------------------------------------


@pytest.mark.parametrize("format", PARSED)
def test_coefficients_and_errors_stand_beside_their_names(fits, format):
    chosen = [fits["private"], fits["reference"], fits["logit"]]
    grid = parsed(dps.regression_table(chosen, format=format, stars=True), format)
    assert {len(row) for row in grid} == {4}
    for j, fit in enumerate(chosen, start=1):
        pairs = [(row, below) for row, below in itertools.pairwise(grid) if row[0] and not below[0]]
        printed = {row[0]: (row[j], below[j]) for row, below in pairs}
        for name in fit.params.index:
            estimate, error = printed[name]
            assert number(estimate) == pytest.approx(fit.params[name], rel=1e-3, abs=6e-5)
            assert estimate.count("*") == sum(fit.pvalues[name] < level for level in (0.1, 0.05, 0.01))
            assert error.startswith("(")
            assert number(error) == pytest.approx(fit.bse[name], rel=1e-3, abs=6e-5)
        for name in set(printed) - set(fit.params.index):
            assert printed[name] == ("", "")


def test_intervals_stand_below_the_coefficients_if_wanted(fits):
    chosen = [fits["private"], fits["reference"]]
    grid = parsed(dps.regression_table(chosen, format="html", below="interval", alpha=0.1), "html")
    for row, below in itertools.pairwise(grid):
        if row[0] in fits["private"].params.index:
            for cell, fit in zip(below[1:], chosen, strict=True):
                ends = [float(end) for end in cell.strip("[]").split(",")]
                assert ends == pytest.approx(list(fit.conf_int(0.1).loc[row[0]]), abs=1e-4)
    assert "90% confidence intervals in brackets" in dps.regression_table(chosen, below="interval", alpha=0.1)


@pytest.mark.parametrize("format", FORMATS)
def test_case_29_labels_and_numbers_are_reordered_together(format):
    r = np.random.default_rng(0)
    df = pd.DataFrame({c: r.random(3000) for c in ("zeta", "beta", "alpha")})
    df["y"] = 3 * df.zeta + 2 * df.beta + df.alpha
    bounds = {"zeta": (0, 1), "beta": (0, 1), "alpha": (0, 1), "y": (0, 6)}
    a = dps.dp_ols("y ~ zeta + beta + alpha", df, epsilon=1e5, bounds=bounds)
    b = dps.dp_ols("y ~ beta + alpha", df, epsilon=1e5, bounds=bounds)
    table = dps.regression_table([a, b], format=format, order=["beta", "zeta"], drop=["Intercept"])
    if format == "text":
        grid = [re.split(r"\s{2,}", line.rstrip()) for line in table.splitlines()]
        rows = {row[0]: [*row[1:], ""][:2] for row in grid if len(row) > 1 and row[0]}
    else:
        rows = rows_by_label(parsed(table, format))
    assert list(rows)[:3] == ["beta", "zeta", "alpha"]
    assert [number(rows[name][0]) for name in ("beta", "zeta", "alpha")] == pytest.approx([2, 3, 1], abs=0.02)
    assert rows["zeta"][1] == ""
    assert [number(rows[name][1]) for name in ("beta", "alpha")] == pytest.approx([2, 1], abs=0.2)


def test_without_noise_the_columns_agree_with_statsmodels(fits):
    table = dps.regression_table([fits["exact"], fits["reference"]], format="html", float_format="%.3f")
    rows = rows_by_label(parsed(table, "html"))
    for name in [*fits["exact"].params.index, "R-squared"]:
        assert number(rows[name][0]) == pytest.approx(number(rows[name][1]), abs=2e-3)
    assert rows["Observations"] == ["48,842", "48,842"]


def test_the_rows_below_say_what_was_spent_and_how(fits):
    chosen = [fits[name] for name in ("private", "zcdp", "reference", "simulated", "point", "logit")]
    rows = rows_by_label(parsed(dps.regression_table(chosen, format="html"), "html"))
    assert rows["epsilon"] == ["1", "", "inf", "inf", "1", "20"]
    assert rows["delta"] == ["", "", "", "", "1e-06", ""]
    assert rows["rho"] == ["", "0.1", "", "", "", ""]
    assert rows["Mechanism"] == [getattr(fit, "mechanism", "none") for fit in chosen]
    counts = rows["Observations"]
    assert counts[2] == "48,842"
    assert counts[4] == ""
    assert counts[5] == f"{len(dps.datasets.load_bank().data):,} (rows)"
    for j in (0, 1, 3):
        assert re.fullmatch(r"48,\d{3} \(dp\)", counts[j])
        assert counts[j] == f"{chosen[j].nobs:,.0f} (dp)"
    assert rows["R-squared"][0] == f"{fits['private'].rsquared:.3f} (dp)"
    assert rows["R-squared"][4:] == ["", ""]


def test_labels_names_order_and_format_are_the_users(fits):
    table = dps.regression_table(
        [fits["private"], fits["zcdp"]],
        format="html",
        model_names=["Laplace", "Gauss"],
        labels={"age": "Age & years"},
        order=["education_num"],
        drop=["Intercept"],
        float_format="%.1f",
        title="Hours <worked>",
    )
    grid = parsed(table, "html")
    assert grid[:2] == [["", "(1)", "(2)"], ["", "Laplace", "Gauss"]]
    assert [row[0] for row in grid if row[0]][:3] == ["education_num", "C(sex)[T.Male]", "Age & years"]
    assert rows_by_label(grid)["Age & years"][0] == f"{fits['private'].params['age']:.1f}"
    assert "Hours <worked>" in Cells(table).outside


def test_coefficients_of_one_label_share_a_row(fits):
    labels = {"age": "Age", "education_num": "Age"}
    short = fits["private"].refit("hours_per_week ~ education_num")
    other = fits["private"].refit("hours_per_week ~ age")
    rows = rows_by_label(parsed(dps.regression_table([short, other], format="html", labels=labels), "html"))
    assert number(rows["Age"][0]) == pytest.approx(short.params["education_num"], abs=1e-4)
    assert number(rows["Age"][1]) == pytest.approx(other.params["age"], abs=1e-4)
    with pytest.raises(dps.OptionError, match=r"fits\[1\] has two coefficients called 'Age'"):
        dps.regression_table([short, fits["private"]], labels=labels)


# -- names that are commands elsewhere -------------------------------------------------------------------------------


@pytest.mark.parametrize("format", PARSED)
def test_names_are_read_as_they_were_written(odd, format):
    table = dps.regression_table(odd, format=format, title="100% of R&D_{x} | <b>", model_names=["*a*", "$b_1$"])
    grid = parsed(table, format)
    assert {len(row) for row in grid} == {3}
    assert grid[1] == ["", "*a*", "$b_1$"]
    assert grid[2][1:] == ["net_pay", "net_pay"]
    labels = [row[0] for row in grid if row[0]][: len(odd[0].params)]
    assert labels == [" ".join(name.split()) for name in odd[0].params.index]
    rows = rows_by_label(grid)
    for label, name in zip(labels, odd[0].params.index, strict=True):
        assert number(rows[label][1]) == pytest.approx(odd[1].params[name], rel=1e-3, abs=6e-5)


def test_text_keeps_the_names(odd):
    text = dps.regression_table(odd)
    for name in ("Q('R&D_%')", "Q('a|b')", "größe", "C(g)[T.[T.b]]", "C(g)[T.<i>x</i> & {y}]", "C(g)[T.two lines]"):
        assert f"\n{name} " in text


def test_latex_has_no_bare_special_character(odd, fits):
    for tex in (
        dps.regression_table(odd, format="latex", labels={"größe": "[a] *b*"}),
        dps.regression_table([fits["private"], fits["logit"]], format="latex", stars=True, below="interval"),
    ):
        inside = re.sub(r"\\begin\{tabular\}\{\w+\}|(?<!\\)&", "", tex)
        assert not re.search(r"(?<!\\)[_%#$&^~<>|]", inside)
        assert not re.search(r"\\\\\s*[\[*]", tex)
        assert tex.count(r"\begin{") == tex.count(r"\end{")


ENGINES = [engine for engine in ("lualatex", "xelatex", "tectonic", "pdflatex") if shutil.which(engine)]


@pytest.mark.skipif(not ENGINES, reason="no LaTeX here; the parser above checks what it can")
@pytest.mark.slow
@pytest.mark.parametrize("below", ["se", "interval"])
def test_latex_compiles(odd, fits, tmp_path, below):
    chosen = [*odd, fits["private"], fits["logit"]]
    tables = [dps.regression_table(chosen[:2], format="latex", title="100% of R&D_", below=below, stars=True)]
    tables += [dps.regression_table(chosen, format="latex", labels={"age": "[age]*"}, below=below)]
    head = "\\documentclass{article}\\usepackage{booktabs}\\begin{document}\n"
    (tmp_path / "table.tex").write_text(head + "\n".join(tables) + "\n\\end{document}\n", encoding="utf-8")
    options = [] if ENGINES[0] == "tectonic" else ["-halt-on-error", "-interaction=nonstopmode"]
    done = subprocess.run([ENGINES[0], *options, "table.tex"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "table.pdf").stat().st_size > 1000


# -- what is not private says so -------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("other", ["reference", "simulated", "exact"])
def test_a_column_that_is_not_private_says_so(fits, other, format):
    table = dps.regression_table([fits["private"], fits[other]], format=format)
    reason = {"reference": "no noise (statsmodels)", "simulated": "simulated noise", "exact": "no noise"}[other]
    assert f"NOT PRIVATE: (2) {reason}." in " ".join(table.split())
    if format == "text":
        assert re.search(r"\n +NOT PRIVATE *\n-", table)
    else:
        assert ["", "", "NOT PRIVATE"] in parsed(table, format)


@pytest.mark.parametrize("format", FORMATS)
def test_a_private_table_does_not_call_itself_otherwise(fits, format):
    table = dps.regression_table([fits["private"], fits["zcdp"], fits["point"], fits["logit"]], format=format)
    assert "NOT PRIVATE" not in table


def test_statsmodels_fits_alone_make_a_table_too(fits, adult):
    y, x = adult.data["hours_per_week"], adult.data[["age", "education_num"]]
    arrays = sm.OLS(y.to_numpy(), sm.add_constant(x.to_numpy())).fit()
    table = dps.regression_table([fits["reference"], arrays], format="html")
    rows = rows_by_label(parsed(table, "html"))
    assert [number(rows[name][1]) for name in ("const", "x1", "x2")] == pytest.approx(arrays.params, abs=1e-4)
    assert rows["epsilon"] == ["inf", "inf"]


def test_the_notes_say_what_the_errors_contain(fits):
    names = ["private", "reference", "simulated", "exact", "point"]
    text = " ".join(dps.regression_table([fits[name] for name in names]).split())
    assert "those of (1), (3) reflect sampling and privacy noise" in text
    assert "those of (2), (4) reflect sampling noise only" in text
    assert "(5) has none" in text
    assert "Privacy of (1), (5): replace one of n rows; privacy unit: one row." in text
    assert "Budgets of different releases from the same records add up." in text
    assert f"Estimand of (1), (3), (4), (5): {fits['private'].estimand}." in text


def test_fits_from_one_release_are_paid_for_once(adult, fits):
    release = dps.dp_moments(HOURS, adult.data, epsilon=1, schema=adult.schema)
    shared = dps.fit_many(release, [HOURS, "hours_per_week ~ age"])
    text = dps.regression_table(shared)
    assert "One release, paid for once: (1), (2)." in text
    assert "add up" not in text
    assert "paid for once" not in dps.regression_table([fits["private"], fits["zcdp"]])


def test_classifiers_name_the_event_and_what_they_estimate(fits):
    text = " ".join(dps.regression_table([fits["logit"], fits["taylor"]]).split())
    assert "Success in (1): y = yes." in text
    assert "These are NOT the coefficients of a logit" in text
    assert "R-squared" not in text


def test_an_unidentified_coefficient_has_no_error(adult):
    rng = np.random.default_rng(1)
    fit = dps.dp_ols(HOURS, adult.data.head(30), 0.1, schema=adult.schema, infeasible="fit", rng=rng)
    assert np.isinf(fit.conf_int()).all(axis=None)
    text = dps.regression_table([fit])
    assert text.count("(-)") == len(fit.params)
    assert "-: privacy noise leaves the coefficient unidentified." in text
    assert dps.regression_table([fit], below="interval").count("[-inf, inf]") == len(fit.params)


# -- no private value ------------------------------------------------------------------------------------------------


def everything_shown(fit, data) -> list[str]:
    reference = smf.ols("y ~ 1", pd.DataFrame({"y": [0.0, 1.0, 3.0]})).fit()
    shown = [fit.tidy().to_csv(), fit.glance().to_csv(), repr(fit.tidy()), repr(fit.glance())]
    for format in FORMATS:
        shown.append(dps.regression_table([fit, reference], format=format, stars=True))
        shown.append(dps.regression_table([fit], format=format, below="interval"))
    with pytest.raises(dps.OptionError) as caught:
        dps.regression_table([fit, data])
    return [*shown, str(caught.value)]


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("mechanism", ["ssp", "functional", "adassp"])
def test_planted_values_appear_in_no_table(formula, mechanism):
    frame, declared = planted()
    budget = {"epsilon": 1, "delta": 1e-6} if mechanism == "adassp" else {"epsilon": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = dps.dp_ols(formula, frame, **budget, **declared, mechanism=mechanism, infeasible="fit")
        shown = everything_shown(fit, frame)
    assert not any(leaks(text) for text in shown)
    if mechanism != "adassp":
        assert not leaks(fit.t_test(np.eye(len(fit.params))).tidy().to_csv())


@pytest.mark.parametrize("model", [dps.dp_logit, dps.dp_svm])
def test_planted_values_appear_in_no_table_of_a_classifier(model):
    frame, declared = planted()
    fit = model("g ~ x", frame, 1.0, **declared, infeasible="fit")
    assert not any(leaks(text) for text in everything_shown(fit, frame))


# -- tidy and glance -------------------------------------------------------------------------------------------------

BROOM = ["term", "estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "privacy_error"]


@pytest.mark.parametrize("name", ["private", "zcdp", "logit", "taylor"])
def test_tidy_has_one_row_per_coefficient(fits, name):
    fit = fits[name]
    table = fit.tidy(alpha=0.2).set_index("term")
    assert [table.index.name, *table.columns] == BROOM
    expected = {"estimate": fit.params, "std_error": fit.bse, "statistic": fit.tvalues, "p_value": fit.pvalues}
    expected |= {"conf_low": fit.conf_int(0.2)[0], "conf_high": fit.conf_int(0.2)[1], "privacy_error": fit.bse_privacy}
    for column, values in expected.items():
        pd.testing.assert_series_equal(table[column], values, check_names=False)
    assert fit.tidy()["conf_low"].iloc[0] == fit.conf_int().iloc[0, 0]


def test_tables_of_several_fits_can_be_stacked(fits):
    private = [fits[name] for name in ("private", "zcdp", "point", "logit")]
    rows = pd.concat([fit.tidy() for fit in private])
    assert list(rows.columns) == BROOM
    assert len(rows) == sum(len(fit.params) for fit in private)
    assert pd.concat([fit.glance() for fit in private])["private"].tolist() == [True] * 4


def test_glance_is_one_row_about_the_fit(fits):
    fit = fits["private"]
    row = fit.glance()
    assert len(row) == 1
    row = row.iloc[0]
    slopes = fit.slopes_test()
    assert (row["r_squared"], row["adj_r_squared"]) == (fit.rsquared, fit.rsquared_adj)
    assert row["sigma"] == math.sqrt(fit.scale)
    assert (row["statistic"], row["p_value"], row["df"]) == (slopes.fvalue, slopes.pvalue, 3)
    assert (row["nobs"], row["nobs_error"], row["df_residual"]) == (fit.nobs, fit.nobs_sd, fit.df_resid)
    assert (row["epsilon"], row["private"], row["mechanism"]) == (1, True, "ssp, Laplace")
    assert math.isnan(row["delta"])
    assert math.isnan(row["rho"])
    assert fits["zcdp"].glance()["rho"].item() == 0.1


def test_glance_leaves_out_what_a_classifier_has_not(fits):
    for name in ("logit", "taylor"):
        assert {"r_squared", "adj_r_squared", "sigma"}.isdisjoint(fits[name].glance().columns)
        assert fits[name].glance()["nobs"].item() == fits[name].nobs


@pytest.mark.parametrize("name", ["simulated", "exact"])
def test_glance_of_what_is_not_private_has_an_infinite_epsilon(fits, name):
    row = fits[name].glance().iloc[0]
    assert not row["private"]
    assert row["epsilon"] == math.inf


def test_a_fit_with_estimates_only_is_tidy_too(fits):
    table = fits["point"].tidy()
    assert list(table.columns) == BROOM
    assert table["estimate"].tolist() == fits["point"].params.tolist()
    assert table.drop(columns=["term", "estimate"]).isna().all(axis=None)
    assert fits["point"].glance()["delta"].item() == 1e-6
    with pytest.raises(dps.OptionError, match="alpha"):
        fits["point"].tidy(alpha=2)


def test_contrasts_are_tidy(fits):
    test = fits["private"].t_test("age = 0.5, education_num = 0")
    table = test.tidy(alpha=0.1)
    assert list(table.columns) == ["contrast", "null_value", *BROOM[1:]]
    assert table["null_value"].tolist() == [0.5, 0]
    coefficients = fits["private"].tidy(alpha=0.1).set_index("term").loc[["age", "education_num"]]
    for column in ("estimate", "std_error", "conf_low", "conf_high", "privacy_error"):
        np.testing.assert_allclose(table[column], coefficients[column])
    assert table["p_value"].tolist() == test.pvalue.tolist()
    assert fits["private"].t_test("age = 0").tidy()["p_value"].item() == pytest.approx(fits["private"].pvalues["age"])


# -- other table libraries take our results as they are --------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(fits):
    return [fits["private"], fits["reference"], fits["simulated"], fits["logit"]]


def test_summary_col_takes_our_results(mixed):
    from statsmodels.iolib.summary2 import summary_col

    text = str(summary_col(mixed, model_names=list("ABCD"), regressor_order=["age"], stars=True))
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    for cell, fit in zip(lines["age"].split()[1:], mixed[:3], strict=True):
        assert number(cell) == pytest.approx(fit.params["age"], abs=1e-4)
    assert lines["balance"].split()[1].strip("*") == f"{mixed[3].params['balance']:.4f}"
    privacy = "epsilon = 1 (pure) NOT PRIVATE: simulated noise epsilon = 20 (pure)"
    assert " ".join(lines["Privacy"].split()[1:]) == privacy
    assert f"{mixed[0].nobs:,.0f} (dp)" in lines["Observations"]
    assert "Privacy" not in str(summary_col(mixed, info_dict={"N": lambda fit: f"{fit.nobs:.0f}"}))


def test_stargazer_takes_our_results(mixed):
    from stargazer.stargazer import Stargazer

    table = Stargazer(mixed)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table.render_html())
    start = cells.index("education_num")
    for cell, fit in zip(cells[start + 1 : start + 4], mixed[:3], strict=True):
        assert number(re.sub("<.*?>", "", cell)) == pytest.approx(fit.params["education_num"], abs=1e-3)
    assert cells[start + 4] == ""
    LatexWalker(table.render_latex(escape=True), tolerant_parsing=False).get_latex_nodes()


def test_maketables_takes_our_results(mixed):
    from maketables import ETable

    table = ETable(mixed, coef_fmt="b:.4f", labels={}, cat_template="").df
    values = table.loc[("coef", "education_num")].tolist()
    assert [float(value) for value in values[:3]] == pytest.approx(
        [fit.params["education_num"] for fit in mixed[:3]], abs=1e-4
    )
    assert values[3] == ""
    assert "education" in ETable(mixed).make(type="tex")


def test_a_result_is_looked_up_and_copied_as_any_object(fits):
    fit = fits["private"]
    assert {"tidy", "glance", "params", "release"} <= set(dir(fit))
    for twin in (pickle.loads(pickle.dumps(fit)), copy.deepcopy(fit)):
        pd.testing.assert_frame_equal(twin.tidy(), fit.tidy())
    with pytest.raises(dps.NotReleasedError, match="resid was not released"):
        _ = fit.resid
    with pytest.raises(AttributeError, match="no attribute 'parms'"):
        _ = fit.parms


# -- wrong arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"format": "docx"}, r"format must be 'text', 'latex', 'html' or 'markdown', not 'docx'"),
        ({"format": ["text"]}, r"format must be .*, not list"),
        ({"below": "t"}, r"below must be 'se' or 'interval', not 't'"),
        ({"below": ["se"]}, r"below must be 'se' or 'interval', not list"),
        ({"alpha": 5}, r"alpha must lie between 0 and 1, as in alpha=0.05; not 5"),
        ({"stars": "yes"}, r"stars must be True or False, not 'yes'"),
        ({"float_format": "abc"}, r"float_format must format one number, as in '%.2f'; not 'abc'"),
        ({"float_format": 2}, r"float_format must format one number, as in '%.2f'; not 2"),
        ({"float_format": "%d %d"}, r"float_format must format one number"),
        ({"model_names": ["a", "b"]}, r"model_names must hold one name per fit: 1, not 2"),
        ({"model_names": "a"}, r"model_names must be a list of names, as in model_names=\['a'\]; not 'a'"),
        ({"order": "age"}, r"order must be a list of names, as in order=\['age'\]; not 'age'"),
        ({"order": ["agee"]}, r"order has 'agee'; the coefficients are Intercept, C\(sex\)\[T.Male\], age"),
        ({"drop": ["agee"]}, r"drop has 'agee'; the coefficients are Intercept"),
        ({"drop": 3}, r"drop must be a list of names, as in drop=\['age'"),
        ({"labels": ["age"]}, r"labels must map names to texts, as in labels=\{'age': 'Age in years'\}; not list"),
        ({"labels": {"age": 3}}, r"labels must map names to texts"),
        ({"title": 3}, r"title must be text, as in title='Hours worked'; not 3"),
    ],
)
def test_a_wrong_argument_is_named_with_its_cure(fits, wrong, message):
    with pytest.raises(dps.OptionError, match=message):
        dps.regression_table([fits["private"]], **wrong)


def test_what_is_no_fit_is_refused(fits, adult):
    for wrong in (fits["private"], [], "fit"):
        with pytest.raises(dps.OptionError, match=r"fits must be a list of results, as in regression_table\(\[fit1"):
            dps.regression_table(wrong)
    for wrong in (adult.data, "fit", 3):
        with pytest.raises(dps.OptionError, match=r"fits\[1\] must be a result of dpstats or statsmodels"):
            dps.regression_table([fits["private"], wrong])
    several = sm.MNLogit(np.arange(300) % 3, np.column_stack([np.ones(300), np.sin(np.arange(300))])).fit(disp=0)
    with pytest.raises(dps.OptionError, match=r"fits\[0\] has several equations"):
        dps.regression_table([several])
    twice = sm.OLS(np.arange(9.0), pd.DataFrame(np.eye(9)[:, :2], columns=["x", "x"])).fit()
    with pytest.raises(dps.OptionError, match=r"fits\[0\] has two coefficients called 'x'"):
        dps.regression_table([twice])
