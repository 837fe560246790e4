"""The search for an event that tells two tables apart: scores trained on some runs, thresholds chosen on others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from dpstats.audits.loss import Counted
from dpstats.audits.outcomes import Outcome
from dpstats.audits.scores import Columns, Matrix, learn_columns, scores

CHOICE = 0.1
"""Level of the bounds by which events are compared before one is counted."""
QUANTILES = np.linspace(0.02, 0.98, 33)
Values = NDArray[np.float64]
Score = Callable[[Sequence[Outcome]], Values]
Loss = Callable[[Values, Values], Values]


@dataclass(frozen=True, slots=True)
class Event:
    """That a score of an outcome exceeds a threshold.

    Attributes
    ----------
    words : str
        What it is.
    score : callable
        Scores of many outcomes.
    cut : float
        The threshold.
    above : bool
        Whether the score is to be above or below it.
    first_is_likelier : bool
        On which of the two tables the event was seen more often.
    """

    words: str
    score: Score
    cut: float
    above: bool
    first_is_likelier: bool

    def count(self, first: Sequence[Outcome], second: Sequence[Outcome]) -> Counted:
        """Count on runs that were not used to choose the event."""
        likely, other = (first, second) if self.first_is_likelier else (second, first)
        return Counted(self._hits(likely), self._hits(other), len(first))

    def _hits(self, outcomes: Sequence[Outcome]) -> int:
        values = self.score(outcomes)
        return int((values > self.cut if self.above else values < self.cut).sum())


@dataclass(frozen=True, slots=True)
class Question:
    """A score, its values on the runs by which events are compared, and thresholds (zone: of the auditor)."""

    words: str
    score: Score
    first: Values
    second: Values
    cuts: Values

    @property
    def clearance(self) -> float:
        """How far apart the two tables are, from 0 to 1; decides between scores that both tell them apart each time."""
        gap = abs(float(np.median(self.first) - np.median(self.second)))
        spread = float(np.ptp(self.first) + np.ptp(self.second))
        return gap / (gap + spread) if gap > 0 else 0.0


def choose_event(first: Sequence[Outcome], second: Sequence[Outcome], loss: Loss) -> Event:
    """Train scores on one half of the runs, and choose the event with the largest loss on the other half.

    Parameters
    ----------
    first, second : sequence of Outcome
        Training runs on the two tables.
    loss : callable
        Privacy losses of events from their two probabilities.
    """
    half = len(first) // 2
    best, largest = Event("none", lambda outcomes: np.zeros(len(outcomes)), 0.0, True, True), -np.inf
    for question in _questions(first[:half], second[:half], first[half:], second[half:]):
        for above in (True, False):
            hits, others = (_counts(values, question.cuts, above) for values in (question.first, question.second))
            for first_is_likelier in (True, False):
                likely, other = (hits, others) if first_is_likelier else (others, hits)
                found = _lower_losses(likely, other, len(question.first), loss) + 1e-8 * question.clearance
                tied = np.flatnonzero(found == found.max())
                at = int(tied[len(tied) // 2])
                if found[at] > largest:
                    largest, cut = float(found[at]), float(question.cuts[at])
                    best = Event(question.words, question.score, cut, above, first_is_likelier)
    return best


def _counts(values: Values, cuts: Values, above: bool) -> NDArray[np.int64]:
    hits = values[:, None] > cuts if above else values[:, None] < cuts
    return np.asarray(hits.sum(axis=0), dtype=np.int64)


def _lower_losses(hits: NDArray[np.int64], others: NDArray[np.int64], runs: int, loss: Loss) -> Values:
    """Return losses of bounds of both probabilities, a little larger where more was seen at equal loss."""
    p = np.where(hits > 0, betaincinv(np.maximum(hits, 1), runs - hits + 1, CHOICE), 0.0)
    q = 1 - np.where(others < runs, betaincinv(np.maximum(runs - others, 1), others + 1, CHOICE), 0.0)
    return loss(p, q) + 1e-6 * (hits - others) / runs


def _questions(
    first: Sequence[Outcome], second: Sequence[Outcome], later: Sequence[Outcome], other_later: Sequence[Outcome]
) -> Iterator[Question]:
    """Yield scores trained on the first two sequences, with their values on the others."""
    both = [*first, *second]
    for position, words in enumerate(("layout or error", "warnings", "words")):
        for ending in dict.fromkeys(outcome.endings[position] for outcome in both):
            score = _is_ending(position, ending)
            question = f"{words}: {ending or 'none'}"
            yield Question(question, score, score(later), score(other_later), np.array([0.5]))
    columns = learn_columns(both)
    a, b, x, y = (columns.matrix(outcomes) for outcomes in (first, second, later, other_later))
    for words, of_matrix in scores(a, b, columns.names):
        values = of_matrix(a), of_matrix(b)
        between = (np.median(values[0]) + np.median(values[1])) / 2  # where nothing overlaps
        cuts = np.unique([between, *np.quantile(np.concatenate(values), QUANTILES)])
        yield Question(words, _of_outcomes(of_matrix, columns), of_matrix(x), of_matrix(y), cuts)


def _of_outcomes(score: Callable[[Matrix], Values], columns: Columns) -> Score:
    return lambda outcomes: score(columns.matrix(outcomes))


def _is_ending(position: int, ending: str) -> Score:
    return lambda outcomes: np.array([float(outcome.endings[position] == ending) for outcome in outcomes])
