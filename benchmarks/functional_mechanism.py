"""The experiments of Zhang et al. 2012 and Zheng and Zou 2016; writes functional_mechanism.csv.gz, .md and .png files.

    python benchmarks/functional_mechanism.py [--repeats 5] [--processes 2] [--report]

Tables: persons with the 13 attributes of the paper at its sizes (synthetic, fm_like_generate.py), Adult and census
files. Five-fold cross-validation, repeated; the noise has its real law and is simulated. Every method sees the same
training rows. --report writes table and figures from the CSV of an earlier run, and measures the times again.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import statsmodels.formula.api as smf
from coverage_ols import markdown
from designs import load_table, tables_folder
from published_fm import BY_DIMENSION, BY_EPSILON, DIMENSIONS, EPSILONS
from statsmodels.discrete.discrete_model import Logit

import dpstats as dps
from dpstats import Binary, Continuous, DiffLR, Functional, Schema
from dpstats.inference.diagnostics import kappa
from dpstats.inference.estimates import solve_least_squares
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.ridge import solve_ridge
from dpstats.mechanisms import adassp, functional
from dpstats.mechanisms.cell_regression import regress
from dpstats.mechanisms.histogram import MOST_CELLS, MOVED, default_threshold
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records.features import feature_rows
from dpstats.records.histogram import CellCounts
from dpstats.records.moments import MomentSums, exact_products
from dpstats.records.rows import lattice_rows
from dpstats.records.source import Partition, as_source
from dpstats.release.filtered import WeightedCells, filter_and_sample
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.cells import cell_grid
from dpstats.specification.coding import code_design
from dpstats.specification.coercion import array_of, coerce
from dpstats.specification.design import build_design
from dpstats.specification.features import build_features
from dpstats.specification.objectives import LEAST_SQUARES, TAYLOR_LOGISTIC
from dpstats.specification.rowmap import RowMap
from dpstats.specification.view import full_view

HERE = Path(__file__).resolve()
FOLDS, BITS, DELTA = 5, 20, 1e-6
DEFAULT_EPSILON, DEFAULT_DIMENSION = 0.8, 11
RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SIZES = {"US": 370_000, "BR": 190_000}
HIGHEST_INCOME = {"US": 300_000, "BR": 100_000}
HIGH_INCOME = {"US": 78_900, "BR": 13_900}  # the minority class is that of the paper's tables: .376 and .276
MANY_CELLS = 2_000_000  # above, one repeat of the cross-validation

FM_OPTIONS = {
    "FM paper": Functional(sensitivity="paper"),
    "FM paper, ball": Functional(sensitivity="paper", scaling="ball"),
    "FM code": Functional(sensitivity="code", entries="full", multiple=5),
    "FM tight": Functional(),
}
SPLITS = {
    "Diff-LR paper split": DiffLR(split="paper"),
    "Diff-LR proportional": DiffLR(split="proportional"),
    "Diff-LR optimal": DiffLR(),
}
ATTRIBUTES = {
    5: ["age", "male", "educ", "family"],
    8: ["native", "owner", "autos"],
    11: ["single", "married", "children"],
    14: ["disabled", "hours", "years"],
}
BOUNDS = {
    "age": (16, 95),
    "educ": (0, 18),
    "family": (1, 15),
    "autos": (0, 6),
    "children": (0, 9),
    "hours": (0, 99),
    "years": (0, 95),
}
REAL = {
    ("adult", "linear"): "hours_per_week ~ age + education_num + C(sex) + C(race)",
    ("adult", "logistic"): "income ~ age + education_num + hours_per_week + C(sex)",
    ("census2000_sf_persons", "linear"): "annual_income ~ age + hours_per_week + C(gender) + family_size + n_autos",
    ("census2000_sf_persons", "logistic"): "I(annual_income > 28000) ~ age + hours_per_week + C(gender) + n_autos",
    ("pnadc_br_2017q4_sample", "linear"): "monthly_income_all ~ age + years_study + hours_all_jobs + C(sex)",
    ("pnadc_br_2017q4_sample", "logistic"): "occupied ~ age + years_study + C(sex)",
    ("acs12", "linear"): "income ~ age + hrs_work + C(gender)",
    ("acs_or_households", "logistic"): "food_stamps ~ hh_income + n_own_children",
}


@lru_cache(maxsize=1)
def persons(country: str, n: int | None = None) -> tuple[pd.DataFrame, Schema]:
    """The paper's attributes as numbers, and their public schema; at the paper's size by default."""
    spec = importlib.util.spec_from_file_location("fm_like_generate", tables_folder() / "fm_like_generate.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    raw = generator.generate(country, n or SIZES[country], 0)
    frame = pd.DataFrame(
        {
            "age": raw["age"],
            "male": raw["gender"] == "male",
            "educ": raw["educ_years"],
            "family": raw["family_size"],
            "native": raw["nativity"] == "native",
            "owner": raw["ownership"] == "own",
            "autos": raw["n_autos"],
            "single": raw["marital"] == "single",
            "married": raw["marital"] == "married",
            "children": raw["n_children"],
            "disabled": raw["disability"] == "yes",
            "hours": raw["hours_per_week"],
            "years": raw["years_residing"],
            "income": raw["annual_income"],
            "high": raw["annual_income"] > HIGH_INCOME[country],
        }
    )
    frame = frame.astype(int)
    bounds = {**BOUNDS, "income": (0, HIGHEST_INCOME[country])}
    columns = {name: Continuous(*bounds[name]) if name in bounds else Binary() for name in frame}
    return frame, Schema(columns)


def formula_of(dimension: int, family: str) -> str:
    """d counts the attributes, the outcome included, as in the paper."""
    used = [name for d, names in ATTRIBUTES.items() if d <= dimension for name in names]
    return f"{'income' if family == 'linear' else 'high'} ~ {' + '.join(used)}"


@dataclass(frozen=True)
class Job:
    """One table, formula and share of its rows; several budgets."""

    table: str
    family: str
    formula: str
    dimension: int
    rate: float
    epsilons: tuple[float, ...]


def jobs() -> list[Job]:
    found = []
    for country in SIZES:
        for family in ("linear", "logistic"):
            for d in DIMENSIONS:
                epsilons = EPSILONS if d == DEFAULT_DIMENSION else (DEFAULT_EPSILON,)
                found.append(Job(country, family, formula_of(d, family), d, 1.0, epsilons))
            formula = formula_of(DEFAULT_DIMENSION, family)
            found += [Job(country, family, formula, DEFAULT_DIMENSION, r, (DEFAULT_EPSILON,)) for r in RATES]
    for (table, family), formula in REAL.items():
        found.append(Job(table, family, formula, formula.count("+") + 2, 1.0, EPSILONS))
    return found


class Rows:
    """A table coded once for all methods: whole numbers on the lattice, cells, and a column of fold labels."""

    def __init__(self, job: Job, rng: np.random.Generator) -> None:
        data, schema = persons(job.table) if job.table in SIZES else load_table(job.table)
        if job.rate < 1:
            data = data.iloc[np.sort(rng.permutation(len(data))[: int(job.rate * len(data))])]
        self.family = job.family
        self.binary = job.family == "logistic"
        self.objective = TAYLOR_LOGISTIC if self.binary else LEAST_SQUARES
        self.design = build_design(job.formula, schema, as_source(data).facts, binary=self.binary)
        arrays = {name: array_of(data[name]) for name in self.design.variables}
        coerced, complete = coerce(self.design.schema, arrays, len(data))
        coding = code_design(self.design, "laplace")
        part = Partition(arrays, len(data))
        view = full_view(coding)
        self.features = {s: build_features(view, coding, s, binary=self.binary) for s in ("box", "ball")}
        self.on_lattice = {s: feature_rows(part, f, BITS)[0][complete] for s, f in self.features.items()}
        self.ssp_rows = {} if self.binary else self._rows_of_ssp(part, complete)
        self.coerced = {name: column[complete] for name, column in coerced.items()}
        self.z = self.on_lattice["box"] / 2.0**BITS
        self.n = len(self.z)

    def _rows_of_ssp(self, part: Partition, complete: np.ndarray) -> dict[str, np.ndarray]:
        codings = {kind: code_design(self.design, kind) for kind in ("laplace", "gaussian")}
        return {k: lattice_rows(part, RowMap(c), BITS)[0][complete] for k, c in codings.items()}


class Fold:
    """Exact sums of the training rows, by subtraction, and the score of coefficients on the test rows."""

    def __init__(self, rows: Rows, totals: dict[str, np.ndarray], test: np.ndarray) -> None:
        self.rows, self.test = rows, test
        self.n = rows.n - int(test.sum())
        self.sums = {
            name: MomentSums(totals[name] - exact_products(table[test]), self.n)
            for name, table in {**rows.on_lattice, **rows.ssp_rows}.items()
        }

    def score(self, w: np.ndarray) -> float:
        """MSE of the outcome in [-1, 1], or the misclassification rate."""
        z = self.rows.z[self.test]
        fitted, outcome = z[:, :-1] @ w, z[:, -1]
        if self.rows.binary:
            return float(np.mean((fitted > 0) != (outcome > 0)))
        return float(np.mean((outcome - fitted) ** 2))

    def coded(self, raw: np.ndarray) -> np.ndarray:
        """Coefficients on features in the box from raw ones."""
        box = self.rows.features["box"]
        return box.view.contrast.T @ raw / box.half - box.mid / box.half * box.constant

    def least_squares(self) -> np.ndarray:
        products = self.sums["box"].products / 4.0**BITS
        return np.linalg.lstsq(products[:-1, :-1], products[:-1, -1], rcond=None)[0]

    def logit(self) -> np.ndarray:
        z = self.rows.z[~self.test]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Logit((z[:, -1] + 1) / 2, z[:, :-1]).fit(disp=0).params

    def objective(self, options: Functional | DiffLR, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        """The functional mechanism and Diff-LR."""
        plan = functional.plan_objective(self.rows.design, self.rows.objective, options, Budget(epsilon), self.n)
        exact = functional.released_sums(plan, self.sums[options.scaling])
        moments = functional.noisy_moments(plan, add_noise(plan, exact, rng))
        space = plan.space
        fit = solve_ridge(moments, space, plan.ridge)
        return self.coded(space.half * np.linalg.solve(space.r, fit.gamma))

    def adassp(self, epsilon: float, rng: np.random.Generator) -> np.ndarray:
        plan = adassp.plan_adassp(self.rows.design, dps.AdaSSP(), Budget(epsilon, DELTA), self.n)
        exact = adassp.released_sums(plan, self.sums["box"])
        return self.coded(adassp.solve(plan, add_noise(plan, exact, rng)).params)

    def ssp(self, budget: Budget, rng: np.random.Generator) -> tuple[np.ndarray, float]:
        plan = plan_moments(self.rows.design, budget, self.n)
        sums, atoms = self.sums[plan.law], plan.atoms
        exact = np.where(atoms.left < 0, np.int64(self.n) << (2 * BITS), sums.products[atoms.left, atoms.right])
        values = add_noise(plan, exact, rng) / 4.0**BITS
        moments = plan.reconcile(NoisyMoments(values, plan.variances, plan.law, atoms.index, atoms.count))
        space = plan.space
        fit = solve_least_squares(moments, space)
        return self.coded(space.half * np.linalg.solve(space.r, fit.shown)), kappa(moments, space)

    def histogram(self, method: str, epsilon: float, rng: np.random.Generator) -> np.ndarray | None:
        """DPME or FP; None where there are too many cells."""
        rows, design = self.rows, self.rows.design
        outcome = design.response.symbol.variables[0] if rows.binary else None
        grid = cell_grid(design.schema, design.variables, self.n, None, outcome)
        numbers = grid.number({name: column[~self.test] for name, column in rows.coerced.items()})
        counts = CellCounts(*np.unique(numbers, return_counts=True))
        noise, scale = SimulatedNoise(rng), MOVED / epsilon
        if method == "FP":
            threshold = default_threshold(grid.n_cells, scale, self.n)
            sample = filter_and_sample(lambda: counts, grid.n_cells, scale, threshold, self.n, noise)
        elif grid.n_cells > MOST_CELLS or (rows.binary and grid.n_cells > MANY_CELLS):
            return None
        else:
            noisy = np.rint(rng.laplace(scale=scale, size=grid.n_cells))
            noisy[counts.cells] += counts.counts
            cells = np.flatnonzero(noisy > 0)
            sample = WeightedCells(cells, noisy[cells])
        return self.coded(regress(rows.features["box"], grid, sample, rows.family))

    def cells(self) -> int:
        design = self.rows.design
        outcome = design.response.symbol.variables[0] if self.rows.binary else None
        return cell_grid(design.schema, design.variables, self.n, None, outcome).n_cells


def add_noise(plan, exact: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if plan.bits != BITS:
        raise AssertionError(f"the plan has {plan.bits} bits, the sums {BITS}")
    return SimulatedNoise(rng).prepare(plan.noise.law, plan.noise.scales, plan.noise.distances)(exact)


def run(job: Job, repeats: int) -> list[dict]:
    """Score every method on every fold."""
    rng = np.random.default_rng([20_261_130, sum(map(ord, job.table + job.formula)), int(100 * job.rate)])
    rows = Rows(job, rng)
    totals = {name: exact_products(table) for name, table in {**rows.on_lattice, **rows.ssp_rows}.items()}
    found = []
    for repeat in range(repeats):
        labels = rng.permutation(rows.n) % FOLDS
        for label in range(FOLDS):
            fold = Fold(rows, totals, labels == label)
            for epsilon, method, error, noise in measure(fold, job.epsilons, repeat, rng):
                key = {"table": job.table, "family": job.family, "d": job.dimension, "rate": job.rate, "n": rows.n}
                key |= {"fold": FOLDS * repeat + label}
                found.append({**key, "eps": epsilon, "method": method, "error": error, "kappa": noise})
    return found


def measure(
    fold: Fold, epsilons: tuple[float, ...], repeat: int, rng: np.random.Generator
) -> Iterator[tuple[float, str, float, float]]:
    """Yield budget, method, score and kappa (of ssp)."""
    rows = fold.rows
    exact = {"NoPrivacy": fold.score(fold.logit() if rows.binary else fold.least_squares())}
    if rows.binary:
        exact["Truncated"] = fold.score(fold.least_squares())
    once = fold.cells() > MANY_CELLS and repeat > 0
    for epsilon in epsilons:
        for name, error in exact.items():
            yield epsilon, name, error, np.nan
        seed = int(rng.integers(2**62))  # the same draws for all variants, so that they differ by their scales alone
        for name, options in (FM_OPTIONS if rows.binary else {**FM_OPTIONS, **SPLITS}).items():
            yield epsilon, name, fold.score(fold.objective(options, epsilon, np.random.default_rng(seed))), np.nan
        if not rows.binary:
            yield epsilon, "AdaSSP (delta)", fold.score(fold.adassp(epsilon, rng)), np.nan
            for name, budget in (("ssp", Budget(epsilon)), ("ssp (delta)", Budget(epsilon, DELTA))):
                w, noise = fold.ssp(budget, rng)
                yield epsilon, name, fold.score(w), noise
        for name in ("FP", "DPME"):
            w = None if once and name == "DPME" else fold.histogram(name, epsilon, rng)
            if w is not None:
                yield epsilon, name, fold.score(w), np.nan


# -- times -----------------------------------------------------------------------------------------------------------


def times(repeats: int = 21) -> pd.DataFrame:
    """Median seconds of whole calls on the same rows, from formula to coefficients."""
    rows = []
    for country, n in [*SIZES.items(), ("US", 1_000_000)]:
        for d in DIMENSIONS:
            calls = calls_of(country, n, d)
            seconds: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(repeats):
                for name, call in calls.items():
                    start = time.perf_counter()
                    call()
                    seconds[name].append(time.perf_counter() - start)
            row = {"table": country, "n": n, "d": d} | {name: np.median(found) for name, found in seconds.items()}
            row["smf.logit / FM logistic"] = row["smf.logit"] / row["FM logistic"]
            row["smf.ols / FM linear"] = row["smf.ols"] / row["FM linear"]
            rows.append(row)
    return pd.DataFrame(rows)


def calls_of(country: str, n: int, d: int) -> dict[str, Callable[[], object]]:
    data, schema = persons(country, n)
    logit, linear = formula_of(d, "logistic"), formula_of(d, "linear")
    return {
        "FM logistic": lambda: dps.dp_logit(logit, data, 0.8, schema=schema, mechanism="functional").params,
        "smf.logit": lambda: smf.logit(logit, data).fit(disp=0).params,
        "FM linear": lambda: dps.dp_ols(linear, data, 0.8, schema=schema, mechanism="functional").params,
        "ssp": lambda: dps.dp_ols(linear, data, 0.8, schema=schema).params,
        "smf.ols": lambda: smf.ols(linear, data).fit().params,
    }


# -- report ----------------------------------------------------------------------------------------------------------

KEYS = ["table", "family", "d", "rate", "eps"]


def means(raw: pd.DataFrame) -> pd.DataFrame:
    """Mean error per cell and method, one column per method."""
    return raw.pivot_table(index=KEYS, columns="method", values="error", aggfunc="mean").reset_index()


def findings(raw: pd.DataFrame, seconds: pd.DataFrame) -> pd.DataFrame:
    """The papers' claims against what was measured."""
    table = means(raw)
    paper = table[table["table"].isin(SIZES)]
    paper_linear = paper[paper["family"] == "linear"]
    wide = paper[paper["d"] >= 11]
    logistic = table[table["family"] == "logistic"]
    at_default = paper[(paper["family"] == "linear") & (paper["eps"] == DEFAULT_EPSILON) & (paper["rate"] == 1)]
    rows = []

    def claim(text: str, holds: pd.Series, detail: str) -> None:
        rows.append({"claim": text, "cells": f"{int(holds.sum())} of {len(holds)}", "measured": detail})

    for other in ("FP", "DPME"):
        part = wide[wide[other].notna()]
        for family in ("linear", "logistic"):
            ours, theirs = (part.loc[part["family"] == family, name] for name in ("FM tight", other))
            detail = f"median error of FM over {other}'s: {(ours / theirs).median():.2f}"
            claim(f"FM below {other} at d >= 11, {family}", ours < theirs, detail)
    excess = at_default["FM tight"] / at_default["NoPrivacy"] - 1
    claim("FM within 5 % of NoPrivacy, linear, epsilon = .8", excess <= 0.05, f"at most {excess.max():.1%} above")
    gap = logistic["Truncated"] - logistic["NoPrivacy"]
    claim("Truncated within 1 point of NoPrivacy", gap <= 0.01, f"at most {100 * gap.max():.2f} points above")
    names = ["FM paper", "FM code", "FM tight", *SPLITS]
    risk = paper_linear[names].sub(paper_linear["NoPrivacy"], axis=0)
    for other in names[:-1]:
        ratio = risk["Diff-LR optimal"] / risk[other]
        detail = f"ratio of excess risks: median {ratio.median():.3f}, of their means "
        detail += f"{risk['Diff-LR optimal'].mean() / risk[other].mean():.3f}"
        detail += f"; above it by more than two standard errors in {int((excess_errors(raw, other) > 2).sum())}"
        claim(f"Diff-LR, optimal split, at or below {other} (US, BR)", ratio <= 1, detail)
    others = ["FM paper", "FM code", "FM tight", *SPLITS, "FP", "DPME"]
    for ours, beside in (("ssp", others), ("ssp (delta)", [*others, "AdaSSP (delta)"])):
        ratio = where_resolved(raw, ours, beside)
        detail = f"at most {ratio.max():.4f} times the best other"
        claim(f"{ours} within 2 % of the best other private method where kappa <= .5", ratio <= 1.02, detail)
    ratio = seconds["smf.logit / FM logistic"]
    detail = f"{ratio.min():.1f} to {ratio.max():.1f} times"
    claim("FM logistic at least 10 times faster than smf.logit", ratio >= 10, detail)
    return pd.DataFrame(rows)


