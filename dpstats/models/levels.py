"""Private levels on their own: a schema for columns whose categories are not publicly known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpstats.errors import BudgetError, SchemaError
from dpstats.mechanisms.levels import find_levels, plan_levels
from dpstats.models.call import Sealed, Unit, account_of, check_columns, table_of
from dpstats.privacy.charge import Charge
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import budget_of
from dpstats.release.noise import noise_source
from dpstats.specification.schema import Categorical, Schema
from dpstats.specification.sensitivity import Relation


def private_levels(
    data: Any,
    columns: Sequence[str],
    epsilon: float,
    delta: float | None = None,
    *,
    neighboring_relation: Relation = "replace_one",
    n_public: int | None = None,
    contributions: int = 1,
    privacy_unit: str | None = None,
    ledger: Ledger | None = None,
    progress: bool = False,
    rng: np.random.Generator | None = None,
) -> Schema:
    """Find the frequent values of columns under differential privacy.

    Levels from a codebook are better and free. Rows with a value that is not found count as missing in later fits, so
    look at how many rows a fit then has.

    Parameters
    ----------
    data : table
        One row per record; any kind that `dp_ols` takes.
    columns : sequence of str
        Columns of texts, categories, bools or numbers; the budget is shared by all of them.
    epsilon, delta : float
        An (epsilon, delta) budget: a value that only one person has is shown with probability delta at most. An
        infinite epsilon shows all values, and is not private.
    neighboring_relation, n_public, contributions, privacy_unit
        As for `dp_ols`.
    ledger : Ledger, optional
        Account that the release is charged to before a record is read; the one of a surrounding ``with ledger:`` by
        default. It must have set a `levels_delta` aside.
    progress : bool
        Show on stderr how far a call is, as for `dp_ols`.
    rng : numpy.random.Generator, optional
        Simulated noise for studies and tests; NOT PRIVATE. None draws real noise.

    Returns
    -------
    Schema
        With `Categorical` columns, texts in alphabetical order before numbers in increasing order; a column of which
        nothing was found is left out.

    Raises
    ------
    BudgetError, SchemaError, DataError, OptionError, InfeasibleError, BudgetExceeded
        From public facts only, before a record is read; nothing is spent then.

    Notes
    -----
    Each value that occurs gets a count with discrete Laplace noise, and is shown if that reaches a threshold which a
    value that occurs once reaches with probability delta at most (Korolova et al. 2009; `dpstats.mechanisms.levels` has
    the proof).

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> dps.private_levels(adult, ["sex"], epsilon=0.5, delta=1e-6)["sex"].levels
    ('Female', 'Male')
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    budget = budget_of(epsilon, delta, None)
    if budget.is_private and budget.delta is None:
        raise BudgetError("private_levels needs a delta, as in delta=1e-6: that a value occurs may show by chance")
    table = table_of(sealed, Unit(contributions, neighboring_relation, privacy_unit, n_public), progress)
    noise = noise_source(rng, private=budget.is_private)
    account = account_of(ledger, table, noise)
    budget = account.protection.of_row(budget)
    names = check_columns(columns)
    facts = table.facts
    for name in names:
        if facts.names.count(name) != 1 or facts.kinds[name] not in {"text", "category", "object", "bool", "number"}:
            raise SchemaError(f"{name!r} is not a column of data that holds texts, categories, bools or numbers")
    plan = plan_levels(names, budget, table.length.known, neighboring_relation)
    charge = Charge(budget, budget.epsilon or 0.0, 0.0, budget.delta or 0.0)
    with account.spending(charge, f"levels of {', '.join(names)}"):
        found = find_levels(plan, table.source, noise)
    return Schema({name: Categorical(levels) for name, levels in found.items() if levels})
