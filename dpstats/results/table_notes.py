"""What stands below a regression table: what its numbers contain, and which of them are not private."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpstats.results.table_columns import NOISY, PUBLIC_LENGTH, TableColumn

HIDDEN = "-"
NOT_PRIVATE = "NOT PRIVATE"
STARS = "* p<.1, ** p<.05, *** p<.01"
Columns = Mapping[str, TableColumn]


def notes_of(columns: Columns, below: str, *, hidden: bool) -> list[str]:
    """Return the notes of a table.

    Parameters
    ----------
    columns : mapping of str to TableColumn
        By the number in the head, as in ``(1)``.
    below : str
        What stands below the coefficients, as a sentence begins.
    hidden : bool
        True if some standard error is shown as `HIDDEN`.
    """
    ours = {name: column for name, column in columns.items() if column.is_ours}
    shown = [text for column in columns.values() for text in column.facts.values()]
    notes = [
        *_warning(columns),
        _contents(columns, below),
        *_fieller(ours),
        *([f"{HIDDEN}: privacy noise leaves the coefficient unidentified."] if hidden else []),
        *([f"{NOISY}: with privacy noise."] if any(text.endswith(NOISY) for text in shown) else []),
        *([_LENGTH] if any(text.endswith(PUBLIC_LENGTH) for text in shown) else []),
        *_protection(ours),
        *_grouped("Estimand of {}: {}.", {name: column.fit.estimand for name, column in ours.items()}),
        *_successes(ours),
    ]
    return [note for note in notes if note]


_LENGTH = f"{PUBLIC_LENGTH}: length of the table; how many rows were complete was not released."


def _warning(columns: Columns) -> list[str]:
    reasons = [f"{name} {column.not_private}" for name, column in columns.items() if column.not_private]
    if not reasons:
        return []
    return [f"{NOT_PRIVATE}: {'; '.join(reasons)}. Do not publish these columns as private releases."]


def _contents(columns: Columns, below: str) -> str:
    kinds = {
        name: "sampling and privacy noise" if column.has_privacy_noise else "sampling noise only"
        for name, column in columns.items()
        if column.has_errors
    }
    parts = [f"those of {', '.join(names)} reflect {kind}" for kind, names in _groups(kinds).items()]
    bare = [f"{name} has none" for name, column in columns.items() if not column.has_errors]
    return f"{below}; {'; '.join(parts + bare)}."


def _fieller(ours: Columns) -> list[str]:
    names = [name for name, column in ours.items() if column.has_privacy_noise]
    if not names:
        return []
    test = "invert a test (Fieller); they do not follow from the standard errors"
    return [f"Intervals and p-values of {', '.join(names)} {test}."]


def _protection(ours: Columns) -> list[str]:
    private = {name: column.fit for name, column in ours.items() if not column.not_private}
    protections = {name: fit.privacy.protection for name, fit in private.items()}
    notes = _grouped(
        "Privacy of {}: {}.", {name: f"{p.relation}; privacy unit: {p.unit}" for name, p in protections.items()}
    )
    releases = _groups({name: id(getattr(fit, "release", fit)) for name, fit in private.items()})
    notes += [f"One release, paid for once: {', '.join(names)}." for names in releases.values() if len(names) > 1]
    more = ["Budgets of different releases from the same records add up."] if len(releases) > 1 else []
    return notes + more


def _successes(ours: Columns) -> list[str]:
    levels = {name: column.fit.levels[-1] for name, column in ours.items() if getattr(column.fit, "levels", None)}
    return _grouped("Success in {}: {}.", {name: f"{ours[name].response} = {last}" for name, last in levels.items()})


def _grouped(sentence: str, said: Mapping[str, str]) -> list[str]:
    return [sentence.format(", ".join(names), text) for text, names in _groups(said).items()]


def _groups(values: Mapping[str, Any]) -> dict[Any, list[str]]:
    """Return the names that share a value, by value."""
    return {value: [name for name, other in values.items() if other == value] for value in values.values()}