def excess_errors(raw: pd.DataFrame, other: str) -> pd.Series:
    """Error of the optimal split less the other's, draw by draw, in standard errors of its mean, per cell."""
    paper = raw[raw["table"].isin(SIZES) & (raw["family"] == "linear")]
    wide = paper.pivot_table(index=[*KEYS, "fold"], columns="method", values="error")
    cells = (wide["Diff-LR optimal"] - wide[other]).groupby(KEYS)
    return cells.mean() / (cells.std() / np.sqrt(cells.size()))


def where_resolved(raw: pd.DataFrame, ours: str, others: list[str]) -> pd.Series:
    """Error over the best other method's, in cells of median kappa at most .5, on the folds with such a kappa."""
    linear = raw[raw["family"] == "linear"]
    noise = linear[linear["method"] == ours].set_index([*KEYS, "fold"])["kappa"]
    usable = noise.groupby(KEYS).transform("median").le(0.5) & noise.le(0.5)
    wide = linear.pivot_table(index=[*KEYS, "fold"], columns="method", values="error")
    mean = wide[usable.reindex(wide.index)].groupby(KEYS).mean()
    return mean[ours] / mean[others].min(axis=1)


def report(raw: pd.DataFrame, seconds: pd.DataFrame, repeats: int) -> str:
    table = means(raw)
    methods = [name for name in table.columns if name not in KEYS]
    shown = table.round({name: 4 for name in methods}).astype({"d": int})
    shown = shown.astype(object).where(shown.notna(), "")
    parts = [
        "# The functional mechanism and Diff-LR, experiments of their papers",
        "",
        f"Mean over {FOLDS}-fold cross-validation, {repeats} times (once for DPME above {MANY_CELLS:,} cells): MSE of",
        "the outcome in [-1, 1], or misclassification rate. US and BR are synthetic persons at the paper's sizes, so",
        "levels differ from the paper's. d counts the outcome. DPME has no logistic numbers where its cells explode.",
        "`ssp (delta)` and `AdaSSP (delta)` spend (epsilon, 1e-6), all others a pure epsilon. FM paper, code and tight",
        "are `Functional(sensitivity=...)`, columns in [-1, 1]; `ball` is the scaling of the paper's text. The splits",
        "of Diff-LR use the tight sensitivity; the paper's split, which it leaves open, gives X'X .75 of epsilon. All",
        "variants of one objective share their draws of the noise, so that they differ by its scales alone. kappa is",
        "the noise-to-signal number that a fit prints; claims about it are about the folds where it is at most .5.",
        "",
        "## Findings",
        "",
        markdown(findings(raw, seconds)),
        "",
        "## Seconds of a whole call on all rows, medians",
        "",
        markdown(seconds.round(3)),
        "",
    ]
    for family in ("linear", "logistic"):
        part = shown[shown["family"] == family].drop(columns="family")
        part = part.loc[:, [name for name in part.columns if (part[name] != "").any()]]
        parts += [f"## {family.capitalize()} regression", "", markdown(part), ""]
    return "\n".join(parts)


