"""Names and notes as plain text of LaTeX and Markdown; HTML is escaped by the standard library."""

from __future__ import annotations

import string

LATEX_REST = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
    }
)
"""What statsmodels leaves unescaped in cells; it escapes # $ % & > _ | itself."""
LATEX = LATEX_REST | str.maketrans(
    {"#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", ">": r"\textgreater{}", "_": r"\_", "|": r"\textbar{}"}
)
_MARKDOWN = str.maketrans({sign: f"\\{sign}" for sign in string.punctuation if sign in r"\`*_{}[]<>#&|~$^"})


def latex(text: str) -> str:
    """Return text that LaTeX prints as it is. Letters beyond Latin need XeLaTeX or LuaLaTeX."""
    return text.translate(LATEX)


def markdown(text: str) -> str:
    """Return text that Markdown prints as it is, inside the cell of a pipe table too."""
    return text.translate(_MARKDOWN)
