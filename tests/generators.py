"""Random calls on pairs of neighbouring tables, and what must be alike of how they end.

Shared by ``test_fuzz.py`` and ``benchmarks/fuzz.py``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import pickle
import random
import re
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hostile import SENTINEL, SENTINEL_TEXT, Boom, column_pair, container_for, objects

import dpstats as dps
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.privacy.unit import protection_of
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.specification import rowmap
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.rules import row_rules
from dpstats.specification.schema import Schema, TableFacts, check_table

PLANTED_DIGITS = {form for n in range(6, 10) for form in (f"{SENTINEL:.{n}f}"[2:], f"{SENTINEL:.13f}"[2 : n + 2])}
TEN_DIGITS = f"{SENTINEL:.13f}"[2:12]
NUMBER = re.compile(r"(?<!\d)0*([1-9]\d{5,})")

PACKAGE = Path(dps.__file__).parent
ROLES = {"y": "numbers", "x": "numbers", "z": "numbers", "w": "numbers", "b": "numbers", "g": "levels", "h": "levels"}
DECLARATIONS = {
    "y": [dps.Continuous(-1, 1), dps.Continuous(0, 1), dps.Continuous(-1e6, 1e6), dps.Continuous(0, 1e-6)],
    "x": [dps.Continuous(-1, 1), dps.Continuous(0, 1), dps.Continuous(1e9, 2e9), dps.Continuous(0, 1e100)],
    "z": [dps.Continuous(-1, 1), dps.Continuous(-5, 1e4)],
    "w": [dps.Continuous(0, 1), dps.Continuous(0, 1e6)],
    "b": [dps.Binary((0, 1)), dps.Categorical([0, 1]), dps.Categorical(["0", "1"])],
    "g": [dps.Categorical(["a", "b", "c"]), dps.Categorical(["a", "b"]), dps.Categorical([0, 1, 2.5])],
    "h": [dps.Categorical(["a", ""]), dps.Categorical(["a", 1, True - 1])],
}
USUAL_LAST = {name: [*ways[1:], ways[0]] for name, ways in DECLARATIONS.items()}
RESPONSES = ["y", "y", "y", "I(y**2)", "np.exp(y)", "b", "C(b)", "I(y > 0)", "np.log1p(y)", "g"]
TERMS = [
    *("x", "z", "C(g)", "g", "b", "C(h)", "x:z", "x*z", "x:C(g)", "C(g):C(h)", "I(x**2)", "I(x > 0)", "I(g == 'a')"),
    *("np.exp(x)", "np.sin(z)", "np.log1p(x)", "np.sqrt(x)", "bs(x, df=4)", "poly(z, 2)", "cr(x, df=3)", "center(x)"),
    *("scale(z)", "C(g, Sum)", "C(g, Treatment('b'))", "np.where(x > 0, x, z)", "np.clip(x, 0, 1)", "I(x / (z + 7))"),
    *("0", "-1", "I(1 / x)", "x.mean()", "nobody", "I(x % 2)", "np.arctan2(x, z)", "np.hypot(x, z)", "I(x // 1)"),
]
BUDGETS = [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.5}, {"epsilon": 1e-9}, {"epsilon": 1e9}]
LEAST_SQUARES = ["ssp"] * 5 + ["huber", "huber", "functional", "diff-lr", "adassp"]
CLASSIFIERS = ["objective", "functional", "wkl-objective", "wkl-output"]


@dataclass(frozen=True)
class Call:
    """One call on two tables (both of the fuzzer; a table is a dict or a frame); `wide` is for `wide_from`."""

    name: str
    formula: str
    options: dict[str, Any]
    tables: tuple[Any, Any]
    wide: int = 16

    def run(self, table: Any) -> Any:
        """Call it with simulated noise of a fixed seed."""
        rng = np.random.default_rng(7)
        if self.name in ("private_bounds", "private_levels"):
            return getattr(dps, self.name)(
                table, ["x"] if self.name == "private_bounds" else ["g"], **self.options, rng=rng
            )
        with wide_from(self.wide):
            return getattr(dps, self.name)(self.formula, table, **self.options, rng=rng)


@contextlib.contextmanager
def wide_from(cells: int) -> Iterator[None]:
    """Have blocks of at least so many cells counted cell by cell: the sums are the same for any number."""
    usual, rowmap.WIDE = rowmap.WIDE, cells
    try:
        yield
    finally:
        rowmap.WIDE = usual


def random_tables(chance: random.Random, names: list[str], *, added: bool) -> tuple[Any, Any]:
    """Return two neighbouring tables of few rows, as dicts or as frames."""
    n_rows = chance.randint(1, 9)
    place = chance.randrange(n_rows)
    one, other = {}, {}
    for name in names:
        kind = container_for(chance, ROLES.get(name, "numbers"))
        one[name], other[name] = column_pair(chance, kind, n_rows, place, added=added)
    if chance.random() < 0.5:
        with contextlib.suppress(Exception, Boom), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _frame(one), _frame(other)
    return one, other


def _frame(columns: dict[str, Any]) -> pd.DataFrame:
    """Build a frame whose dtypes do not depend on the cells."""
    typed = {}
    for name, column in columns.items():
        if isinstance(column, list | tuple):
            column = objects(column)
        is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
        typed[name] = pd.Series(column, dtype=object if is_object and isinstance(column, np.ndarray) else None)
    return pd.DataFrame(typed)


def random_formula(chance: random.Random) -> str:
    """Return a formula, now and then one that is refused."""
    terms = chance.sample(TERMS[:-4] if chance.random() < 0.9 else TERMS, chance.randint(1, 3))
    return f"{chance.choice(RESPONSES)} ~ {' + '.join(terms)}"


def random_call(chance: random.Random) -> Call:
    """Return a call with random declarations, options and tables."""
    name = chance.choices(
        ["dp_ols", "dp_moments", "dp_logit", "dp_svm", "private_bounds", "private_levels"], [6, 3, 2, 1, 1, 1]
    )[0]
    options: dict[str, Any] = dict(chance.choices(BUDGETS, [6, 3, 3, 1, 1])[0])
    added = chance.random() < (0.02 if name in ("dp_logit", "dp_svm") else 0.25)
    if added:
        options["neighboring_relation"] = "add_or_remove_one"
    if chance.random() < 0.1:
        options["contributions"] = chance.choice([2, 2, 5, 0])
    if name in ("private_bounds", "private_levels"):
        if name == "private_levels":
            options = {**options, "epsilon": 5.0, "delta": 0.4}
            options.pop("rho", None)
        return Call(name, "", options, random_tables(chance, list(ROLES), added=added))
    options["schema"] = Schema(
        {column: chance.choices(ways, [6, *[1] * (len(ways) - 1)])[0] for column, ways in DECLARATIONS.items()}
    )
    options["infeasible"] = "fit" if chance.random() < 0.95 else "refuse"
    _add_options(chance, name, options)
    formula = random_formula(chance)
    if name in ("dp_logit", "dp_svm"):
        formula = "b ~" + formula.split("~")[1]
    return Call(name, formula, options, random_tables(chance, list(ROLES), added=added), chance.choice([1, 16]))


def _add_options(chance: random.Random, name: str, options: dict[str, Any]) -> None:
    if name == "dp_ols":
        fitting = ["ssp", "huber", "adassp"] if "rho" in options else LEAST_SQUARES[:-1]
        options["mechanism"] = chance.choice(LEAST_SQUARES if chance.random() < 0.1 else fitting)
        if chance.random() < 0.15:
            options["cov_type"] = chance.choice(["HC0", "HC1", "HC1", "HC7"])
    if name in ("dp_logit", "dp_svm"):
        options["mechanism"] = chance.choice(CLASSIFIERS)
    if name in ("dp_ols", "dp_moments"):
        if chance.random() < 0.15:
            options["weights"] = chance.choice(["w", "w", "w", "x", "nobody"])
        if chance.random() < 0.15:
            options["missing"] = chance.choice(["none", "none", "none", "keep"])
        if chance.random() < 0.1:
            options["offset"] = chance.choice(["z", "np.exp(z)", "z", "nobody", "g"])
        if chance.random() < 0.15:
            options["privacy_unit"] = chance.choice(["h", "g", "x"])
            options.pop("neighboring_relation", None)


@dataclass(frozen=True)
class Ending:
    """How a call ended: what must be alike on neighbouring tables, and whether a planted value was found."""

    alike: tuple[Any, ...]
    kind: str
    leak: str = ""


def leaks(text: str) -> bool:
    """Tell whether a planted value stands in a text: its letters, its first ten digits, or a number that is it.

    Such a number has its first six digits or more, rounded or cut off, and no others: of the millions of numbers that
    the tables here show, some hold a few of its digits.
    """
    digits = text.replace(".", "")
    return SENTINEL_TEXT in text or TEN_DIGITS in digits or not PLANTED_DIGITS.isdisjoint(NUMBER.findall(digits))


def ending_of(call: Call, table: Any, *, thorough: bool) -> Ending:
    """Make a call and describe how it ended; an error that is not the package's own passes through."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(log),
            contextlib.redirect_stderr(log),
        ):
            warnings.simplefilter("always")
            try:
                result = call.run(table)
                alike, shown, kind = _result_facts(result), _shown(result, thorough), type(result).__name__
            except dps.DPStatsError as error:
                alike, kind = (type(error).__name__, str(error)), type(error).__name__
                shown = [str(error), _locals_of(error)]
    finally:
        logging.getLogger().removeHandler(handler)
    said = [f"{type(w.message).__name__}: {w.message}" for w in caught]
    leak = next((text for text in [*shown, *said, log.getvalue()] if leaks(text)), "")
    return Ending((*alike, *said, log.getvalue()), kind, leak[:300])


