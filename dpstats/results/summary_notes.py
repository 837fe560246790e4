"""What stands below a summary: what its numbers contain and estimate, and what is not private."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpstats.specification.schema import Continuous

if TYPE_CHECKING:
    from dpstats.results.results import DPResults
    from dpstats.specification.rules import RowRules

FEW = 10
"""Noisy rows, in standard deviations of their noise, below which it is likely that the declarations miss the table."""


def notes_of(results: DPResults, alpha: float, warning: str, *, slim: bool) -> list[str]:
    """Return the notes of a summary.

    Parameters
    ----------
    results : DPResults
        The fit.
    alpha : float
        Level of the intervals is 1 - alpha.
    warning : str
        Why the fit is not private; empty if it is.
    slim : bool
        True for what is estimated and the warning alone.
    """
    target = [
        f"Estimand: {results.estimand}. Values outside the bounds are clipped, undeclared levels and unreadable "
        "entries count as missing.",
        *_row_notes(results.design.rules),
    ]
    if slim:
        return target + warning_note(warning)
    notes = [
        'std err contains sampling and privacy noise; "privacy" is the part that is privacy noise.',
        _intervals(results),
        *target,
    ]
    notes += results.release.remarks
    notes += _parts(results)
    delta = results.privacy.spent.delta
    if delta is not None and delta * results.nobs >= 1 and results.privacy.is_private:
        notes.append(
            f"delta = {delta:g} is not below 1 over the number of rows: such a delta permits publishing somebody's "
            "record outright. Choose one far below, such as 1e-6."
        )
    if results.is_classifier:
        notes.append(f"Success is {results.model.endog_names} = {results.levels[-1]}.")
    if results.is_perturbed and results.is_large_step and results.privacy.noise != "none":
        notes.append(
            "The ridge is strong beside the data: taking it out is a large step, so that estimates and intervals are "
            "rough."
        )
    unbounded = any(math.isinf(low) for low in results.conf_int(alpha)[0])
    if unbounded and results.privacy.noise == "none":
        notes.append("(-inf, inf): the columns do not identify this coefficient.")
    elif unbounded:
        notes.append(
            "(-inf, inf): the privacy noise leaves this coefficient unidentified; a larger epsilon, more rows, fewer "
            "columns or tighter bounds would help."
        )
        notes += _spelling(results)
    elif results.outweighed:
        notes.append(
            f"The ridge outweighs the data in {', '.join(results.outweighed)}: estimate and interval say little about "
            "the least-squares coefficient. A larger epsilon, more rows or tighter bounds would help."
        )
    if results.shares_release:
        notes.append(
            f"Fitted from the release of {results.release.formula!r} on its complete rows; what was spent on it is "
            "shared by all fits from it."
        )
    if results.cov_type.startswith("HC"):
        notes.append(f"Standard errors are heteroskedasticity-consistent ({results.cov_type}), from a further release.")
        if results.has_model_correlations:
            notes.append(
                "That release has variances of single coefficients only: contrasts, joint tests and predictions keep "
                "the correlations of the model, which are not robust."
            )
    if results.scale_clamped and not results.is_binary:
        notes.append(
            "The noise hides the residual variance: its square root above and the sampling part of std err are guesses."
        )
    return notes + warning_note(warning)


def _spelling(results: DPResults) -> list[str]:
    """Suspect the spelling of levels where no row is seen to be complete, though the noise would show many."""
    schema = results.design.schema
    if all(isinstance(schema[name], Continuous) for name in results.design.variables):
        return []
    found = results.rows_seen
    if found is None or found.value >= FEW * found.sd:
        return []
    otherwise = ", or the outcome hardly varies" if results.is_classifier else ""
    return [
        f"At most about {FEW * found.sd:.0f} rows seem to be complete{otherwise}. If the table has many more, do the "
        "declared levels spell those of the table?"
    ]


def _parts(results: DPResults) -> list[str]:
    """Say what each of several releases cost."""
    parts = results.privacy.parts
    if len(parts) < 2 or not results.privacy.is_private:
        return []
    return [f"Spent on {'; '.join(f'{name}: {part}' for name, part in parts.items())}."]


def _row_notes(rules: RowRules) -> list[str]:
    """Say what the call declared of rows."""
    notes = []
    if rules.missing == "none":
        notes.append(
            "The columns were declared complete: a missing number was read as the middle of its range, a missing level "
            "as the first one."
        )
    if rules.weights is not None:
        bounds = rules.weights.bounds
        notes.append(f"Weighted by {rules.weights.column}, clipped to ({bounds.lower:g}, {bounds.upper:g}).")
    if rules.offset:
        notes.append(f"Offset: {rules.offset}, taken from the outcome before the fit.")
    return notes


def _intervals(results: DPResults) -> str:
    """Say what intervals and p-values account for."""
    if results.release.has_noisy_coefficients:
        return (
            "Intervals and P>|z| account for the noise on the coefficients, and for sampling as far as the noisy "
            "Hessian tells."
        )
    matrix = "the Hessian" if results.is_perturbed else "X'X"
    return (
        f"Intervals and P>|z| invert a test that accounts for the noise in {matrix} (Fieller): intervals are "
        "asymmetric, possibly unbounded, and P>|z| cannot be read off z."
    )


def warning_note(warning: str) -> list[str]:
    """Say that a table is no private release, if it is none."""
    return [f"{warning}. Do not publish this table as a private release."] if warning else []
