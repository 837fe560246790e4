"""Formulas: what is refused before anything is evaluated, how terms are read and ordered, and what messages say."""

from __future__ import annotations

import builtins
import math
import warnings

import numpy as np
import pandas as pd
import pytest

import dpstats as dps

BOUNDS = {name: (0, 1) for name in ("y", "x", "z", "w", "a.b", "a b")}
LEVELS = {"g": ["a", "b", "c"], "h": ["p", "q"]}
REFUSED = (dps.FormulaError, dps.SchemaError)
SECRET = 2.0


def table(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.random(n) for name in BOUNDS})
    return frame.assign(g=rng.choice(LEVELS["g"], n), h=rng.choice(LEVELS["h"], n), u=rng.random(n))


def fit(formula: str, data: pd.DataFrame | None = None, **options):
    options = {"epsilon": math.inf, "bounds": BOUNDS, "levels": LEVELS, **options}
    return dps.dp_ols(formula, table() if data is None else data, **options)


def names(formula: str, **options) -> list[str]:
    return list(fit(formula, **options).params.index)


def refusal(formula: str, data: pd.DataFrame | None = None, **options) -> str:
    with pytest.raises(dps.DPStatsError) as caught:
        fit(formula, data, **options)
    return str(caught.value)


@pytest.fixture
def evaluations(monkeypatch):
    """Return a list that fills up if formulaic evaluates Python text, or if the canary is touched."""
    touched: list[str] = []

    class Canary:
        def __call__(self, *args, **options):
            touched.append("called")

        def __getattr__(self, name):
            touched.append(name)
            return self

    def record(code, *args):
        touched.append("evaluated")
        raise pytest.fail.Exception("text was evaluated")

    monkeypatch.setattr(builtins, "canary", Canary(), raising=False)
    for module in ("stateful_transforms", "variables"):  # where formulaic evaluates text
        monkeypatch.setattr(f"formulaic.utils.{module}.eval", record, raising=False)
    return touched


# -- the allow-list ------------------------------------------------------------------------------------------------

