"""Seven faults planted into the real code, and the layers of checks that are to notice them.

Shared by ``test_audit.py`` and ``benchmarks/planted_faults.py``.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from scipy import stats

import dpstats as dps
from dpstats.mechanisms import ssp
from dpstats.mechanisms.ssp import plan_moments
from dpstats.models import ols
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.records.moments import sum_atoms
from dpstats.records.source import as_source
from dpstats.release.noise import RealNoise
from dpstats.specification import row_symbols
from dpstats.specification.coercion import to_numbers
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Continuous, Schema
from dpstats.specification.sensitivity import l2_sensitivity

N = 24
BOUNDS = {"x": (-1, 1), "z": (-1, 1), "y": (-1, 1)}
SCHEMA = Schema({name: Continuous(*ends) for name, ends in BOUNDS.items()})
FORMULA = "y ~ x + z"
BEYOND = 50.0
"""An entry far beyond its bounds."""

# -- faults ----------------------------------------------------------------------------------------------------------


def half_the_sensitivity(patch):
    true = ssp._sensitivity
    patch.setattr(ssp, "_sensitivity", lambda *args: true(*args) / 2)


def a_forgotten_block(patch):
    true = ssp.row_norms
    patch.setattr(ssp, "row_norms", lambda blocks, weights, *rest: true(blocks[:-1], weights[:-1], *rest))


def noise_reused(patch):
    true, kept = RealNoise.prepare, {}

    def prepare(self, law, scales, distances):
        add = true(self, law, scales, distances)
        key = (law, scales.tobytes())
        if key not in kept:
            kept[key] = add(np.zeros(len(scales), dtype=np.int64))
        return lambda values: values + kept[key]

    patch.setattr(RealNoise, "prepare", prepare)


def n_released_exactly(patch):
    true = ols.release_moments

    def release(plan, source, noise):
        moments = true(plan, source, noise)
        exact = sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)
        moments.values[plan.atoms.count] = exact[plan.atoms.count] / 4.0**plan.bits
        return moments

    patch.setattr(ols, "release_moments", release)


def no_clipping(patch):
    true = row_symbols.coerce

    def coerce(schema, columns, n_rows, missing="drop"):
        values, complete = true(schema, columns, n_rows, missing)
        for name, raw in columns.items():
            if isinstance(schema[name], Continuous):
                values[name] = np.nan_to_num(to_numbers(raw))
        return values, complete

    def code_scalar(numbers, symbol, radius=1.0, out=None, *, whole=False):
        coded = np.multiply((numbers - symbol.mid) / symbol.half, radius, out=out)
        return np.rint(coded, out=coded) if whole else coded

    patch.setattr(row_symbols, "coerce", coerce)
    patch.setattr(row_symbols, "code_scalar", code_scalar)


def the_wrong_norm(patch):
    patch.setattr(ssp, "l1_sensitivity", l2_sensitivity)


def a_data_dependent_branch(patch):
    true = ssp.sum_atoms

    def sums(source, row_map, atoms, bits):
        found = true(source, row_map, atoms, bits)
        if found[atoms.count] < N * 4**bits:
            raise ValueError("rows with missing entries")
        return found

    patch.setattr(ssp, "sum_atoms", sums)


FAULTS = {
    "none": lambda patch: None,
    "half the sensitivity": half_the_sensitivity,
    "a forgotten block": a_forgotten_block,
    "noise reused": noise_reused,
    "n released exactly": n_released_exactly,
    "no clipping": no_clipping,
    "the wrong norm": the_wrong_norm,
    "a data-dependent branch": a_data_dependent_branch,
}

# -- layers: each tells whether it notices something -----------------------------------------------------------------


def table(row):
    """A table of plain rows, and one more; None is a missing entry."""
    columns = {name: np.resize(cycle, N - 1) for name, cycle in (("x", [-1, 1]), ("z", [1, 1, -1]), ("y", [-1, 1, 0]))}
    return {
        name: np.append(column.astype(float), np.nan if value is None else value)
        for (name, column), value in zip(columns.items(), row, strict=True)
    }


def pair():
    """One table has a row beyond all bounds where the other has one with a missing entry: the largest change of all."""
    return table((BEYOND, BEYOND, BEYOND)), table((None, 1, 1))


def release(budget, data, **options):
    return dps.dp_moments(FORMULA, data, **budget, bounds=BOUNDS, infeasible="fit", **options)


def exact_sensitivity(_runs):
    """Exact integer sums of extreme and hostile rows, against the scales that the sampler is given."""
    cells = (-1.0, 1.0, None, BEYOND, -np.inf, 0.4)
    rows = list(itertools.product(cells, repeat=3))
    for budget in (Budget(epsilon=1.0), Budget(rho=0.5)):
        source = as_source(table((1, 1, 1)))
        plan = plan_moments(build_design(FORMULA, SCHEMA, source.facts), budget, N)
        one = [{n: np.array([np.nan if c is None else c]) for n, c in zip(BOUNDS, row, strict=True)} for row in rows]
        exact = np.array([_sums(plan, as_source(data)) for data in one], dtype=float)
        change = np.abs(exact[:, None, :] - exact[None, :, :])
        if plan.law == "laplace":
            if (change / plan.noise.scales).sum(axis=-1).max() > budget.epsilon * (1 + 1e-9):
                return True
        elif (change**2 / (plan.noise.scales**2 - 9)).sum(axis=-1).max() > stage_strength(budget, "gaussian") ** 2:
            return True
    return False


def _sums(plan, source):
    try:
        return ssp.sum_atoms(source, RowMap(plan.coding), plan.atoms, plan.bits)
    except ValueError:  # the branch of a fault: not this layer's to see
        return np.zeros(plan.atoms.n_atoms)


def noise_law(runs):
    """Releases minus exact sums: distinct, of the stated law and spread, and uncorrelated."""
    data = table((1, 1, 1))
    for budget in ({"epsilon": 1.0}, {"rho": 0.5}):
        moments = [release(budget, data).moments for _ in range(runs)]
        exact = release({"epsilon": np.inf}, data).moments
        noise = np.array([m.values for m in moments]) - exact.values
        standard = noise / np.sqrt(moments[0].variances)
        law = stats.norm() if moments[0].law == "gaussian" else stats.laplace(scale=np.sqrt(0.5))
        if any(len(np.unique(column)) < 0.9 * runs for column in standard.T):
            return True
        if any(stats.kstest(column, law.cdf).pvalue < 1e-10 for column in standard.T):
            return True
        if np.abs(np.corrcoef(standard.T) - np.eye(standard.shape[1])).max() > 7.5 / np.sqrt(runs):
            return True
    return False


def black_box(runs):
    """An audit from outside of all that a pure release shows."""
    one, other = pair()
    return not dps.audit_fit(
        lambda data: release({"epsilon": 1.0}, data), one, other, 1.0, runs=runs, alpha=1e-9
    ).passed


def direct_mu(runs):
    """The distance of the two tables' sums in standard deviations of Gaussian noise."""
    one, other = pair()
    claimed = {"rho": 0.5}
    report = dps.audit_fit(lambda data: release(claimed, data), one, other, claimed, runs=runs, alpha=1e-9)
    return report.mu is not None and report.mu > report.mu_claimed