def _result_facts(result: Any) -> tuple[Any, ...]:
    if isinstance(result, Schema):  # which levels are found depends on released counts: only the type is public
        return (type(result).__name__,)
    if hasattr(result, "params"):
        index = tuple(result.params.index)
        finite = bool(np.isfinite(result.params).all())
        return (type(result).__name__, index, result.params.shape, finite)
    released = np.asarray(result.moments.values)
    return (type(result).__name__, released.shape, bool(np.isfinite(released).all()))


def _shown(result: Any, thorough: bool) -> list[str]:
    """Return what a result prints; pickled bytes as text, so that a number is found in either form."""
    if isinstance(result, Schema):  # a level that is found is shown on purpose
        return []
    shown = [repr(result), *(repr(part) for part in getattr(result, "__dict__", {}).values())]
    with contextlib.suppress(dps.DPStatsError, TypeError):
        pickled = pickle.dumps(result)
        for form in (np.float64(SENTINEL).tobytes(), np.float64(SENTINEL).tobytes()[::-1], SENTINEL_TEXT.encode()):
            shown += [SENTINEL_TEXT] * (form in pickled)
    if thorough and hasattr(result, "summary"):
        summary = result.summary()
        shown += [str(summary), summary.as_html(), summary.as_latex(), getattr(result, "_repr_html_", str)() or ""]
    return shown


