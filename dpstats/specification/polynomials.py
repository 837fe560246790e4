"""Polynomials in the raw symbols of a formula: what is left of an expression such as ``I((x - 5)**2 * z)``.

A *symbol* is a raw column or a transform of raw columns (``np.log(x)``); a *monomial* is a product of powers of
symbols; a *polynomial* maps monomials to coefficients. Keeping products symbolic lets ``I(x*x)`` and ``I(x**2)``
share one released sum. Coefficients are exact fractions: ``(year - 1997)**3`` over calendar years would lose all its
digits otherwise.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal


@dataclass(frozen=True, slots=True, order=True)
class Symbol:
    """A row-wise quantity with public bounds (zone: public).

    Attributes
    ----------
    text : str
        Canonical expression, which is the column's name for a raw column.
    variables : tuple of str
        Raw columns that the expression reads.
    form : {"column", "transform", "boolean", "vector"}
        ``"boolean"`` is a transform with values 0 and 1; ``"vector"`` has several columns (a spline).
    """

    text: str
    variables: tuple[str, ...]
    form: Literal["column", "transform", "boolean", "vector"] = "column"


Monomial = tuple[tuple[Symbol, int], ...]
Polynomial = dict[Monomial, Fraction]

ONE: Monomial = ()


def constant(value: float | Fraction) -> Polynomial:
    """Return the constant polynomial."""
    return {ONE: Fraction(value)} if value else {}


def single(symbol: Symbol) -> Polynomial:
    """Return the polynomial that is one symbol."""
    return {((symbol, 1),): Fraction(1)}


def add(left: Polynomial, right: Polynomial, sign: float = 1.0) -> Polynomial:
    """Return ``left + sign * right`` without zero terms."""
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, Fraction(0)) + Fraction(sign) * coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    """Return the product, powers of one symbol collected."""
    total: Polynomial = {}
    for (m1, c1), (m2, c2) in itertools.product(left.items(), right.items()):
        powers = dict(m1)
        for symbol, power in m2:
            powers[symbol] = powers.get(symbol, 0) + power
        total = add(total, {tuple(sorted(powers.items())): c1 * c2})
    return total


def power(base: Polynomial, exponent: int) -> Polynomial:
    """Return ``base ** exponent`` for an exponent of at least 0."""
    result = constant(1.0)
    for _ in range(exponent):
        result = multiply(result, base)
    return result


def is_constant(polynomial: Polynomial) -> bool:
    """Tell whether no symbol is left."""
    return all(monomial == ONE for monomial in polynomial)


def degree(polynomial: Polynomial) -> int:
    """Return the largest sum of powers in a monomial."""
    return max((sum(power for _, power in monomial) for monomial in polynomial), default=0)


def divisors(monomial: Monomial) -> set[Monomial]:
    """Return all divisors of a monomial, itself and 1 included."""
    ranges = [[(symbol, e) for e in range(exponent + 1)] for symbol, exponent in monomial]
    return {tuple((s, e) for s, e in choice if e > 0) for choice in itertools.product(*ranges)}


def symbols(polynomial: Polynomial) -> set[Symbol]:
    """Return the symbols that occur."""
    return {symbol for monomial in polynomial for symbol, _ in monomial}
