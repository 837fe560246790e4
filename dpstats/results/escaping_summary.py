"""A statsmodels ``Summary`` that escapes what statsmodels leaves as it is."""

from __future__ import annotations

import copy
import html
from collections.abc import Callable
from typing import Any

from dpstats.results.escape import LATEX_REST, latex


def escaping_summary() -> Any:
    """Return an empty statsmodels ``Summary`` that escapes what statsmodels leaves as it is."""
    from statsmodels.iolib.summary import Summary

    class DPSummary(Summary):  # type: ignore[misc]
        """A statsmodels summary with escaped HTML and LaTeX, and CSV whose cells may hold commas."""

        def as_html(self) -> str:
            plain = self._with_cells(html.escape)
            for table in plain.tables:
                table.title = html.escape(table.title) if table.title else table.title
            plain.extra_txt = html.escape(plain.extra_txt or "")
            return str(super(DPSummary, plain).as_html())

        def as_latex(self) -> str:
            plain = self._with_cells(lambda text: text.translate(LATEX_REST))
            plain.extra_txt = latex(plain.extra_txt or "")
            return str(super(DPSummary, plain).as_latex())

        def as_csv(self) -> str:
            plain = self._with_cells(lambda text: '"' + text.replace('"', '""') + '"' if "," in text else text)
            return str(super(DPSummary, plain).as_csv())

        def _with_cells(self, escape: Callable[[str], str]) -> DPSummary:
            plain = copy.deepcopy(self)
            for table in plain.tables:
                for row in table:
                    for cell in row:
                        cell.data = escape(str(cell.data))
            return plain

    return DPSummary()
