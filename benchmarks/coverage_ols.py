"""Coverage, width, boundedness and calibration of `dp_ols`, cell by cell; writes coverage_ols.md beside this script.

    python benchmarks/coverage_ols.py [--replications 400] [--processes 2] [--only NAME]

Each cell uses `replications` data sets with simulated noise, through the same plan, row map, exact sums and inference
as a private fit. A data set is shared by cells of the same population and size, never within a cell.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from designs import Population, correlated, heteroskedastic, linear, one_factor, resampled, skewed, two_factors, uniform

from dpstats.inference.estimates import fit_least_squares, model_space
from dpstats.inference.joint_test import score_test
from dpstats.inference.moment_test import contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.reconcile import reconcile
from dpstats.inference.robust import robust_ratios, score_target, with_robust_sampling
from dpstats.mechanisms.robust import release_scores
from dpstats.mechanisms.ssp import plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.release.noise import SimulatedNoise
from dpstats.specification.identities import find_identities
from dpstats.specification.rowmap import RowMap
from dpstats.specification.sensitivity import row_norms

PURE, DELTA = "pure", "delta"
HC_SHARE = 0.1


@dataclass(frozen=True)
class Cell:
    """One row of the table: a budget, a kind of standard error, reconciliation on or off."""

    epsilon: float
    notion: str
    cov_type: str = "nonrobust"
    reconciled: bool = True

    @property
    def budget(self) -> Budget:
        return Budget(self.epsilon, 1e-6 if self.notion == DELTA else None)


@dataclass(frozen=True)
class Job:
    """Cells that share their data sets."""

    population: str
    n: int
    cells: tuple[Cell, ...]


def populations() -> dict[str, Population]:
    known = [
        *(linear(f"uniform p={p}", p, uniform, 1 / np.sqrt(3)) for p in (2, 5, 10, 20)),
        linear("correlated .7", 5, correlated, 0.4 * np.sqrt(1 + 4 * 0.7)),
        linear("skewed", 5, skewed, 0.28),
        linear("heteroskedastic", 5, uniform, 1 / np.sqrt(3), noise=heteroskedastic, affected="x0"),
        linear("20 % missing", 5, uniform, 1 / np.sqrt(3), missing=0.2),
        one_factor(),
        two_factors(),
        two_factors(missing=0.2),
    ]
    return {population.name: population for population in known}


REAL = {
    "wages (cps1988)": ("cps1988", "np.log(wage) ~ experience + I(experience**2) + education + C(ethnicity)"),
    "wages (cpssw8)": ("cpssw8", "earnings ~ age + education + C(gender) + C(region)"),
    "hours (adult)": ("adult", "hours_per_week ~ age + education_num + C(sex) + C(race)"),
}


def population_named(name: str) -> Population:
    return resampled(name, *REAL[name]) if name in REAL else populations()[name]


def jobs() -> list[Job]:
    notions, errors = (PURE, DELTA), ("nonrobust", "HC1")
    grid = tuple(Cell(e, k) for e in (0.1, 0.5, 1.0, 5.0) for k in notions)
    robust_grid = tuple(Cell(e, k, "HC1") for e in (1.0, 5.0) for k in notions)
    found = [Job("uniform p=5", n, grid + robust_grid) for n in (500, 2_000, 10_000, 100_000)]
    around = tuple(Cell(1.0, k, c) for k in notions for c in errors)
    off = tuple(Cell(1.0, k, "nonrobust", reconciled=False) for k in notions)
    varied = ["uniform p=2", "uniform p=10", "uniform p=20", "correlated .7", "skewed", "20 % missing"]
    found += [Job(name, 10_000, around) for name in varied]
    found += [Job("one factor", 10_000, around + off), Job("one factor", 2_000, around)]
    found += [Job("heteroskedastic", n, around) for n in (20_000, 50_000)]
    found += [Job("two factors", n, around + off) for n in (4_000, 20_000)]
    found += [Job("two factors, 20 % missing", n, around + off) for n in (4_000, 20_000)]
    several = tuple(Cell(e, k) for e in (0.5, 1.0, 5.0) for k in notions)
    return found + [Job(name, n, several) for name in REAL for n in (0, 50_000)]


def run(job: Job, replications: int) -> list[dict]:
    population = population_named(job.population)
    n = job.n or int(population.extra["rows"])
    rng = np.random.default_rng([20_260_101, n, sum(map(ord, job.population))])
    design = population.design()
    prepared = [Prepared.of(design, cell, n) for cell in job.cells]
    records: list[list[dict]] = [[] for _ in job.cells]
    for _ in range(replications):
        source = as_source(population.draw(rng, n))
        sums: dict[str, np.ndarray] = {}
        baseline = None
        for cell, record in zip(prepared, records, strict=True):
            coding = cell.plan.coding
            if coding.noise not in sums:
                sums[coding.noise] = sum_atoms(source, RowMap(coding), cell.plan.atoms, cell.plan.bits)
            if baseline is None:
                baseline = cell.exact(sums[coding.noise], population)
            record.append(cell.measure(sums[coding.noise], source, n, population, rng, baseline))
    return [summarise(job, cell, n, record) for cell, record in zip(job.cells, records, strict=True)]


@dataclass(frozen=True)
class Prepared:
    """A cell with its plan."""

    cell: Cell
    plan: object
    space: object
    identities: object

    @classmethod
    def of(cls, design, cell: Cell, n: int) -> Prepared:
        share = 1 - HC_SHARE if cell.cov_type != "nonrobust" else 1.0
        plan = plan_moments(design, cell.budget, n, share=share)
        space = model_space(plan.view.contrast, plan.view.has_constant, plan.coding)
        return cls(cell, plan, space, find_identities(plan.coding.all_blocks, plan.atoms, plan.coding.signs))

    def moments(self, sums, variances) -> NoisyMoments:
        atoms = self.plan.atoms
        return NoisyMoments(sums / 4.0**self.plan.bits, variances, self.plan.coding.noise, atoms.index, atoms.count)

    def rows(self, population: Population) -> np.ndarray:
        names = self.plan.view.design.exog_names
        return np.eye(len(names))[[names.index(name) for name in population.truth]]

    def exact(self, sums, population: Population) -> tuple[np.ndarray, np.ndarray, float]:
        """Non-private estimates and half-widths of the slopes in raw units, and s2 in coded units."""
        moments = self.moments(sums, np.zeros(len(sums)))
        fit = fit_least_squares(moments, self.space)
        found = contrasts(moments, self.space, fit, self.rows(population))
        half = self.space.half
        return half * np.array([c.estimate for c in found]), half * 1.96 * np.sqrt([c.q0 for c in found]), fit.sigma2

    def measure(self, sums, source, n, population, rng, baseline) -> dict:
        noise = SimulatedNoise(rng)
        plan = self.plan
        noisy = noise.prepare(plan.noise.law, plan.noise.scales, plan.noise.distances)(sums)
        moments = self.moments(noisy, plan.variances)
        if self.cell.reconciled:
            moments = reconcile(moments, self.identities)
        fit = fit_least_squares(moments, self.space)
        if self.cell.cov_type != "nonrobust":
            blocks = plan.coding.blocks
            size = row_norms(blocks, np.ones(len(blocks)), plan.coding.noise, plan.bits).r2
            target = score_target(moments, self.space, fit, blocks, size)
            second = release_scores(target, plan, source, n, HC_SHARE, noise)
            correction = max(moments.n_complete / fit.df_resid, 1.0)
            fit = with_robust_sampling(fit, self.space, robust_ratios(target, second.scores, second.sd, correction))
        rows = self.rows(population)
        truth = np.array(list(population.truth.values())) / self.space.half
        found = contrasts(moments, self.space, fit, rows)
        ends = np.array([c.interval(0.05) for c in found])
        exact, exact_half, exact_sigma2 = baseline
        joint = score_test(moments, self.space, fit, rows[:2], truth[:2]).pvalue if len(rows) > 1 else np.nan
        return {
            "covered": (ends[:, 0] <= truth) & (truth <= ends[:, 1]),
            "bounded": np.isfinite(ends).all(axis=1),
            "width": self.space.half * (ends[:, 1] - ends[:, 0]) / 2 / exact_half,
            "exact_covered": np.abs(exact - truth * self.space.half) <= exact_half,
            "p": np.array([c.p_value(value) for c, value in zip(found, truth, strict=True)]),
            "joint": joint,
            "estimate": np.array([c.estimate for c in found]),
            "variance": np.array([c.q0 for c in found]),
            "privacy": np.array([max(c.q0 - c.sampling, 0.0) for c in found]),
            "sigma2": fit.sigma2 / exact_sigma2,
            "sigma2_error": (fit.sigma2 - exact_sigma2) / fit.sigma2_sd,
            "error": np.linalg.norm(self.space.half * (np.array([c.shown for c in found]) - truth)),
            "exact_error": np.linalg.norm(exact - self.space.half * truth),
        }


def summarise(job: Job, cell: Cell, n: int, record: list[dict]) -> dict:
    stack = {name: np.array([one[name] for one in record]) for name in record[0]}
    bounded = stack["bounded"].mean()
    p = stack["p"]
    ratio = stack["variance"].mean(axis=0) / stack["estimate"].var(axis=0)
    return {
        "population": job.population,
        "n": n,
        "eps": cell.epsilon,
        "notion": cell.notion,
        "errors": cell.cov_type,
        "reconciled": "yes" if cell.reconciled else "no",
        "coverage": stack["covered"].mean(),
        "worst": stack["covered"].mean(axis=0).min(),
        "first": stack["covered"][:, 0].mean(),
        "non-private": stack["exact_covered"].mean(),
        "bounded": bounded,
        "width": np.median(np.where(stack["bounded"], stack["width"], np.inf)),
        "reject 10": (p < 0.10).mean(),
        "reject 5": (p < 0.05).mean(),
        "reject 1": (p < 0.01).mean(),
        "joint 5": (stack["joint"] < 0.05).mean(),
        "calibration": ratio.mean() if bounded > 0.99 else np.nan,
        "s2 mean": stack["sigma2"].mean(),
        "s2 sd": stack["sigma2_error"].std(),
        "privacy sd": np.sqrt(np.median(stack["privacy"], axis=0)),
        "error": np.median(stack["error"]) / np.median(stack["exact_error"]),
    }


def check(row: pd.Series) -> str:
    """The bars that a cell misses (acceptance bars 5.2, 5.3, 5.7), in a word each."""
    missed = []
    if row["bounded"] >= 0.99 and row["width"] < 10 and not 0.93 <= row["coverage"] <= 0.97:
        missed.append("coverage")
    if row["bounded"] >= 0.99 and 10 <= row["width"] < 100 and not 0.92 <= row["coverage"] <= 0.985:
        missed.append("coverage")
    if row["coverage"] < 0.93:
        missed.append("coverage < .93")
    if row["worst"] < 0.90:
        missed.append("worst")
    if row["bounded"] >= 0.99:
        limits = {"reject 10": (0.075, 0.125), "reject 5": (0.035, 0.07), "reject 1": (0.005, 0.017)}
        missed += [name for name, (low, high) in limits.items() if not low <= row[name] <= high]
    elif row["reject 5"] > 0.07:
        missed.append("reject 5")
    return ", ".join(dict.fromkeys(missed)) or "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    started = time.time()
    chosen = [job for job in jobs() if options.only in job.population]
    chosen.sort(key=lambda job: -job.n * len(job.cells))
    with ProcessPoolExecutor(options.processes) as pool:
        results = list(pool.map(run, chosen, [options.replications] * len(chosen)))
    table = pd.DataFrame([row for rows in results for row in rows])
    table["misses"] = table.apply(check, axis=1)
    text = report(table, options.replications, time.time() - started)
    print(text)
    if not options.only:
        Path(__file__).with_suffix(".md").write_text(text, encoding="utf-8")


def report(table: pd.DataFrame, replications: int, seconds: float) -> str:
    shown = table.drop(columns=["privacy sd", "s2 mean", "s2 sd", "calibration", "first", "error"]).copy()
    for name in shown.columns[6:-1]:
        shown[name] = shown[name].map(lambda v: "inf" if np.isinf(v) else f"{v:.3f}")
    lines = [
        "# Coverage of dp_ols",
        "",
        f"{len(table)} cells, {replications} data sets each, simulated noise, nominal 95 %. Coverage is averaged over "
        "the coefficients but the intercept; `worst` is the least covered one; unbounded intervals count as covering. "
        "`width` is the median half-width over the non-private one's; `reject` are rejection rates of true hypotheses "
        f"at 10, 5, 1 %; `misses` names the bars that a cell misses. Written by coverage_ols.py in {seconds / 60:.0f} "
        "minutes.",
        "",
        markdown(shown),
        "",
        "## Reconciliation: privacy sd with / without",
        "",
        markdown(reconciliation(table)),
        "",
        "## Robust standard errors: heteroskedastic errors",
        "",
        markdown(robust(table)),
        "",
        "## Calibration, width below 4: mean q0 / variance of the estimate, s2 / exact, its error / stated sd",
        "",
        markdown(calibration(table)),
        "",
    ]
    return "\n".join(lines)


def reconciliation(table: pd.DataFrame) -> pd.DataFrame:
    keys = ["population", "n", "eps", "notion"]
    plain = table[table["errors"] == "nonrobust"]
    both = plain[plain["reconciled"] == "yes"].merge(plain[plain["reconciled"] == "no"], on=keys)
    rows = []
    for _, row in both.iterrows():
        names = list(population_named(row["population"]).truth)
        ratio = row["privacy sd_x"] / row["privacy sd_y"]
        rows.append({k: row[k] for k in keys} | {name: f"{r:.2f}" for name, r in zip(names, ratio, strict=True)})
    return pd.DataFrame(rows).fillna("")


def robust(table: pd.DataFrame) -> pd.DataFrame:
    part = table[table["population"] == "heteroskedastic"]
    columns = ["n", "notion", "errors", "coverage", "first", "width"]
    found = part[columns].rename(columns={"first": "coverage of the affected slope"})
    return found.round(3).astype(str)


def calibration(table: pd.DataFrame) -> pd.DataFrame:
    part = table[(table["errors"] == "nonrobust") & (table["width"] < 4) & table["calibration"].notna()]
    return part[["population", "n", "eps", "notion", "calibration", "s2 mean", "s2 sd"]].round(3).astype(str)


def markdown(table: pd.DataFrame) -> str:
    head = "| " + " | ".join(map(str, table.columns)) + " |"
    rule = "|" + "---|" * len(table.columns)
    return "\n".join([head, rule, *("| " + " | ".join(map(str, row)) + " |" for row in table.itertuples(index=False))])


if __name__ == "__main__":
    main()
