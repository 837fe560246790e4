"""`ssp`: one release of all second moments, from which least squares and its inference follow.

public    blocks, atoms, weights, sensitivity, scales: the plan, with its cost recomputed from the scales
private   rows -> coded columns -> integer lattice -> one exact sum per atom
release   one noise draw per atom
public    moments with a known noise law; everything after this is post-processing
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.inference.estimates import ModelSpace, model_space
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.reconcile import reconcile
from dpstats.mechanisms.lattice import MAX_BITS, TINY, TOO_SMALL, choose_bits
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.privacy.unit import ONE_ROW, Protection
from dpstats.records.moments import sum_atoms
from dpstats.records.source import Source
from dpstats.release.noise import TRANSFER_VARIANCE, NoiseSource, gaussian_scale, laplace_scale
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.atoms import Atoms, build_atoms
from dpstats.specification.coding import Coding, code_design
from dpstats.specification.design import Design
from dpstats.specification.identities import find_identities
from dpstats.specification.remember import remembered
from dpstats.specification.rowmap import RowMap
from dpstats.specification.sensitivity import (
    NoiseKind,
    Relation,
    alias_factor,
    atom_weights,
    count_weight,
    l1_sensitivity,
    l2_sensitivity,
    row_norms,
)
from dpstats.specification.view import ModelView, full_view
from dpstats.specification.weights import SLOPES, default_weights


@dataclass(frozen=True, slots=True, eq=False)
class MomentPlan:
    """Everything about a moment release that is fixed before a record is read (zone: public).

    Attributes
    ----------
    coding : Coding
        Coded columns.
    view : ModelView
        The formula's model columns.
    atoms : Atoms
        Released sums.
    block_weights : ndarray
        s_b, shape (blocks,).
    weights : ndarray
        Total weight (Laplace) or precision (Gaussian) per atom, shape (K,).
    bits : int
        Lattice of step 2**-bits per column, 2**(-2 bits) per product.
    sensitivity : float
        Delta_1 or Delta_2 of the weighted sums, in coded units, lattice factors included.
    noise : NoisePlan
        Scales in units of 2**(-2 bits).
    variances : ndarray
        Noise variance per atom in coded units, shape (K,); 0 without noise.
    budget : Budget
        What was asked for.
    cost : Budget
        What this release spends, recomputed from the scales.
    n_public : int or None
        Number of complete rows, where it is public.
    """

    coding: Coding
    view: ModelView
    atoms: Atoms
    block_weights: NDArray[np.float64]
    weights: NDArray[np.float64]
    bits: int
    sensitivity: float
    noise: NoisePlan
    variances: NDArray[np.float64]
    budget: Budget
    cost: Budget
    n_public: int | None = None

    @property
    def law(self) -> NoiseKind:
        """Law of the noise."""
        return self.coding.noise

    @property
    def space(self) -> ModelSpace:
        """The formula's columns in coded space."""
        return model_space(self.view, self.coding)

    def code_public(self, columns: Mapping[str, Any], n_rows: int) -> NDArray[np.float64]:
        """Return the coded columns of public rows, shape (n_rows, D_x)."""
        return RowMap(self.coding, with_response=False).code(columns, n_rows).columns

    def reconcile(self, moments: NoisyMoments) -> NoisyMoments:
        """Let redundant sums agree."""
        return reconcile(moments, find_identities(self.coding.all_blocks, self.atoms, self.coding.signs))


@remembered
def plan_moments(
    design: Design,
    budget: Budget,
    n_rows: int,
    *,
    share: float = 1.0,
    noise: Literal["auto"] | NoiseKind = "auto",
    protection: Protection = ONE_ROW,
) -> MomentPlan:
    """Plan the release of a design's second moments; for (epsilon, delta) take the noise with the smaller forecast.

    Parameters
    ----------
    design : Design
        Model columns.
    budget : Budget
        What may be spent by the whole fit.
    n_rows : int
        Public length of the table, or the most rows that it can have; fixes the lattice.
    share : float
        Share of the budget for this release: of epsilon, or of mu^2 and rho.
    noise : {"auto", "laplace", "gaussian"}
        Law of the noise; "auto" chooses by the forecast where the budget allows both.
    protection : Protection, optional
        Neighbouring relation. Where it makes the length public and no entry is missing, the count gets no noise.

    Raises
    ------
    DesignError
        If the design is rank-deficient whatever the data.
    BudgetError
        If the budget is so small that the noise does not fit the lattice, or does not allow the noise asked for.
    """
    allowed: list[NoiseKind] = ["laplace"] if budget.rho is None or not budget.is_private else []
    allowed += ["gaussian"] if budget.is_private and (budget.rho or budget.delta) else []
    if noise != "auto" and noise not in allowed:
        raise BudgetError(
            f"{noise} noise needs {'an epsilon' if noise == 'laplace' else 'a delta or rho'}, not {budget}"
        )
    plans, refusals = [], []
    for kind in allowed if noise == "auto" else [noise]:
        try:
            plans.append(_plan(design, kind, budget, n_rows, share, protection))
        except BudgetError as error:
            refusals.append(error)
    if not plans:
        raise refusals[0]
    return min(plans, key=forecast_variance)


