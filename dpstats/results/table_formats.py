"""A regression table's cells as text, LaTeX, HTML and Markdown; statsmodels' ``SimpleTable`` lays out the first three.

Every name, number and note is escaped here, once, just before it is laid out.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpstats.results import escape

_TEXT = {"table_dec_below": "=", "colsep": "  ", "data_aligns": "c"}
# Braces around the first cell of a row: after \\ LaTeX would read a * or a [ as belonging to the command.
_LATEX = {"replacements": {}, "header": "%s", "stub": "{%s}", "data_aligns": "c"}
_NARROWEST = 70


@dataclass(frozen=True, slots=True)
class TableCells:
    """The cells of a table as plain text (zone: released).

    Attributes
    ----------
    title : str
        Empty for none.
    header : list of list of str
        Lines of the head, each with one cell per fit.
    coefficients, facts : list of list of str
        Rows, each with its label and then one cell per fit.
    notes : list of str
        Below the table.
    """

    title: str
    header: list[list[str]]
    coefficients: list[list[str]]
    facts: list[list[str]]
    notes: list[str]

    def map(self, change: Callable[[str], str]) -> TableCells:
        """Return the table with every text changed."""

        def rows(part: list[list[str]]) -> list[list[str]]:
            return [[change(cell) for cell in row] for row in part]

        notes = [change(note) for note in self.notes]
        return TableCells(change(self.title), rows(self.header), rows(self.coefficients), rows(self.facts), notes)


def as_text(cells: TableCells) -> str:
    """Return the table as plain text."""
    table = _simple_table(cells).as_text()
    width = table.index("\n")
    title = [cells.title.center(width).rstrip()] if cells.title else []
    lines = max(width, _NARROWEST)
    notes = [textwrap.fill(note, lines, break_long_words=False, break_on_hyphens=False) for note in cells.notes]
    return "\n".join([*title, table, *notes])


def as_latex(cells: TableCells) -> str:
    r"""Return the table as a LaTeX ``table``, which needs ``\usepackage{booktabs}``."""
    plain = cells.map(escape.latex)
    lines = [
        r"\begin{table}",
        *([rf"\caption{{{plain.title}}}"] if plain.title else []),
        _simple_table(plain).as_latex_tabular(),
        r"\begin{flushleft}\footnotesize",
        "\n\n".join(plain.notes),
        r"\end{flushleft}",
        r"\end{table}",
    ]
    return "\n".join(lines)


def as_html(cells: TableCells) -> str:
    """Return the table as an HTML ``table`` and a paragraph per note."""
    plain = cells.map(html.escape)
    table = _simple_table(plain)
    table.title = plain.title
    return "\n".join([table.as_html(), *(f"<p>{note}</p>" for note in plain.notes)])


def as_markdown(cells: TableCells) -> str:
    """Return the table as a pipe table; lines of the head after the first are rows, for it can have one only."""
    plain = cells.map(escape.markdown)
    head, *more = [["", *line] for line in plain.header]
    rule = [":---", *[":---:"] * (len(head) - 1)]
    rows = [head, rule, *more, *plain.coefficients, *plain.facts]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return "\n\n".join([*([f"**{plain.title}**"] if plain.title else []), table, *plain.notes])


FORMATS: dict[str, Callable[[TableCells], str]] = {
    "text": as_text,
    "latex": as_latex,
    "html": as_html,
    "markdown": as_markdown,
}


def _simple_table(cells: TableCells) -> Any:
    from statsmodels.iolib.table import SimpleTable

    rows = [*cells.coefficients, *cells.facts]
    table = SimpleTable(
        [row[1:] for row in rows],
        ["\n".join(column) for column in zip(*cells.header, strict=True)],
        [row[0] for row in rows],
        txt_fmt=_TEXT,
        ltx_fmt=_LATEX,
    )
    table[len(cells.header) + len(cells.coefficients) - 1].dec_below = "header_dec_below"
    return table
