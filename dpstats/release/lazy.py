"""Real random numbers as digits that are drawn when they are needed, and intervals that are certain to hold them.

A uniform number is an endless string of random bits, of which as many are drawn as a decision needs. Everything
computed from it is an interval with rational ends; a number is rounded to the lattice when its whole interval rounds to
one point. So the lattice point is the rounding of an ideal real number, exactly, and no floating-point draw comes in.
"""

from __future__ import annotations

import decimal
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

STEP = 64
"""Bits that are drawn at a time."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A real number somewhere between two rational ones (zone: secret noise)."""

    low: Fraction
    high: Fraction

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(min(ends), max(ends))

    def over(self, positive: Interval) -> Interval:
        """Divide by a positive number."""
        return self * Interval(1 / positive.high, 1 / positive.low)

    def scaled(self, factor: Fraction) -> Interval:
        """Multiply by a rational number."""
        return self * Interval(factor, factor)

    def root(self, digits: int) -> Interval:
        """Return the square root of a number that is not negative."""
        return Interval(
            max(_rounded(decimal.Decimal.sqrt, self.low, digits)[0], Fraction(0)),
            _rounded(decimal.Decimal.sqrt, self.high, digits)[1],
        )

    def minus_log(self, digits: int) -> Interval:
        """Return -log of a number in (0, 1]."""
        low = -_rounded(decimal.Decimal.ln, self.high, digits)[1]
        return Interval(max(low, Fraction(0)), -_rounded(decimal.Decimal.ln, self.low, digits)[0])

    def coarse(self, bits: int) -> Interval:
        """Return a slightly wider interval with short ends, so that fractions do not grow."""
        unit = 1 << bits
        return Interval(
            Fraction(self.low.numerator * unit // self.low.denominator, unit),
            Fraction(-(-self.high.numerator * unit // self.high.denominator), unit),
        )


def _rounded(
    function: Callable[[decimal.Decimal, decimal.Context], decimal.Decimal], value: Fraction, digits: int
) -> tuple[Fraction, Fraction]:
    """Return bounds of a function that the decimal module rounds correctly, at a rational number.

    The argument is itself rounded to decimals, which moves a logarithm by a relative step of the argument and a root by
    less; both are covered by a margin of a hundred units in the last of `digits` digits.
    """
    context = decimal.Context(prec=digits, rounding=decimal.ROUND_HALF_EVEN)
    argument = context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))
    result = Fraction(function(argument, context))
    margin = (abs(result) + 1) * Fraction(100, 10**digits)
    return result - margin, result + margin


class LazyUniform:
    """A uniform number in (0, 1) of which the first bits are known (zone: secret noise)."""

    __slots__ = ("_bits", "_known")

    def __init__(self) -> None:
        self._bits, self._known = secrets.randbits(STEP), STEP

    def enclose(self, bits: int) -> Interval:
        """Return an interval of width at most 2**-bits, drawing more bits if needed; its lower end is positive."""
        while self._known < bits or self._bits == 0:
            self._bits = self._bits << STEP | secrets.randbits(STEP)
            self._known += STEP
        unit = 1 << self._known
        return Interval(Fraction(self._bits, unit), Fraction(self._bits + 1, unit))


def round_when_decided(enclose: Callable[[int], list[Interval]], unit: Fraction) -> list[int]:
    """Round real numbers to multiples of `unit`, with as many digits as that takes.

    Parameters
    ----------
    enclose : callable
        Returns intervals that hold the numbers, narrower the larger its argument, a number of bits.
    unit : Fraction
        Step of the lattice.
    """
    bits = STEP
    while True:
        bits += STEP
        try:
            found = [_nearest(interval, unit) for interval in enclose(bits)]
        except ZeroDivisionError:  # a divisor is so small that its digits so far do not tell it from 0
            continue
        decided = [point for point in found if point is not None]
        if len(decided) == len(found):
            return decided


def _nearest(interval: Interval, unit: Fraction) -> int | None:
    low, high = round(interval.low / unit), round(interval.high / unit)
    return low if low == high else None
