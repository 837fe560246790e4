"""Formulas, cells, files and arguments made to run code, to raise, or to put a record into a message."""

from __future__ import annotations

import contextlib
import json
import re

import numpy as np
import pandas as pd
import pytest

import dpstats as dps
from dpstats.records.source import as_source
from dpstats.specification.coercion import to_codes, to_numbers

N = 1_000
DATA = {"x": np.linspace(0, 1, N), "y": np.linspace(0, 1, N), "g": np.array(["a", "b"] * (N // 2))}
DECLARED = {"bounds": {"x": (0, 1), "y": (0, 1)}, "levels": {"g": ["a", "b"]}}


# -- formulas --------------------------------------------------------------------------------------------------------


def attack(path):
    """Literals that, rewritten as text around a backtick, would turn into a call of open()."""
    return ["([", "\\", "`", f"'` ', open({str(path)!r}, 'w').write('x')]) #"]


def literal(value):
    return repr(value).replace("`", "\\x60")


ATTACKS = {
    "knots": lambda parts: f"y ~ bs(x, knots={literal(parts)})",
    "second argument": lambda parts: f"y ~ bs(x, {literal(parts)})",
    "contrast": lambda parts: f"y ~ C(g, {literal(parts)})",
    "levels": lambda parts: f"y ~ x + C(g, levels={literal(parts)})",
    "Treatment": lambda parts: f"y ~ C(g, Treatment({literal(parts)}))",
    "response": lambda parts: f"C(y, {literal(parts)}) ~ x",
    "quoted names": lambda parts: "y ~ np.exp(" + " + ".join(f"Q({literal(part)})" for part in parts) + ")",
    "levels compared": lambda parts: "y ~ I(" + " | ".join(f"(g == {literal(part)})" for part in parts) + ")",
}


@pytest.mark.parametrize("attempt", ATTACKS)
def test_no_formula_runs_code(tmp_path, attempt):
    path = tmp_path / "written"
    parts = attack(path)
    formula = ATTACKS[attempt](parts)
    data = {**DATA, **dict.fromkeys(parts, DATA["x"])}
    declared = {
        "bounds": {**DECLARED["bounds"], **dict.fromkeys(parts, (0, 1))},
        "levels": {"g": [*parts, "a", "b"]} if attempt == "levels compared" else DECLARED["levels"],
    }
    release = dps.dp_moments("y ~ x", data, epsilon=10, **declared)
    file = tmp_path / "release.json"
    release.save(file)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "formula": formula}))
    for call in (
        lambda: dps.dp_ols(formula, data, epsilon=10, **declared),
        lambda: dps.plan(formula, N, epsilon=10, **declared),
        lambda: release.fit(formula),
        lambda: dps.load_release(file),
    ):
        with pytest.raises(dps.DPStatsError):
            call()
        assert not path.exists()


def test_names_in_backticks_do_not_become_code(tmp_path):
    """The formula library replaces one alias inside another name, so that the backticks pair up wrongly."""
    path = tmp_path / "written"
    code = f"open({str(path)!r}, 'w').write('x')".encode()
    evil = f"+exec(bytes({list(code)}))()+".replace(" ", "")
    outer = "a _formulaic_" + re.sub(r"\W", "_", evil) + " b"
    data = {"x": DATA["x"], evil: DATA["x"], outer: DATA["x"]}
    for formula in (f"I(`{evil}` + `{outer}`) ~ x", f"x ~ I(`{evil}` + `{outer}`)"):
        with contextlib.suppress(dps.DPStatsError):
            dps.plan(formula, N, epsilon=10, bounds=dict.fromkeys(data, (0, 1)))
        assert not path.exists()


@pytest.mark.parametrize("other", ["quoted_a_b", "_formulaic_a_b", "quoted0_"])
def test_an_alias_is_never_taken_for_a_column(other):
    rng = np.random.default_rng(0)
    data = {"a b": rng.uniform(size=N), other: rng.uniform(size=N)}
    data["y"] = (data["a b"] + 3 * data[other]) / 4
    bounds = dict.fromkeys(data, (0, 1))
    fit = dps.dp_ols(f"y ~ I(`a b` + 3 * {other})", data, epsilon=float("inf"), bounds=bounds)
    assert fit.params.to_numpy() == pytest.approx([0, 0.25], abs=1e-5)


@pytest.mark.parametrize("formula", ["y ~ x + ``", "y ~ I(x + ``)", "y ~ I(x + `x)", "y ~ I(g == '`x`')"])
def test_backticks_enclose_a_name(formula):
    with pytest.raises(dps.FormulaError):
        dps.dp_ols(formula, DATA, epsilon=10, **DECLARED)