def _plan(
    design: Design, kind: NoiseKind, budget: Budget, n_rows: int, share: float, protection: Protection
) -> MomentPlan:
    coding = code_design(design, kind)
    view = full_view(coding)
    blocks = coding.all_blocks
    atoms = build_atoms(blocks, coding.signs, weighted=design.rules.weights is not None)
    block_weights = default_weights(blocks, kind)
    relation = protection.neighboring_relation
    weights = atom_weights(blocks, atoms, block_weights, kind, relation)
    strength = stage_strength(budget, kind, share)
    if strength < TINY:
        raise BudgetError(TOO_SMALL)
    per_unit = 1 / (strength * (weights if kind == "laplace" else np.sqrt(weights)))
    widest = _sensitivity(coding, atoms, block_weights, MAX_BITS, relation)
    bits = choose_bits(n_rows, widest * float(per_unit.max()))
    sensitivity = _sensitivity(coding, atoms, block_weights, bits, relation)
    reach = sensitivity * 4.0**bits
    scales = laplace_scale(reach * per_unit) if kind == "laplace" else gaussian_scale(reach * per_unit)
    variances = (2 * scales**2 if kind == "laplace" else scales**2) / 16.0**bits
    n_public = n_rows if design.rules.missing == "none" and protection.length_is_public else None
    if n_public is not None:
        variances[atoms.count] = 0.0
    return MomentPlan(
        coding,
        view,
        atoms,
        block_weights,
        weights,
        bits,
        sensitivity,
        NoisePlan(kind, scales, reach / (weights if kind == "laplace" else np.sqrt(weights))),
        variances if budget.is_private else np.zeros_like(variances),
        budget,
        stage_cost(kind, scales, weights, reach, budget),
        n_public,
    )


def _sensitivity(
    coding: Coding, atoms: Atoms, block_weights: NDArray[np.float64], bits: int, relation: Relation
) -> float:
    norms = row_norms(coding.all_blocks, block_weights, coding.noise, bits)
    count = count_weight(norms, coding.noise, relation, atoms)
    measure = l1_sensitivity if coding.noise == "laplace" else l2_sensitivity
    size = measure(norms, relation, count)
    return size * alias_factor(coding.all_blocks, atoms, bits)


def stage_cost(
    kind: NoiseKind, scales: NDArray[np.float64], weights: NDArray[np.float64], reach: float, budget: Budget
) -> Budget:
    """Recompute what a stage spends from the scales that are passed to the sampler.

    Parameters
    ----------
    kind : {"laplace", "gaussian"}
        Law of the noise.
    scales : ndarray
        Lattice units, shape (K,).
    weights : ndarray
        Weight or precision per atom, shape (K,).
    reach : float
        Sensitivity of the weighted sums in lattice units.
    budget : Budget
        The fit's budget.

    Returns
    -------
    Budget
        epsilon of Laplace noise, rho = mu^2 / 2 of Gaussian noise.

    Notes
    -----
    Laplace: sum |D_k| / t_k <= max_k 1/(t_k w_k) * sum w_k |D_k|. Gaussian: the same with squares, for a rho budget
    with s_k^2 (the discrete Gaussian's exact zCDP), for (epsilon, delta) with s_k^2 - 9 (the transfer rule).
    """
    if not budget.is_private:
        return budget
    if kind == "laplace":
        return Budget(epsilon=reach * float((1 / (scales * weights)).max()))
    squares = scales**2 - (TRANSFER_VARIANCE if budget.delta else 0.0)
    return Budget(rho=reach**2 * float((1 / (squares * weights)).max()) / 2)


def forecast_variance(plan: MomentPlan) -> float:
    """Predict, up to a constant, the noise variance of a slope: X'y directly, X'X through a guessed slope vector."""
    blocks, index = plan.coding.all_blocks, plan.atoms.index
    varying = [bool(b.degrees or b.factors or b.vectors) for b in blocks[:-1] for _ in range(b.n_columns)]
    slopes = np.flatnonzero(varying)
    if not len(slopes):
        return float(plan.variances[plan.atoms.count])
    response = len(index) - 1
    direct = float(np.mean(plan.variances[index[slopes, response]]))
    pairs = index[np.ix_(slopes, slopes)]
    return direct + SLOPES * float(np.mean(plan.variances[pairs[pairs >= 0]]))


def release_moments(plan: MomentPlan, source: Source, noise: NoiseSource) -> NoisyMoments:
    """Read the table once and release its noisy second moments.

    Parameters
    ----------
    plan : MomentPlan
        From `plan_moments`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    row_map = RowMap(plan.coding)
    released = release_integers(
        lambda: sum_atoms(source, row_map, plan.atoms, plan.bits),
        plan.noise,
        noise,
    )
    values = released.astype(np.float64) / 4.0**plan.bits
    if plan.n_public is not None:
        values[plan.atoms.count] = plan.n_public
    return NoisyMoments(
        values=values,
        variances=plan.variances,
        law=plan.coding.noise,
        index=plan.atoms.index,
        count=plan.atoms.count,
    )
