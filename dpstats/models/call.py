"""What every model does with its arguments before a record is read."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.errors import OptionError, SchemaError, shown
from dpstats.forecast import PlannedMoments, Usable, require_feasible
from dpstats.privacy.notions import Budget
from dpstats.release.noise import NoiseSource, NoNoise, RealNoise, SimulatedNoise
from dpstats.specification.schema import Schema, TableFacts, complete_schema


def noise_source(rng: Any, budget: Budget) -> NoiseSource:
    """Return real noise, simulated noise, or none for an infinite budget.

    Raises
    ------
    OptionError
        If `rng` is not a numpy Generator.
    """
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise OptionError(f"rng must be a numpy Generator, as in numpy.random.default_rng(1), not {shown(rng)}")
    if not budget.is_private:
        return NoNoise()
    return RealNoise() if rng is None else SimulatedNoise(rng)


def public_schema(schema: Any, bounds: Any, levels: Any, facts: TableFacts) -> Schema:
    """Join what is declared in the three arguments, and the bool columns of the table.

    Raises
    ------
    SchemaError
        If a declaration cannot be read.
    """
    if schema is not None and not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a dpstats.Schema, not {type(schema).__name__}")
    declared = (schema or Schema({})).updated(Schema.from_declarations(bounds, levels))
    return complete_schema(declared, facts)


def check_infeasible(infeasible: Any) -> None:
    """Check the argument that says what to do where nothing useful can come out.

    Raises
    ------
    OptionError
        If it is neither "refuse" nor "fit".
    """
    if not isinstance(infeasible, str) or infeasible not in ("refuse", "fit"):
        raise OptionError(f"infeasible must be 'refuse' or 'fit', not {shown(infeasible)}")


def refuse_if_hopeless(infeasible: str, plan: PlannedMoments, n_rows: int, usable: Usable | None = None) -> None:
    """Ask the forecast, unless the user goes on anyway.

    Raises
    ------
    InfeasibleError
        If nothing useful can come out.
    """
    if infeasible == "refuse":
        require_feasible(plan, n_rows, usable)