@pytest.mark.parametrize("name", ["a)b", "(b", "x y", "p%q", "x~y", "[1", "#"])
@pytest.mark.parametrize("call", ["bs({}, df=4)", "center({})", "np.exp({})", "I({} + `a b c`)"])
def test_names_with_signs_work_inside_expressions(name, call):
    data = {"y": DATA["y"], name: DATA["x"], "a b c": DATA["x"]}
    for spelled in (f"`{name}`", "Q('" + "".join(f"\\x{ord(char):02x}" for char in name) + "')"):
        formula = "y ~ " + call.format(spelled)
        fit = dps.dp_ols(formula, data, epsilon=float("inf"), bounds=dict.fromkeys(data, (0, 1)))
        assert np.isfinite(fit.params).all()


@pytest.mark.parametrize("name", ["it's", 'say "b"', "back\\slash", "new\nline"])
@pytest.mark.parametrize("call", ["bs({}, df=4)", "center({})", "scale(np.log({} + 1))", "np.exp({})"])
def test_names_that_rewriting_could_break_stay_out_of_expressions(name, call):
    bounds = {"y": (0, 1), name: (0, 1)}
    with pytest.raises(dps.FormulaError, match="rename"):
        dps.dp_ols("y ~ " + call.format(f"Q({name!r})"), {"y": DATA["y"], name: DATA["x"]}, epsilon=10, bounds=bounds)


@pytest.mark.parametrize("name", ["it's", 'say "b"'])
def test_such_names_work_as_terms(name):
    data, bounds = {"y": DATA["y"], name: DATA["x"]}, {"y": (0, 1), name: (0, 1)}
    fit = dps.dp_ols(f"y ~ `{name}`", data, epsilon=float("inf"), bounds=bounds)
    assert fit.params.to_numpy() == pytest.approx([0, 1], abs=1e-5)
    with pytest.raises(dps.FormulaError, match="rename"):
        dps.dp_ols(f"y ~ `{name}`:center(x)", {**data, "x": DATA["x"]}, epsilon=10, bounds={**bounds, "x": (0, 1)})


@pytest.mark.parametrize("formula", [f"y ~ I(x * 0x{'f' * 6_000})", f"y ~ bs(x, df=0x{'f' * 6_000})"])
def test_huge_literals_are_refused_in_a_short_message(formula):
    with pytest.raises(dps.FormulaError) as caught:
        dps.dp_ols(formula, DATA, epsilon=10, **DECLARED)
    assert len(str(caught.value)) < 200


# -- cells -----------------------------------------------------------------------------------------------------------


class Boom(BaseException):
    pass


class Bomb:
    def __float__(self):
        raise Boom("secret cell")

    __hash__ = __eq__ = __float__


@pytest.mark.parametrize("cell", [Bomb(), "abc", pd.NA, 10**400, [1]], ids=lambda cell: type(cell).__name__)
def test_a_masked_array_is_read_like_any_other(cell):
    cells = DATA["x"].astype(object)
    cells[3] = cell
    masked = np.ma.MaskedArray(cells, mask=np.arange(N) == 7)
    fit = dps.dp_ols("y ~ x", {**DATA, "x": masked}, epsilon=float("inf"), **DECLARED)
    assert fit.nobs == N - (1 if isinstance(cell, int) else 2)  # a huge number is clipped, not missing


@pytest.mark.parametrize("dtype", ["U1", object, np.float32, np.float64, np.int64, bool])
def test_a_masked_cell_is_missing_for_every_dtype(dtype):
    values = np.array([0, 1, 1], dtype=dtype)
    column = as_source({"v": np.ma.MaskedArray(values, mask=[True, False, False])}).arrays["v"]
    levels = ["0", "1"] if dtype == "U1" else [0, 1]
    assert np.array_equal(to_codes(column, levels), [-1, 1, 1])
    assert np.array_equal(to_numbers(column), [np.nan, 1, 1], equal_nan=True)


@pytest.mark.parametrize("dtype", [None, "string"])
def test_text_that_is_no_unicode_is_an_undeclared_level(dtype):
    cells = DATA["g"].copy()
    cells[3] = "\ud800"
    column = cells if dtype is None else pd.array(cells.astype(object), dtype=pd.StringDtype("python"))
    fit = dps.dp_ols("y ~ x + C(g)", {**DATA, "g": column}, epsilon=float("inf"), **DECLARED)
    assert fit.nobs == N - 1


