"""The class by which table libraries recognise a statsmodels result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    ResultsWrapper = object
else:
    from statsmodels.base.wrapper import ResultsWrapper


class StatsmodelsClass(ResultsWrapper):
    """Base of results that answer as a statsmodels result does: labelled Series, ``conf_int()``, ``model``.

    Stargazer looks for ``ResultsWrapper`` among the bases of a result and then reads its attributes. Nothing is wrapped
    here, so attributes are looked up as on any object.
    """

    __getattribute__ = object.__getattribute__
    __dir__ = object.__dir__