def _locals_of(error: BaseException) -> str:
    """Return the variables in the package's frames as text; one that cannot be shown is a record."""
    parts = []
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                parts += [_text_of(value) for value in frame.f_locals.values()]
        error = error.__context__
    return "\n".join(parts)


def _text_of(value: Any) -> str:
    try:
        return repr(value)
    except BaseException:
        return f"{SENTINEL_TEXT} (its repr raises)"


def difference(call: Call, *, thorough: bool = False) -> tuple[str, str]:
    """Return what is wrong with a pair of calls, "" if nothing is, and how they ended."""
    one, other = (ending_of(call, table, thorough=thorough) for table in call.tables)
    if one.leak or other.leak:
        return f"a planted value is shown: {one.leak or other.leak}", one.kind
    if one.alike != other.alike:
        return f"{one.alike} but {other.alike}", one.kind
    if "params" in one.alike and not one.alike[-1]:
        return f"not finite: {one.alike}", one.kind
    return "", one.kind


# -- integer sums: the same rows, without the cost of a fit ----------------------------------------------------------

SUM_FORMULAS = [
    "y ~ x",
    "y ~ 0 + x + z",
    "y ~ x * C(g)",
    "y ~ C(g):C(h) + b",
    "y ~ x:C(g) + x:C(h) + z:C(h)",
    "y ~ I(x**2) + x:z",
    "np.exp(y) ~ np.sin(x) + np.sqrt(z)",
    "y ~ bs(x, df=4) + C(h)",
    "y ~ poly(z, 2) + I(x > 0.5) + I(g == 'a')",
    "I(y > 0) ~ np.where(x > 0, x, z) + I(x / (z + 7))",
    "b ~ np.log1p(x) + np.arctan2(x, z)",
]
SUM_SCHEMA = Schema(
    {
        **{name: ways[0] for name, ways in DECLARATIONS.items()},
        "x": dps.Continuous(0, 1),
        "z": dps.Continuous(0, 2),
        "h": dps.Categorical(["a", "", "c"]),
    }
)