STYLES = {
    "NoPrivacy": ("black", "-"),
    "Truncated": ("0.45", "-"),
    "FM paper": ("tab:blue", "-"),
    "FM paper, ball": ("tab:blue", ":"),
    "FM code": ("tab:cyan", "-"),
    "FM tight": ("navy", "-"),
    "Diff-LR optimal": ("tab:green", "-"),
    "ssp": ("tab:red", "-"),
    "ssp (delta)": ("tab:red", ":"),
    "AdaSSP (delta)": ("tab:purple", ":"),
    "FP": ("tab:orange", "-"),
    "DPME": ("tab:brown", "-"),
}
FIGURES = {
    "linear": ("linear", False, "mean squared error"),
    "excess": ("linear", True, "mean squared error above NoPrivacy's"),
    "logistic": ("logistic", False, "misclassification rate"),
}


def drawn_means(raw: pd.DataFrame) -> pd.DataFrame:
    """Mean errors; those of ssp only where its median kappa is at most .5, as elsewhere a fit says that it is weak."""
    table = means(raw)
    for name in ("ssp", "ssp (delta)"):
        noise = raw[raw["method"] == name].groupby(KEYS)["kappa"].median().rename("noise").reset_index()
        joined = table[KEYS].merge(noise, on=KEYS, how="left")
        table[name] = table[name].where((joined["noise"] <= 0.5).to_numpy())
    return table