HOSTILE = {
    "attributes": ["x.values", "I(x.values)", "I(x.T)", "np.log(x.values + 1)", "x.y.z"],
    "dunder access": [
        "I(x.__class__)",
        "I(x.__class__.__base__.__subclasses__())",
        "I(np.__builtins__)",
        "__builtins__",
    ],
    "imports": ["__import__('os')", "I(__import__('os').system('true'))", "{__import__('os')}"],
    "files": [
        "open('canary.txt', 'w')",
        "I(open('canary.txt', 'w'))",
        "np.load('canary.txt')",
        "np.save('canary.txt', x)",
    ],
    "builtins": ["eval('x')", "exec('x')", "getattr(x, 'mean')()", "print(x)", "globals()", "vars()", "type(x)"],
    "the canary": [
        "canary",
        "canary()",
        "canary(x)",
        "I(canary.touch)",
        "I(x + canary)",
        "np.canary(x)",
        "canary.log(x)",
    ],
    "lambdas": ["I((lambda: x)())", "I((lambda v: v)(x))"],
    "subscripts": ["x[0]", "I(x[0])", "I(x[::2])", "I(np.log(x)[1])"],
    "comprehensions": ["I([v for v in x])", "I({v for v in x})", "I({v: v for v in x})", "I(sum(v for v in x))"],
    "f-strings": ["I(f'{x}')", "I(f'{canary()}')", "Q(f'{canary()}')"],
    "walrus": ["I((w := x))", "I((x := z) + x)"],
    "starred arguments": [
        "np.log(*x)",
        "np.log(*[x])",
        "np.log(**x)",
        "I(*[x])",
        "C(*[g])",
        "C(g, *[1])",
        "C(g, **{})",
    ],
    "output arguments by name": ["np.log(x + 1, out=x)", "np.clip(x, 0, 1, out=x)", "np.log(x + 1, where=x > 0)"],
    "random numbers": ["np.random.normal(size=60)", "I(x + np.random.rand())", "np.random.permutation(x)"],
    "statistics of a column": ["x.mean()", "I(x - x.mean())", "np.mean(x)", "I(x - np.mean(x))", "I(x / np.max(x))"],
    "rows that see other rows": [
        "rank(x)",
        "x.rank()",
        "lag(x)",
        "lag(x, 1)",
        "np.sort(x)",
        "np.cumsum(x)",
        "np.roll(x, 1)",
    ],
    "reductions": ["np.add.reduce(x)", "np.maximum.accumulate(x)", "np.linalg.norm(x)", "np.dot(x, z)", "I(x @ z)"],
    "contrast tricks": [
        "C(g, contr.__class__)",
        "C(g, contr.treatment.__globals__)",
        "C(g, contr.treatment(base=open('canary.txt', 'w')))",
        "C(g, Treatment(reference=canary()))",
        "C(g, canary)",
        "C(g, np.eye(3))",
        "C(g, contr.nosuch)",
        "C(g, Sum)(x)",
    ],
    "quotes around expressions": [
        "Q(x)",
        "Q('x' + 'z')",
        "Q('x'.upper())",
        "Q(canary())",
        "Q('x', 'z')",
        "Q(name='x')",
    ],
    "names in backticks": ["`x.mean()`", "`__import__('os')`", "I(`canary()` + 1)", "I(`x)` + (z`))"],
    "spline options": [
        "bs(x, df=canary())",
        "bs(x, knots=x)",
        "bs(x, knots=[canary()])",
        "bs(x.values, df=4)",
        "bs(x, df=4, _state={})",
        "bs(x, df=4, extrapolation='zero')",
        "cr(x, df=4, constraints='center')",
        "poly(x, degree=canary())",
    ],
    "options of stateful transforms": ["scale(x, center=x)", "scale(x, ddof=canary())", "center(x, np.mean(x))"],
    "other Python": [
        "I(x if canary() else z)",
        "I(x and canary())",
        "I(not x)",
        "I(x is z)",
        "I(x in z)",
        "I(0 < x < 1)",
        "I(x << 3)",
        "I(await_ + x)",
        "I(...)",
        "I(None)",
        "I('x')",
        "I(b'x')",
        "I(1j * x)",
    ],
    "huge powers": [
        "I(x**99999)",
        "I(x**1e300)",
        "I(x**(2**99))",
        "I(9**9**9 * x)",
        "I(x * 9**99999999)",
        "I(10**400 * x)",
        "np.power(x, 10**9)",
    ],
    "unicode look-alikes": ["\uff58", "\ufb01", "x\u200b", "\u0445", "I(\u0445 + 1)", "np\uff0elog(x)"],
}