def ends_alike(_runs):
    """The same call on neighbouring tables, with the same simulated noise: same names, errors and warnings."""

    def ending(data):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fit = dps.dp_ols(FORMULA, data, 1.0, bounds=BOUNDS, infeasible="fit", rng=np.random.default_rng(0))
                end = (type(fit).__name__, *fit.params.index)
            except dps.DPStatsError as error:
                end = (type(error).__name__, str(error))
        return end, [str(warning.message) for warning in caught]

    one, other = pair()
    return not ending(one) == ending(other) == ending(table((0, 0, 0)))


LAYERS = {
    "exact sensitivity": exact_sensitivity,
    "noise law": noise_law,
    "black box": black_box,
    "direct mu": direct_mu,
    "ends alike": ends_alike,
}
CAUGHT_BY = {
    "none": (),
    "half the sensitivity": ("exact sensitivity", "direct mu"),
    "a forgotten block": ("exact sensitivity",),
    "noise reused": ("noise law", "black box"),
    "n released exactly": ("noise law", "black box"),
    "no clipping": ("exact sensitivity", "black box"),
    "the wrong norm": ("exact sensitivity",),
    "a data-dependent branch": ("black box", "ends alike"),
}
"""What the tests ask for; with more runs other layers may notice too."""
RUNS = {"exact sensitivity": 0, "noise law": 120, "black box": 160, "direct mu": 1000, "ends alike": 0}
