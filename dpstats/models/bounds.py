"""Private bounds on their own: a schema for numeric columns whose ranges are not publicly known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstats.errors import SchemaError
from dpstats.mechanisms.bounds import plan_bounds, release_bounds
from dpstats.models.call import Sealed, Unit, account_of, check_columns, table_of
from dpstats.privacy.charge import charge_of
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import budget_of
from dpstats.release.noise import noise_source
from dpstats.results.bought import bounds_part
from dpstats.specification.schema import Schema
from dpstats.specification.sensitivity import Relation


def private_bounds(
    data: Any,
    columns: Sequence[str],
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    neighboring_relation: Relation = "replace_one",
    n_public: int | None = None,
    contributions: int = 1,
    privacy_unit: str | None = None,
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> Schema:
    """Find bounds of numeric columns under differential privacy.

    Declared bounds are better and free. Bounds found here are released numbers: a schema made of them serves any number
    of fits, and costs once.

    Parameters
    ----------
    data : table
        One row per record; any kind that `dp_ols` takes.
    columns : sequence of str
        Numeric columns; the budget is shared by all of them.
    epsilon : float, optional
        Pure epsilon-DP budget; with `delta`, an (epsilon, delta) budget.
    delta : float, optional
        Needs `epsilon`.
    rho : float, optional
        zCDP budget, instead of `epsilon`.
    neighboring_relation, n_public, contributions, privacy_unit
        As for `dp_ols`.
    ledger : Ledger, optional
        Account that the release is charged to before a record is read; the one of a surrounding ``with ledger:`` by
        default.
    progress : bool
        Show on stderr how far a call is, as for `dp_ols`.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    Schema
        With the bounds; (-1, 1) for a column of which nothing was found.

    Raises
    ------
    BudgetError, SchemaError, DataError, OptionError, InfeasibleError, BudgetExceeded
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    Two noisy histograms of each column, on a public grid of powers of 2 and on 32 cells over what that finds; the hull
    of the significant cells is widened by half and rounded outward. One record changes 2 counts of each column at each
    level.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> found = dps.private_bounds(adult, ["age"], epsilon=0.5)
    >>> found["age"].lower <= 20 and found["age"].upper >= 70
    True
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    budget = budget_of(epsilon, delta, rho)
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit, n_public), progress)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    names = check_columns(columns)
    facts = table.facts
    for name in names:
        if facts.names.count(name) != 1 or facts.kinds[name] != "number":
            raise SchemaError(f"{name!r} is not a numeric column of data; bounds can be bought for numbers only")
    law = "gaussian" if budget.is_private and (budget.rho or budget.delta) else "laplace"
    relation = table.protection.neighboring_relation
    plan = plan_bounds(names, budget, law, 1.0, table.length.known, relation)  # type: ignore[arg-type]
    with account.spending(charge_of(budget, law), bounds_part(plan.names)):
        return Schema(dict(release_bounds(plan, table.source, noise)))