@pytest.mark.parametrize("term", [term for terms in HOSTILE.values() for term in terms])
def test_a_hostile_term_is_refused_before_anything_is_evaluated(term, evaluations, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(REFUSED):
        fit(f"y ~ {term}")
    assert evaluations == []
    assert list(tmp_path.iterdir()) == []


RESPONSES = [
    "x.mean()",
    "np.random.rand()",
    "I(canary())",
    "Q(canary())",
    "{Q(canary())}",
    "poly(canary())",
    "I(y + (canary.touch)('x'))",
]


@pytest.mark.parametrize("response", RESPONSES)
@pytest.mark.parametrize("right", ["x", "."])
def test_a_hostile_response_is_refused_before_anything_is_evaluated(response, right, evaluations):
    with pytest.raises(REFUSED):
        fit(f"{response} ~ {right}")
    assert evaluations == []


@pytest.mark.parametrize(
    "formula",
    [
        "Q(open('canary.txt', 'w')) ~ x",
        "poly(open('canary.txt', 'w').write('x')) ~ x",
        "I(y + (open('canary.txt', 'w').write)('x')) ~ .",
        "{Q(open('canary.txt', 'w'))} ~ x",
        "y ~ Q(open('canary.txt', 'w'))",
        "y ~ I((open('canary.txt', 'w').write)('x'))",
        "y ~ . + poly(open('canary.txt', 'w'))",
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_formula_opens_a_file(formula, tmp_path, monkeypatch):
    """Parsing is enough to run code in formulaic: it looks up the functions of the left side by evaluating them."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(REFUSED):
        fit(formula)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "term", ["np.sqrt(x, z)", "np.log(x + 1, z)", "np.maximum(x, z, w)", "np.clip(x, 0, 1, z)", "np.exp(x, x)"]
)
def test_a_positional_output_argument_is_refused_like_a_named_one(term, evaluations):
    """The argument after a ufunc's inputs is ``out=``: an array to write into."""
    with pytest.raises(REFUSED):
        fit(f"y ~ {term}")
    assert evaluations == []


@pytest.mark.parametrize("term", ["np.maximum(x)", "np.where(x > 0.5)", "np.where(x > 0.5, x)", "np.clip(x)"])
def test_a_row_wise_function_with_too_few_arguments_is_refused(term, evaluations):
    """``np.where(condition)`` alone returns positions of rows."""
    with pytest.raises(REFUSED):
        fit(f"y ~ {term}")
    assert evaluations == []


@pytest.mark.parametrize("term", ["center(x, _state={'a': 1})", "scale(x, nosuch=1)", "standardize(x, 1, 2, 3, 4)"])
def test_unknown_options_of_a_stateful_transform_are_refused(term, evaluations):
    with pytest.raises(REFUSED):
        fit(f"y ~ {term}")
    assert evaluations == []


@pytest.mark.parametrize("term", ["bs(x, df=1000000)", "bs(x, degree=1000)", "poly(x, 1000000)", "cr(x, df=1000000)"])
def test_a_basis_too_large_to_build_is_refused_instead_of_filling_the_memory(term, evaluations):
    with pytest.raises(dps.DPStatsError):
        fit(f"y ~ 0 + {term}")
    assert evaluations == []


@pytest.mark.parametrize(
    "term",
    [
        "I(" + "(" * 250 + "x" + ")" * 250 + ")",
        "I(" + "-" * 3000 + "x)",
        "I(" + "-" * 100_000 + "x)",
        "I(" + "+".join(["x"] * 5000) + ")",
        "np.abs(" * 1000 + "x" + ")" * 1000,
        "+".join(["x"] * 5000),
    ],
    ids=["brackets", "signs", "many signs", "sums", "calls", "terms"],
)
def test_very_deep_nesting_is_refused_with_a_formula_error(term):
    with pytest.raises(dps.FormulaError):
        fit(f"y ~ {term}")


@pytest.mark.parametrize("term", ["I(1e400 * x)", "I(x / 0)", "I(x + 1e400)", "poly(x, 0)"])
def test_impossible_numbers_are_refused_with_an_error_of_dpstats(term):
    assert refusal(f"y ~ {term}")


ALLOWED = [
    "np.log1p(x)",
    "np.where(x > 0.5, x, z)",
    "np.maximum(x, z)",
    "np.clip(x, 0.2, 0.8)",
    "np.sin(2 * np.pi * x)",
    "I((x > 0.3) & ~(z < 0.5))",
    "I(x > z)",
    "I(g == 'a')",
    "I(x % 0.5)",
    "exp(x)",
    "C(g, levels=['a', 'b', 'c'])",
    "C(g, contr.treatment(base='b'))",
    "bs(x, df=4)",
    "poly(x, 2)",
    "{x * z}",
    "scale(x, center=0.5, scale=2)",
]


@pytest.mark.parametrize("term", ALLOWED)
def test_row_wise_terms_are_allowed(term):
    assert np.isfinite(fit(f"y ~ {term}").params).all()


def test_the_evaluation_watch_notices_an_evaluation(evaluations):
    with pytest.raises(pytest.fail.Exception):
        fit("y ~ np.log1p(x + 0.125)")  # a formula that is not remembered
    assert evaluations == ["evaluated"]


def test_the_callers_variables_are_not_visible():
    local_secret = SECRET
    for term in ("I(x * local_secret)", "x + local_secret", "SECRET", "I(x + SECRET)", "table"):
        with pytest.raises(REFUSED):
            fit(f"y ~ {term}")
    assert local_secret == SECRET


def test_the_callers_functions_do_not_replace_those_of_formulas():
    called = []

    def log(v):
        called.append(v)
        return v

    I = center = C = log  # noqa: E741
    fitted = fit("y ~ log(x + 1) + center(z) + I(w**2) + C(g)")
    np.testing.assert_allclose(fitted.params, fit("y ~ np.log(x + 1) + center(z) + I(w**2) + C(g)").params)
    assert [I, center, C] == [log] * 3
    assert called == []


def test_a_refused_formula_leaves_the_table_as_it_was():
    data, untouched = table(), table()
    for term in ("np.log(x + 1, out=x)", "I((x := z))", "x.sort_values(inplace=True)"):
        with pytest.raises(REFUSED):
            fit(f"y ~ {term}", data)
    pd.testing.assert_frame_equal(data, untouched)


# -- grammar -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", ["y + z ~ x", "y*z ~ x", "y:z ~ x", "1 ~ x"])
def test_two_responses_are_refused_with_what_to_write(formula):
    message = refusal(formula)
    assert formula in message
    assert "one response" in message
    assert "I(...)" in message


@pytest.mark.parametrize("formula", ["~ x", "x", "", "  ", "x + z"])
def test_a_formula_without_response_is_refused_with_what_to_write(formula):
    assert "no response; write 'y ~ x'" in refusal(formula)


@pytest.mark.parametrize(
    "formula", ["y ~ y", "y ~ x + y", "y ~ x + I(y**2)", "np.log1p(y) ~ y", "y ~ x:y", "y ~ bs(y, df=4)"]
)
def test_the_response_on_the_right_is_refused_by_name(formula):
    assert "the response's column 'y' also stands on the right" in refusal(formula)


@pytest.mark.parametrize("formula", ["y ~ x | z", "y | z ~ x", "y ~ x | g"])
def test_a_bar_is_refused(formula):
    assert "`|`" in refusal(formula)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x +",
        "y ~ (x",
        "y ~ x))",
        "y ~ x $ z",
        "y ~ x; z",
        "y ~ x z",
        "y ~ x ~ z",
        "y = x",
        "y ~ x, z",
        "y ~ x[",
        "y ~ `x",
    ],
)
def test_what_cannot_be_parsed_is_refused_and_quoted(formula):
    assert f"cannot parse {formula!r}" in refusal(formula)


@pytest.mark.parametrize("formula", [None, 5, b"y ~ x", ["y ~ x"]])
def test_a_formula_that_is_no_text_is_refused(formula):
    assert "formula must be a string such as 'y ~ x'" in refusal(formula)


def test_no_terms_are_refused_and_an_intercept_alone_is_the_mean():
    assert "no terms" in refusal("y ~ 0")
    data = table()
    assert fit("y ~ 1", data).params["Intercept"] == pytest.approx(data.y.mean(), abs=1e-5)


@pytest.mark.parametrize(
    ("formula", "shown", "cure"),
    [
        ("y ~ x + x**2", "x**2 is the same as x", "write I(x**2)"),
        ("y ~ x^2", "x^2 is the same as x", "write I(x**2)"),
        ("y ~ x*x", "x*x is the same as x", "write I(x**2)"),
        ("y ~ x:x", "x:x is the same as x", "write I(x**2)"),
        ("y ~ x**3", "x**3 is the same as x", "write I(x**3)"),
        ("y ~ x + (x)**2", "x**2 is the same as x", "write I(x**2)"),
        ("y ~ x + I(x^2)", "'^' is not a power", "write I(x**2)"),
        ("y ~ np.log(x^2 + 1)", "'^' is not a power", "write np.log(x**2 + 1)"),
    ],
)
def test_a_power_that_would_vanish_is_refused_with_the_line_to_write(formula, shown, cure):
    message = refusal(formula)
    assert shown in message
    assert cure in message


@pytest.mark.parametrize("formula", ["y ~ (x + z)**w", "y ~ (x + z)**1.5", "y ~ x**z"])
def test_a_power_of_terms_needs_a_whole_number(formula):
    assert "whole number" in refusal(formula)


def test_a_dot_is_every_declared_column_but_the_response_in_table_order():
    order = ["z", "u", "g", "y", "x"]
    assert names("y ~ .", data=table()[order]) == ["Intercept", "g[T.b]", "g[T.c]", "z", "x"]
    assert names("y ~ .", data=table()[order[::-1]]) == ["Intercept", "g[T.b]", "g[T.c]", "x", "z"]
    assert names("y ~ . - z", data=table()[order]) == ["Intercept", "g[T.b]", "g[T.c]", "x"]


def test_a_dot_without_the_response_beside_it_is_the_list_written_out():
    data = table()[["x", "y", "z", "g"]]
    np.testing.assert_array_equal(fit("y ~ .", data).params, fit("y ~ x + z + g", data).params)


def test_line_breaks_and_spaces_mean_nothing():
    assert names("y~x+z") == names("y  ~\n x\n + z") == ["Intercept", "x", "z"]


# -- names ---------------------------------------------------------------------------------------------------------


def keyword_table() -> tuple[pd.DataFrame, dict]:
    data = table().rename(columns={"x": "class", "z": "lambda"})
    return data, {"bounds": {"y": (0, 1), "class": (0, 1), "lambda": (0, 1)}, "levels": LEVELS}


def test_columns_named_like_keywords_are_read_bare_and_quoted():
    data, schema = keyword_table()
    bare = fit("y ~ class + lambda", data, **schema)
    quoted = fit("y ~ Q('class') + Q('lambda')", data, **schema)
    assert list(bare.params.index) == ["Intercept", "class", "lambda"]
    np.testing.assert_array_equal(bare.params, quoted.params)


@pytest.mark.parametrize("term", ["np.log1p(class)", "I(class**2)", "C(class)"])
def test_a_keyword_inside_an_expression_is_refused_with_how_to_quote_it(term):
    data, schema = keyword_table()
    message = refusal(f"y ~ {term}", data, **schema)
    assert "keyword" in message
    assert "Q('class')" in message


def test_columns_with_dots_and_spaces_are_read_bare_in_backticks_and_quoted():
    params = fit("y ~ Q('a.b') + Q('a b')").params
    assert list(params.index) == ["Intercept", "Q('a.b')", "Q('a b')"]
    np.testing.assert_array_equal(params, fit("y ~ a.b + `a b`").params)
    np.testing.assert_array_equal(params, fit('y ~ `a.b` + Q("a b")').params)


@pytest.mark.parametrize(
    "term", ["np.log1p({})", "I({}**2)", "I({}*x)", "np.maximum({}, x)", "bs({}, df=4)", "poly({}, 2)"]
)
def test_quoted_columns_work_inside_functions(term):
    renamed = table().rename(columns={"w": "c"})
    plain = fit(f"y ~ {term.format('c')}", renamed, bounds={**BOUNDS, "c": (0, 1)}).params
    spaced = table().drop(columns="a b").rename(columns={"w": "a b"})
    np.testing.assert_allclose(fit("y ~ " + term.format("Q('a b')"), spaced).params, plain)
    np.testing.assert_allclose(fit("y ~ " + term.format("`a b`"), spaced).params, plain)


@pytest.mark.parametrize(
    "name", ["mother's age", 'say "x"', "a\\b", "a\nb", "a~b", "x[1]", "x:z", "1", "2x", " x", "np.log"]
)
def test_any_column_name_can_be_quoted(name):
    data = pd.DataFrame({name: np.linspace(0, 1, 50), "y": np.linspace(0, 1, 50)})
    params = fit(f"y ~ Q({name!r})", data, bounds={name: (0, 1), "y": (0, 1)}).params
    assert params.iloc[1] == pytest.approx(1, abs=1e-5)


def test_a_digit_in_backticks_is_not_read_as_the_intercept():
    data = pd.DataFrame({"1": np.linspace(0, 1, 50), "y": np.linspace(0, 1, 50)})
    assert "rename it" in refusal("y ~ `1`", data, bounds={"1": (0, 1), "y": (0, 1)})
    assert fit("y ~ Q('1')", data, bounds={"1": (0, 1), "y": (0, 1)}).params.iloc[-1] == pytest.approx(1, abs=1e-5)


def test_names_that_python_would_normalise_never_read_another_column():
    """U+00B5, the micro sign, becomes U+03BC, the letter mu, in Python source."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"\u00b5g": rng.random(50), "\u03bcg": rng.random(50)})
    data["y"] = data["\u00b5g"]
    bounds = dict.fromkeys(data.columns, (0, 1))
    assert fit("y ~ \u00b5g", data, bounds=bounds).params.iloc[1] == pytest.approx(1, abs=1e-5)
    try:
        slope = fit("y ~ I(1 * \u00b5g)", data, bounds=bounds).params.iloc[1]
    except dps.FormulaError:
        return
    assert slope == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("np", "y ~ np + np.log1p(x)"),
        ("log", "y ~ log + log(x + 1)"),
        ("I", "y ~ I + I(x**2)"),
        ("C", "y ~ C + C(g)"),
        ("Q", "y ~ Q + Q('x')"),
        ("bs", "y ~ bs + bs(x, df=4)"),
    ],
)
def test_a_column_named_like_a_function_works_or_is_refused_by_name(name, formula):
    data = table().rename(columns={"w": name})
    bounds = {**BOUNDS, name: (0, 1)}
    try:
        assert name in fit(formula, data, bounds=bounds).params.index
    except dps.DPStatsError as error:
        assert f"column {name!r}" in str(error)  # noqa: PT017 - either outcome is right


def test_a_column_named_intercept_is_refused_beside_the_intercept_only():
    data = table().rename(columns={"x": "Intercept"})
    bounds = {**BOUNDS, "Intercept": (0, 1)}
    message = refusal("y ~ Intercept + z", data, bounds=bounds)
    assert "two columns" in message
    assert "'Intercept'" in message
    assert names("y ~ 0 + Intercept + z", data=data, bounds=bounds) == ["Intercept", "z"]


# -- polynomials ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I(x*x)", "I(x**2)"),
        ("I(x * z)", "x:z"),
        ("np.square(x)", "I(x**2)"),
        ("np.power(x, 2)", "I(x**2)"),
        ("I((x + 1)**2 - 2*x - 1)", "I(x**2)"),
        ("I(-(-x))", "x"),
        ("I(x / 1)", "x"),
        ("{x}", "x"),
        ("x:I(x)", "I(x**2)"),
        ("I(x*z):w", "x:z:w"),
        ("I((x - z) * (x + z))", "I(x**2 - z**2)"),
    ],
)
def test_equal_polynomials_are_one_statistic_and_give_one_answer(one, other):
    """Equal up to the bounds of the term, which lone products get from a grid."""
    first, second = fit(f"y ~ {one}"), fit(f"y ~ {other}")
    np.testing.assert_allclose(first.params, second.params, rtol=1e-5)
    np.testing.assert_allclose(first.bse, second.bse, rtol=1e-5)


@pytest.mark.parametrize(
    "pair", ["I(x*x) + I(x**2)", "x + I(2*x)", "x + I(x)", "x:z + I(x*z)", "x + z + I(x + z)", "C(g) + g"]
)
def test_terms_that_are_dependent_whatever_the_data_are_refused_by_name(pair):
    message = refusal(f"y ~ {pair}").replace(" ", "")
    assert "linearlydependent" in message
    for term in pair.split(" + ")[:2]:
        assert term.replace(" ", "") in message


@pytest.mark.parametrize("term", ["I(x - x)", "I(x * 0)", "I(x - x + 1)", "I(x > 2)", "I(1)", "I(True)"])
def test_a_term_that_is_constant_on_the_declared_range_is_refused_as_such(term):
    assert "constant on the declared range" in refusal(f"y ~ {term}")


def test_powers_of_calendar_years_keep_their_digits():
    """(year - 1997)**3 expanded in raw years cancels from 1e10 to 1e3."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"year": rng.integers(1972, 2023, 300)})
    data["y"] = ((data.year - 1997.0) / 25) ** 3
    bounds = {"year": (1972, 2022), "y": (-2, 2)}
    params = fit("y ~ year + I(year**2) + I((year - 1997)**3)", data, bounds=bounds).params
    assert params.iloc[-1] * 25**3 == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("bounds", [(1972, 2022), (2020, 2022), (2_459_000, 2_460_000), (1.69e9, 1.7e9)])
def test_a_cubic_far_from_zero_is_a_cubic_and_not_linearly_dependent(bounds):
    """Years, Julian days, seconds: dependent to many digits in raw columns, independent after coding."""
    u = np.linspace(0, 1, 300)
    data = pd.DataFrame({"t": bounds[0] + (bounds[1] - bounds[0]) * u, "y": (2 * u - 1) ** 3})
    fitted = fit("y ~ t + I(t**2) + I(t**3)", data, bounds={"t": bounds, "y": (-1, 1)})
    assert fitted.rsquared == pytest.approx(1, abs=1e-6)


# -- order ---------------------------------------------------------------------------------------------------------

ORDER = {
    "z + g + x": ["Intercept", "g[T.b]", "g[T.c]", "z", "x"],
    "x:z + x + z": ["Intercept", "x:z", "x", "z"],
    "x + x:g + z + z:g": ["Intercept", "x", "x:g[T.b]", "x:g[T.c]", "z", "z:g[T.b]", "z:g[T.c]"],
    "x:g + g": ["Intercept", "g[T.b]", "g[T.c]", "x:g[a]", "x:g[b]", "x:g[c]"],
    "g:h + h": ["Intercept", "h[T.q]", "g[T.b]:h[p]", "g[T.c]:h[p]", "g[T.b]:h[q]", "g[T.c]:h[q]"],
    "0 + h + x": ["h[p]", "h[q]", "x"],
    "0 + h + g": ["h[p]", "h[q]", "g[T.b]", "g[T.c]"],
    "(x + z + w)**2": ["Intercept", "x", "z", "w", "x:z", "x:w", "z:w"],
    "(x + h)*z": ["Intercept", "h[T.q]", "x", "z", "h[T.q]:z", "x:z"],
    "h/x": ["Intercept", "h[T.q]", "h[p]:x", "h[q]:x"],
    "g*x - g": ["Intercept", "x", "g[T.b]:x", "g[T.c]:x"],
    "I(x**2) + x": ["Intercept", "I(x ** 2)", "x"],
    "x - 1 + h": ["h[p]", "h[q]", "x"],
}


@pytest.mark.parametrize("right", ORDER)
def test_terms_stand_in_the_order_of_statsmodels(right):
    """Terms of factors only come first; then one group per set of numeric factors, as they appear; by degree within."""
    assert names(f"y ~ {right}") == ORDER[right]


@pytest.mark.parametrize("right", ORDER)
def test_the_listed_order_is_that_of_statsmodels(right):
    import patsy

    assert patsy.dmatrix(right, table()).design_info.column_names == ORDER[right]


# -- messages ------------------------------------------------------------------------------------------------------

MESSAGES = {
    "y ~ nosuch": ["'nosuch' is not a column of data", "'x'"],
    "nosuch ~ x": ["'nosuch' is not a column of data"],
    "y ~ np.log1p(nosuch)": ["'nosuch' is not a", "column"],
    "y ~ np.log1p(u)": ["needs a declared range of 'u'", "bounds={'u': (lowest, highest)}"],
    "y ~ C(x)": ["C(x)", "column 'x' has declared bounds but no levels", "levels={'x': [...]}"],
    "y ~ I(g + 1)": ["column 'g' has declared levels", "C(g)"],
    "y ~ np.log(x)": ["np.log(x) is unbounded", "x: (0, 1)", "lower bound > 0"],
    "y ~ I(1 / x)": ["1 / x is unbounded", "x: (0, 1)"],
    "y ~ x.mean()": ["x.mean", "row-wise", "I(x - 50)"],
    "y ~ center(x, foo())": ["foo()", "constant"],
    "y ~ I(x and z)": ["'&'", "brackets"],
    "y ~ I(0 < x < 1)": ["(a < x) & (x < b)"],
    "y ~ I(g == 'nosuch')": ["'g'", "['a', 'b', 'c']"],
    "y ~ C(x > 0.5)": ["C(...)", "declared column"],
    "y ~ np.log1p(a.b)": ["Q('a.b')"],
    "y ~ offset(x)": ["offset"],
    "g ~ x": ["dp_ols needs a numeric outcome", "'g' is text"],
    "C(g) ~ x": ["dp_ols needs a numeric outcome", "'C(g)'"],
    "bs(y, df=4) ~ x": ["one outcome", "bs(y, df=4)"],
}


@pytest.mark.parametrize("formula", MESSAGES)
def test_a_message_names_the_column_and_what_to_write(formula):
    message = refusal(formula)
    for part in MESSAGES[formula]:
        assert part in message


@pytest.mark.parametrize(
    "formula",
    [*MESSAGES, "y ~ (x", "y ~ x +", "y ~ 'x'", "y ~ x | z", "y ~ 2", "y ~ C(g, Treatment('nosuch'))", "y ~ C(g, 'a')"],
)
def test_a_message_is_one_line_without_terminal_escapes(formula):
    message = refusal(formula)
    assert message
    assert "\x1b" not in message
    assert "\n" not in message


@pytest.mark.parametrize("formula", ["y ~ C(g, levels=['a', 'b'])", "y ~ C(g, levels=['a', 'b', 'd'])"])
def test_levels_in_the_formula_that_differ_from_the_declared_ones_are_an_error_and_no_warning(formula):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        message = refusal(formula)
    assert "levels" in message
    assert seen == []


def test_all_columns_without_a_declaration_are_named_at_once():
    data = {name: np.zeros(9) for name in ("y", "x", "z one", "u")} | {"g": np.array(["a"] * 9, dtype=object)}
    data["g"] = pd.array(["a"] * 9, dtype="str")
    with pytest.raises(dps.SchemaError) as caught:
        dps.dp_ols("np.log(y) ~ x + `z one` * C(g) + u", data, epsilon=1, bounds={"u": (0, 1)})
    message = str(caught.value)
    assert "columns 'y', 'x', 'z one', 'g' have no declaration" in message
    assert "bounds={'y': (lowest, highest), 'x': (lowest, highest), 'z one': (lowest, highest)}" in message
    assert "levels={'g': ['...', '...']}" in message


@pytest.mark.parametrize("n_numbers", range(8))
@pytest.mark.parametrize(("first", "second"), [(10, 12), (6, 7), (2, 3)])
def test_interactions_of_factors_are_not_taken_for_dependent_wherever_they_stand(n_numbers, first, second):
    from dpstats.specification.coding import code_design
    from dpstats.specification.design import build_design
    from dpstats.specification.schema import Categorical, Continuous, Schema
    from dpstats.specification.view import facts_of, full_view

    columns = {f"x{j}": Continuous(0, 1) for j in range(n_numbers)}
    columns |= {"g": Categorical([f"g{i}" for i in range(first)]), "h": Categorical([f"h{i}" for i in range(second)])}
    schema = Schema({**columns, "y": Continuous(0, 1)})
    formula = "y ~ " + " + ".join([*(f"x{j}" for j in range(n_numbers)), "C(g) * C(h)"])
    view = full_view(code_design(build_design(formula, schema, facts_of(schema.columns)), "laplace"))
    assert len(view.contrast) == n_numbers + first * second
