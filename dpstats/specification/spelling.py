"""Python expressions of a formula as text: parsed, quoted, and spelled so that one text means one expression.

The formula library rewrites expressions as text before it evaluates them: it replaces backticks, and writes calls into
other expressions. It is given only what is unparsed from a tree of this module. Without backticks, and without quotes
and backslashes inside names and texts, what it evaluates is what was checked.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
import string
import unicodedata
from collections.abc import Mapping

from dpstats.errors import FormulaError
from dpstats.specification.allowlist import CONTRASTS, LARGEST_CONSTANT


def spell(name: str) -> str:
    """Spell a column's name inside a Python expression."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"Q({name!r})"


def mentioned_names(expression: str) -> list[str]:
    """Return the names that stand for values in an expression, quoted ones included; functions are left out."""
    node = parse(expression)
    functions = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    modules = {id(part.value) for part in ast.walk(node) if isinstance(part, ast.Attribute)}
    found: dict[str, None] = {}
    for part in ast.walk(node):
        match part:
            case ast.Name(id=name) if id(part) not in functions | modules and name not in CONTRASTS:
                found[name] = None
            case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))]):
                found[name] = None
    return list(found)


def parse(expression: str) -> ast.expr:
    """Return the syntax tree, names that are no identifiers spelled ``Q('name')``.

    Raises
    ------
    FormulaError
        If it is no Python expression, or holds a constant that is neither a plain text nor an ordinary number.
    """
    plain, aliases = _aliased(expression)
    for name in aliases.values():
        _require_plain(name, expression)
    outside_strings = re.sub(r"'[^']*'|\"[^\"]*\"", "", plain)
    if unicodedata.normalize("NFKC", outside_strings) != outside_strings:
        raise FormulaError(f"{expression!r}: Python would rewrite a character of a name; quote it, as in Q('name')")
    try:
        node = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise FormulaError(
            f"cannot read {expression!r}; a name that is a Python keyword or has other characters than letters, digits "
            "and _ is quoted, as in Q('class')"
        ) from None
    match node:  # a name quoted alone is evaluated as it stands if it has no backtick
        case ast.Call(func=ast.Name(id="Q"), args=[ast.Constant(value=str(name))], keywords=[]):
            if not aliases and "`" not in name:
                return node
    for part in ast.walk(node):
        match part:
            case ast.Constant(value=str(text)):
                _require_plain(text, expression)
                if any(alias in text for alias in aliases):
                    raise FormulaError(f"{expression!r}: a backtick cannot stand inside a text")
            case ast.Constant(value=bool() | None):
                pass
            case ast.Constant(value=int(value) | float(value)) if not abs(value) <= LARGEST_CONSTANT:
                raise FormulaError(f"{expression[:40]!r}: a constant in it is too large")
            case ast.Constant(value=int() | float()):
                pass
            case ast.Constant():
                raise FormulaError(f"{expression!r}: {ast.unparse(part)!r} is neither a number nor a text")
    found: ast.expr = _Quotes(aliases).visit(node)
    return found


def _aliased(expression: str) -> tuple[str, dict[str, str]]:
    """Replace each name in backticks by an identifier that does not occur in the expression."""
    parts = expression.split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        raise FormulaError(f"{expression!r}: backticks enclose a name, as in `class`")
    stem = "quoted"
    while stem in expression:
        stem += "_"
    aliases = {f"{stem}{i}_": name for i, name in enumerate(parts[1::2])}
    spelled = [f" {alias} " for alias in aliases]
    return "".join(itertools.chain(*itertools.zip_longest(parts[::2], spelled, fillvalue=""))), aliases


def without_backticks(expression: str) -> str:
    """Spell names in backticks as ``Q('name')``: the formula library would replace backticks in text."""
    return escape_quoted(ast.unparse(parse(expression)))


def escape_quoted(expression: str) -> str:
    """Escape all signs between the single quotes of an unparsed expression: the formula's tokenizer knows no quotes."""
    kept = frozenset(string.ascii_letters + string.digits + " _")

    def escaped(found: re.Match[str]) -> str:
        return "".join(char if char in kept or char == "'" else f"\\U{ord(char):08x}" for char in found[0])

    return re.sub(r"'[^']*'", escaped, expression)


def _require_plain(text: str, expression: str) -> None:
    """Refuse quotes, backticks, backslashes and invisible characters inside a name or text of an expression."""
    if not text.isprintable() or set(text) & set("'\"`\\"):
        raise FormulaError(
            f"{expression!r}: the name or level {text!r} has a quote, backtick, backslash or invisible character, "
            "which cannot stand inside an expression; rename it"
        )


class _Quotes(ast.NodeTransformer):
    """Spell every name that is not an identifier as ``Q('name')``, so that one text means one expression."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self.aliases = aliases

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace an alias by the quoted name."""
        name = self.aliases.get(node.id, node.id)
        return ast.parse(spell(name), mode="eval").body if name != node.id else node
