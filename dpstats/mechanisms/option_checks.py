"""Checks that options of mechanisms share."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpstats.errors import OptionError, shown


def require_instance(argument: str, value: object, classes: tuple[type, ...]) -> None:
    """Refuse a class of options where an object is meant.

    Raises
    ------
    OptionError
        If `value` is one of the classes.
    """
    if isinstance(value, type) and issubclass(value, classes):
        raise OptionError(f"{argument}=dps.{value.__name__} is a class; write {argument}=dps.{value.__name__}()")


def require_choice(options: object, choices: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse an attribute that is none of its choices.

    Raises
    ------
    OptionError
        Naming the attribute and the choices.
    """
    for name, allowed in choices.items():
        value = getattr(options, name)
        if not isinstance(value, str) or value not in allowed:
            *others, last = map(repr, allowed)
            raise OptionError(f"{name} must be {', '.join(others)} or {last}, not {shown(value)}")


def require_number(
    options: object, name: str, low: float, high: float, *, closed: bool = False, what: str = ""
) -> None:
    """Refuse an attribute that is no number from `low` to below `high`, or to `high` itself if the range is closed.

    Raises
    ------
    OptionError
        Naming the attribute and the range.
    """
    value = getattr(options, name)
    number = not isinstance(value, bool) and isinstance(value, int | float)
    if not number or not (low <= value < high or (closed and value == high)):
        raise OptionError(
            f"{name} must be {what or 'a number '}from {low:g}"
            + (f" to {'' if closed else 'below '}{high:g}" if high < math.inf else "")
            + f", not {shown(value)}"
        )
