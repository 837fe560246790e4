"""The search for an event that tells two tables apart: scores trained on some runs, thresholds chosen on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.audits.loss import Counted
from dpstats.audits.outcomes import Outcome
from dpstats.audits.scores import Columns, Score, learn_columns, scores

CHOICE = 0.2
"""Level of the bounds by which events are compared before one is counted."""
QUANTILES = np.linspace(0.02, 0.98, 33)
Holds = Callable[[Sequence[Outcome]], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Event:
    """A yes-or-no question to an outcome.

    Attributes
    ----------
    words : str
        The question.
    holds : callable
        Its answers for many outcomes.
    first_is_likelier : bool
        On which of the two tables it was seen more often.
    """

    words: str
    holds: Holds
    first_is_likelier: bool = True

    def count(self, first: Sequence[Outcome], second: Sequence[Outcome]) -> Counted:
        """Count on runs that were not used to choose the event."""
        likely, other = (first, second) if self.first_is_likelier else (second, first)
        return Counted(int(self.holds(likely).sum()), int(self.holds(other).sum()), len(first))


def choose_event(first: Sequence[Outcome], second: Sequence[Outcome], loss: Callable[[float, float], float]) -> Event:
    """Train scores on one half of the runs, and choose the event with the largest loss on the other half.

    Parameters
    ----------
    first, second : sequence of Outcome
        Training runs on the two tables.
    loss : callable
        Privacy loss of an event from its two probabilities.
    """
    half = len(first) // 2
    best, largest = Event("none", lambda outcomes: np.zeros(len(outcomes), dtype=bool)), -1.0
    for event in _candidates(first[:half], second[:half]):
        for likelier in (True, False):
            turned = Event(event.words, event.holds, likelier)
            counted = turned.count(first[half:], second[half:])
            found = loss(*counted.probabilities(CHOICE))
            if found > largest or (found == largest == 0.0 and counted.hits > counted.other_hits):
                best, largest = turned, found
    return best


def _candidates(first: Sequence[Outcome], second: Sequence[Outcome]) -> Iterator[Event]:
    both = [*first, *second]
    for position, words in enumerate(("layout of the result, or the error", "warnings", "words")):
        for ending in dict.fromkeys(outcome.endings[position] for outcome in both):
            yield Event(f"{words}: {ending[:60] or 'none'}", _ends(position, ending))
    columns = learn_columns(both)
    a, b = columns.matrix(first), columns.matrix(second)
    for words, score in scores(a, b):
        for cut in np.unique(np.quantile(score(np.vstack([a, b])), QUANTILES)):
            yield Event(f"{words} > {cut:.3g}", _above(columns, score, float(cut), 1))
            yield Event(f"{words} < {cut:.3g}", _above(columns, score, float(cut), -1))


def _ends(position: int, ending: str) -> Holds:
    return lambda outcomes: np.array([outcome.endings[position] == ending for outcome in outcomes])


def _above(columns: Columns, score: Score, cut: float, sign: int) -> Holds:
    return lambda outcomes: sign * score(columns.matrix(outcomes)) > sign * cut
