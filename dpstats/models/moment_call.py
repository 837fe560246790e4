"""A call that releases second moments: checked and planned, with the bounds that it has to buy first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.robust import ScoreTarget
from dpstats.mechanisms.bounds import SHARE, BoundsPlan, plan_bounds, release_bounds
from dpstats.mechanisms.options import HC0, SSP
from dpstats.mechanisms.robust import ScoreStage, require_measurable
from dpstats.mechanisms.ssp import MomentPlan, plan_moments
from dpstats.models.bought import Planned, plan_for_bounds, with_unknown
from dpstats.models.call import (
    Account,
    Table,
    check_infeasible,
    public_schema,
    refuse_if_hopeless,
)
from dpstats.privacy.charge import charge_of
from dpstats.privacy.notions import Budget
from dpstats.records.scores import sum_squared_scores
from dpstats.release.noise import NoiseSource
from dpstats.results.bought import bounds_part, declared_as
from dpstats.results.release import MomentRelease
from dpstats.specification.design import build_design
from dpstats.specification.formula import undeclared_numbers
from dpstats.specification.rowmap import RowMap
from dpstats.specification.rules import row_rules
from dpstats.specification.schema import Schema


@dataclass(frozen=True, slots=True)
class Declarations:
    """What a call declares of its columns, as the user wrote it (zone: public)."""

    schema: Any
    bounds: Any
    levels: Any
    missing: Any
    weights: Any
    offset: Any


@dataclass(frozen=True, slots=True)
class MomentCall:
    """A call whose public arguments are checked and whose releases are planned.

    Attributes
    ----------
    formula : str
        As written.
    schema : Schema
        All declarations; (-1, 1) for a column whose bounds are still to be bought.
    plan : MomentPlan
        The main release.
    buying : BoundsPlan or None
        The release of bounds, if columns are undeclared.
    bought : dict of str to Budget
        What bounds have cost, by name of the part.
    table : Table
        What is read, and who is protected; no record was read but for bounds.
    noise : NoiseSource
        Real or simulated noise, or none.
    options : SSP
        As chosen.
    robust : HC0 or None
        Options of robust standard errors.
    account : Account
        The ledger, or none.
    """

    formula: str
    schema: Schema
    plan: MomentPlan
    buying: BoundsPlan | None
    bought: dict[str, Budget]
    table: Table
    noise: NoiseSource
    options: SSP
    robust: HC0 | None
    account: Account

    def spending(self) -> AbstractContextManager[None]:
        """Reserve the call's cost, and commit it after the block."""
        return self.account.spending(charge_of(self.plan.budget, self.plan.law), self.formula)

    def with_bounds(self) -> MomentCall:
        """Buy the bounds of undeclared columns, if there are any, and plan the main release for them."""
        if self.buying is None:
            return self
        found = release_bounds(self.buying, self.table.source, self.noise)
        final = plan_for_bounds(Planned(self.schema, self.plan), found, self._planned)
        bought = {bounds_part(self.buying.names): self.buying.cost}
        return replace(self, schema=final.schema, plan=final.plan, bought=bought)

    def _planned(self, schema: Schema) -> MomentPlan:
        design = build_design(self.formula, schema, self.table.facts, rules=self.plan.coding.design.rules)
        share = _main_share(self.robust, bought=True)
        return plan_moments(
            design,
            self.plan.budget,
            self.table.length.at_most,
            share=share,
            noise=self.plan.law,
            protection=self.table.protection,
        )

    def robust_stage(self, robust: HC0) -> ScoreStage:
        """Return the stage of squared scores."""
        share = robust.share * (1 - SHARE) if self.buying else robust.share
        return ScoreStage(self.plan.law, self.plan.budget, share, self.table.length.at_most)

    def squared_scores(self, target: ScoreTarget) -> Callable[[int], NDArray[np.int64]]:
        """Return the statistic of that stage."""
        row_map, bits = RowMap(self.plan.coding), self.plan.bits
        return lambda steps: sum_squared_scores(
            self.table.source, row_map, bits, target.forms, target.residual, target.clip, target.ranges, steps
        )

    def wrap(self, moments: Any, parts: dict[str, Budget]) -> MomentRelease:
        """Return the release with its cost."""
        privacy = self.account.cost(self.plan.budget, {**self.bought, **parts})
        names = () if self.buying is None else self.buying.names
        rough = self.buying is not None and self.buying.is_rough
        return MomentRelease(
            self.plan.coding, moments, privacy, self.options.reconcile, declared_as(names), names, rough_bounds=rough
        )


def prepare_moments(
    formula: str,
    table: Table,
    budget: Budget,
    declared: Declarations,
    options: SSP,
    infeasible: Any,
    account: Account,
    noise: NoiseSource,
    robust: HC0 | None,
) -> MomentCall:
    """Check a call and plan its releases; no record is read.

    Parameters
    ----------
    formula : str
        As written.
    table : Table
        What is read, and who is protected.
    budget : Budget
        Of the whole call, for one row.
    declared : Declarations
        Of its columns.
    options : SSP
        Mechanism.
    infeasible : object
        As the user wrote it.
    account : Account
        Who is protected, and the ledger.
    noise : NoiseSource
        Real or simulated noise, or none.
    robust : HC0 or None
        Options of robust standard errors.

    Raises
    ------
    BudgetError, SchemaError, FormulaError, DesignError, OptionError, InfeasibleError
        Whatever is wrong with the call.
    """
    check_infeasible(infeasible)
    facts = table.facts
    schema = public_schema(formula, declared.schema, declared.bounds, declared.levels, facts)
    names = undeclared_numbers(formula, schema, facts)
    rules = row_rules(declared.missing, declared.weights, declared.offset, schema, facts)
    schema = with_unknown(schema, names)
    design = build_design(formula, schema, facts, rules=rules)
    length = table.length
    share = _main_share(robust, bought=bool(names))
    plan = plan_moments(design, budget, length.at_most, share=share, noise=options.noise, protection=table.protection)
    relation = table.protection.neighboring_relation
    buying = plan_bounds(names, budget, plan.law, SHARE, length.known, relation) if names else None
    call = MomentCall(formula, schema, plan, buying, {}, table, noise, options, robust, account)
    if robust is not None:
        require_measurable(call.robust_stage(robust), plan.coding.n_columns)
    refuse_if_hopeless(infeasible, plan, length.known, plan.reconcile if options.reconcile else None)
    return call


def _main_share(robust: HC0 | None, *, bought: bool) -> float:
    """Return the share of the main release."""
    return (1 - SHARE if bought else 1.0) * (1.0 if robust is None else 1 - robust.share)