def figures(raw: pd.DataFrame) -> None:
    """Draw error against d, epsilon and the share of rows, with the published curves dashed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    table = drawn_means(raw)
    for kind, (family, excess, label) in FIGURES.items():
        figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
        for line, country in zip(axes, SIZES, strict=True):
            part = table[(table["table"] == country) & (table["family"] == family)]
            full = part[part["rate"] == 1]
            default = part[(part["d"] == DEFAULT_DIMENSION) & (part["eps"] == DEFAULT_EPSILON)]
            sweeps = {
                "d": (full[full["eps"] == DEFAULT_EPSILON], BY_DIMENSION, DIMENSIONS, "attributes d"),
                "eps": (full[full["d"] == DEFAULT_DIMENSION], BY_EPSILON, EPSILONS, "epsilon"),
                "rate": (default, {}, (), "share of the rows"),
            }
            for ax, (name, (rows, published, at, xlabel)) in zip(line, sweeps.items(), strict=True):
                draw(ax, rows.sort_values(name), name, excess)
                if not excess:
                    for method, curve in published.get((country, family), {}).items():
                        color = STYLES[{"FM": "FM code"}.get(method, method)][0]
                        ax.plot(at, curve, color=color, linestyle="--", linewidth=0.8, alpha=0.7)
                    if family == "linear":
                        ax.set_ylim(0, min(ax.get_ylim()[1], 0.8))
                ax.set(xlabel=xlabel, title=f"{country}, {family}")
                ax.set_yscale("log" if excess else "linear")
                if name == "eps":
                    ax.set_xscale("log", base=2)
                    ax.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
            line[0].set_ylabel(label)
        handles, labels = axes[0, 1].get_legend_handles_labels()
        if not excess:
            handles.append(plt.Line2D([], [], color="0.3", linestyle="--", linewidth=0.8))
            labels.append("published (other data)")
        figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False)
        figure.savefig(HERE.with_name(f"functional_mechanism_{kind}.png"), dpi=110)
        plt.close(figure)


def draw(ax, rows: pd.DataFrame, name: str, excess: bool) -> None:
    for method, (color, style) in STYLES.items():
        if method not in rows or not rows[method].notna().any() or (excess and method == "NoPrivacy"):
            continue
        drawn = rows[rows[method].notna()]
        height = drawn[method] - drawn["NoPrivacy"] if excess else drawn[method]
        ax.plot(drawn[name], height, color=color, linestyle=style, marker=".", label=method)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    path = HERE.with_suffix(".csv.gz")
    if options.report:
        raw = pd.read_csv(path)
    else:
        chosen = [job for job in jobs() if options.only in f"{job.table} {job.family} {job.dimension} {job.rate}"]
        chosen.sort(key=lambda job: -len(job.epsilons) * job.rate * SIZES.get(job.table, 40_000) * 2.0**job.dimension)
        with ProcessPoolExecutor(options.processes) as pool:
            results = list(pool.map(run, chosen, [options.repeats] * len(chosen)))
        raw = pd.DataFrame([row for rows in results for row in rows])
        if options.only:
            print(markdown(means(raw).round(4)))
            return
        raw.round({"error": 6, "kappa": 4}).to_csv(path, index=False)
    text = report(raw, times(), options.repeats)
    print(text)
    HERE.with_suffix(".md").write_text(text, encoding="utf-8")
    figures(raw)


if __name__ == "__main__":
    main()
