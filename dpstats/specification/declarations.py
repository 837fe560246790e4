"""Columns that a formula names and nobody declared."""

from __future__ import annotations

from collections.abc import Sequence

from dpstats.errors import FormulaError, SchemaError
from dpstats.specification.schema import Schema, TableFacts


def refuse_several_undeclared(names: Sequence[str], schema: Schema, facts: TableFacts) -> None:
    """Name all columns that lack a declaration, with the line to write; a single one is refused where it is read.

    Raises
    ------
    SchemaError
        If two or more columns of the table are not declared.
    """
    missing = [name for name in names if facts.names.count(name) == 1 and name not in schema]
    if len(missing) < 2:
        return
    textual = [name for name in missing if facts.kinds[name] in {"text", "category"}]
    numeric = [name for name in missing if name not in textual]
    lines = []
    if numeric:
        lines.append("bounds={" + ", ".join(f"{name!r}: (lowest, highest)" for name in numeric) + "}")
    if textual:
        lines.append("levels={" + ", ".join(f"{name!r}: ['...', '...']" for name in textual) + "}")
    raise SchemaError(
        f"columns {', '.join(map(repr, missing))} have no declaration; add {', '.join(lines)} from public knowledge "
        "(levels also for numbers that are codes of categories)"
    )


def require_identities(name: str, facts: TableFacts) -> None:
    """Refuse a column that cannot tell persons apart, by its name and dtype.

    Raises
    ------
    SchemaError
        If the table does not have it once, or it holds neither numbers nor texts.
    """
    if facts.names.count(name) != 1:
        raise SchemaError(f"privacy_unit={name!r} is not a column of data that stands there once")
    if facts.kinds[name] not in {"number", "text", "category", "object", "bool"}:
        raise SchemaError(f"privacy_unit={name!r} must hold numbers or texts that tell persons apart; convert it")


def require_declared(names: Sequence[str], schema: Schema, facts: TableFacts) -> None:
    """Refuse columns that the table does not have once, or that nobody declared.

    Raises
    ------
    FormulaError
        If a name is no column of the table.
    SchemaError
        If a column stands twice in the table or has no declaration.
    """
    for name in names:
        if facts.names.count(name) > 1:
            raise SchemaError(f"column name {name!r} appears twice in data; rename one of the two")
        if name not in facts.names:
            known = ", ".join(map(repr, facts.names))
            raise FormulaError(f"{name!r} is not a column of data; its columns are {known}")
        if name not in schema:
            if facts.kinds[name] in {"text", "category"}:
                raise SchemaError(
                    f"column {name!r} has no declared levels; add levels={{{name!r}: ['...', '...']}} with all the "
                    "levels that it can take"
                )
            raise SchemaError(
                f"column {name!r} has no declared bounds; add bounds={{{name!r}: (lowest, highest)}} from public "
                f"knowledge, or levels={{{name!r}: [...]}} if it is a category"
            )