# -- arguments -------------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame({"x": [0.123456, 0.654321], "y": [0.777, 0.888]})
SERIES = TABLE["x"]
MISTAKES = {
    "plan with the table as n": lambda: dps.plan("y ~ x", TABLE, 1, **DECLARED),
    "epsilon": lambda: dps.dp_ols("y ~ x", 5, TABLE, **DECLARED),
    "delta": lambda: dps.dp_ols("y ~ x", TABLE, 1, SERIES, **DECLARED),
    "rho": lambda: dps.dp_ols("y ~ x", TABLE, rho=SERIES, **DECLARED),
    "rng": lambda: dps.dp_ols("y ~ x", TABLE, 1, rng=TABLE, **DECLARED),
    "mechanism": lambda: dps.dp_ols("y ~ x", TABLE, 1, mechanism=TABLE, **DECLARED),
    "cov_type": lambda: dps.dp_ols("y ~ x", TABLE, 1, cov_type=TABLE, **DECLARED),
    "infeasible": lambda: dps.dp_ols("y ~ x", TABLE, 1, infeasible=TABLE, **DECLARED),
    "levels as a column": lambda: dps.dp_ols("y ~ C(x)", TABLE, 1, levels={"x": SERIES}),
    "levels as a list of cells": lambda: dps.Categorical([*SERIES, *SERIES]),
    "bounds as a column": lambda: dps.Continuous(SERIES, 5),
    "share": lambda: dps.HC1(share=SERIES),
    "noise": lambda: dps.SSP(noise=SERIES),
    "sd_x": lambda: dps.plan("y ~ x", 1_000, 1, sd_x=SERIES, **DECLARED),
    "rsquared": lambda: dps.plan("y ~ x", 1_000, 1, rsquared=SERIES, **DECLARED),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_table_in_the_wrong_place_does_not_show_up_in_the_message(mistake):
    with pytest.raises(dps.DPStatsError) as caught:
        MISTAKES[mistake]()
    assert not any(cell in str(caught.value) for cell in ("0.12", "0.65", "0.77", "0.88"))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("test", ["t_test", "wald_test", "f_test"])
@pytest.mark.parametrize("table", [TABLE, TABLE.astype(str).add("secret"), ([[0, 1]], ["secret"])], ids=["n", "s", "p"])
def test_a_table_in_place_of_a_hypothesis_does_not_show_up(test, table):
    fit = dps.dp_ols("y ~ x + C(g)", DATA, epsilon=10, **DECLARED)
    with pytest.raises(dps.OptionError) as caught:
        getattr(fit, test)(table)
    assert "secret" not in str(caught.value)
    assert "0.12" not in str(caught.value)


@pytest.mark.parametrize(
    "guess",
    [{"sd_x": 3}, {"sd_y": 12}, {"sd_y": 0}, {"rsquared": 2}, {"rsquared": 1}, {"sd_x": {"typo": 0.2}}],
    ids=str,
)
def test_impossible_guesses_are_refused(guess):
    with pytest.raises(dps.OptionError):
        dps.plan("y ~ x", 1_000, 1, **guess, **DECLARED)


# -- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        {"values": [1.0]},
        {"values": "abc"},
        {"variances": None},
        {"noise": "foo"},
        {"schema": {"x": {}}},
        {"schema": 3},
        {"privacy": {"budget": {"epsilon": 1, "extra": 2}}},
        {"formula": 7},
    ],
    ids=str,
)
def test_a_damaged_release_is_refused_as_such(tmp_path, damage):
    path = tmp_path / "release.json"
    dps.dp_moments("y ~ x", DATA, epsilon=10, **DECLARED).save(path)
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, **damage}))
    with pytest.raises(dps.DataError, match="damaged"):
        dps.load_release(path)


@pytest.mark.parametrize(("key", "value"), [("values", float("nan")), ("variances", -1.0), ("variances", float("inf"))])
def test_impossible_numbers_in_a_release_are_refused(tmp_path, key, value):
    path = tmp_path / "release.json"
    dps.dp_moments("y ~ x", DATA, epsilon=10, **DECLARED).save(path)
    content = json.loads(path.read_text())
    content[key][0] = value
    path.write_text(json.dumps(content))
    with pytest.raises(dps.DataError, match="damaged"):
        dps.load_release(path)


def test_names_cannot_run_latex():
    name = r"\input{/etc/passwd}"
    fit = dps.dp_ols(f"y ~ `{name}`", {"y": DATA["y"], name: DATA["x"]}, epsilon=10, bounds={"y": (0, 1), name: (0, 1)})
    assert "\\input" not in fit.summary().as_latex()
    assert name in str(fit.summary())


def test_cells_with_commas_are_quoted_in_csv():
    import csv
    import io

    fit = dps.dp_ols("y ~ x", DATA, epsilon=10, delta=1e-6, **DECLARED)
    rows = list(csv.reader(io.StringIO(fit.summary().as_csv()), skipinitialspace=True))
    values = {row[0].strip(): row[1].strip() for row in rows if len(row) == 4}
    assert values["Mechanism:"] in {"ssp, Laplace", "ssp, Gaussian"}