@functools.cache
def sum_plan(formula: str, notion: str, relation: str, weights: str | None, missing: str) -> Any:
    """Plan a release once for many tables."""
    facts = TableFacts(tuple(SUM_SCHEMA), dict.fromkeys(SUM_SCHEMA, "object"))
    rules = row_rules(missing, weights, None, SUM_SCHEMA, facts)
    design = build_design(formula, SUM_SCHEMA, facts, rules=rules)
    budget = Budget(epsilon=1.0) if notion == "pure" else Budget(rho=0.5)
    return plan_moments(design, budget, 2**20, protection=protection_of(1, relation))


def exact_sums(plan: Any, source: Any, wide: int) -> np.ndarray:
    """Add up the atoms; `wide` is for `wide_from`."""
    with wide_from(wide):
        return sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)


def sums_difference(chance: random.Random) -> tuple[str, str]:
    """Draw two tables and compare the privacy loss between their exact sums with the budget."""
    relation = chance.choice(["replace_one", "replace_one", "add_or_remove_one"])
    weights, missing = chance.choice([None, None, "w"]), chance.choice(["drop", "drop", "none"])
    plan = sum_plan(chance.choice(SUM_FORMULAS), chance.choice(["pure", "zCDP"]), relation, weights, missing)
    names = list(plan.coding.design.read_variables)
    tables = random_tables(chance, names, added=relation == "add_or_remove_one")
    sources = [as_source(table) for table in tables]
    if sources[0].facts.kinds != sources[1].facts.kinds:
        return "the tables have different kinds of columns", "sums"
    try:
        check_table(SUM_SCHEMA, sources[0].facts, names)
    except dps.SchemaError as error:
        return ("a planted value is shown" if leaks(str(error)) else ""), "SchemaError"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        one, other = (exact_sums(plan, source, chance.choice([1, 16])) for source in sources)
    if caught:
        return f"warned: {caught[0].message}", "sums"
    change = np.abs((one - other).astype(float))
    if plan.n_public is not None:
        change[plan.atoms.count] = 0.0 if one[plan.atoms.count] == other[plan.atoms.count] else np.inf
    if plan.law == "laplace":
        loss, allowed = float((change / plan.noise.scales).sum()), 1.0
    else:
        loss = float((change**2 / (plan.noise.scales**2 - 9)).sum())
        allowed = stage_strength(Budget(rho=0.5), "gaussian") ** 2
    return ("" if loss <= allowed * (1 + 1e-9) else f"loss {loss} above {allowed}"), "sums"
