"""What several test files need: plans of a formula on arrays, and moments without a lattice or with given noise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from dpstats.inference.estimates import ModelSpace, model_space
from dpstats.inference.moments import NoisyMoments
from dpstats.mechanisms.ssp import MomentPlan, plan_moments
from dpstats.privacy.notions import Budget
from dpstats.records.source import as_source
from dpstats.specification.design import build_design
from dpstats.specification.rowmap import RowMap
from dpstats.specification.schema import Schema


@dataclass(frozen=True)
class Planned:
    """A planned release of a formula on a table."""

    plan: MomentPlan
    data: dict
    space: ModelSpace

    @property
    def names(self) -> list[str]:
        return self.plan.coding.design.exog_names

    def coded(self) -> tuple[np.ndarray, np.ndarray]:
        """Coded columns of the complete rows, response last, and the rows' mask."""
        source = as_source(self.data)
        rows = RowMap(self.plan.coding).code(source.arrays, source.n_rows)
        return rows.columns[rows.complete], rows.complete

    def exact(self) -> NoisyMoments:
        """Moments in floating point, without lattice and noise."""
        z, _ = self.coded()
        atoms = self.plan.atoms
        products = z.T @ z
        values = np.where(atoms.left < 0, len(z), products[atoms.left, atoms.right])
        zeros = np.zeros_like(values)
        return NoisyMoments(values, zeros, self.plan.coding.noise, atoms.index, atoms.count)

    def exact_with_noise(self) -> NoisyMoments:
        """Exact values with the plan's variances, for formulas that need both."""
        return replace(self.exact(), variances=self.plan.variances)

    def noisy(self, rng: np.random.Generator) -> NoisyMoments:
        """The same with continuous noise of the plan's law."""
        exact, variances = self.exact(), self.plan.variances
        if exact.law == "laplace":
            noise = rng.laplace(scale=np.sqrt(variances / 2))
        else:
            noise = rng.normal(scale=np.sqrt(variances))
        return replace(exact, values=exact.values + noise, variances=variances)


def planned(formula: str, data: dict, schema: dict, **budget: float) -> Planned:
    """Plan a release; ``epsilon=1`` by default."""
    source = as_source(data)
    design = build_design(formula, Schema(schema), source.facts)
    plan = plan_moments(design, Budget(**(budget or {"epsilon": 1.0})), source.n_rows)
    return Planned(plan, data, model_space(plan.view, plan.coding))
