"""Comparisons of a factor's levels, all pairs, as statsmodels' ``t_test_pairwise`` makes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.results.contrast_test import check_alpha
from dpstats.specification.design import Design
from dpstats.specification.model_columns import ModelColumn
from dpstats.specification.polynomials import ONE

if TYPE_CHECKING:
    from dpstats.results.tested import TestedModel

CORRECTIONS = (
    *("bonferroni", "bonf", "sidak", "holm-sidak", "holm", "simes-hochberg", "hommel"),
    *("fdr_bh", "fdr_by", "fdr_tsbh", "fdr_tsbky", "b", "s", "hs", "h", "sh", "ho"),
)


@dataclass(frozen=True, slots=True, repr=False)
class PairwiseTests:
    """Tests of all pairs of a factor's levels (zone: released).

    Attributes
    ----------
    result_frame : pandas.DataFrame
        One row per pair, ``"b-a"`` for level b less level a, with statsmodels' columns: ``coef``, ``std err``, ``z``,
        ``P>|z|``, ``Conf. Int. Low``, ``Conf. Int. Upp.``, and ``pvalue-<method>`` and ``reject-<method>`` after
        correction for multiple testing.
    contrasts : ndarray
        Shape (pairs, q), on the coefficients.
    contrast_labels : list of str
        Names of the pairs.
    term : str
        The factor's term.
    is_private : bool
        False for simulated noise or none, which every print says.
    """

    result_frame: pd.DataFrame
    contrasts: NDArray[np.float64]
    contrast_labels: list[str]
    term: str
    is_private: bool

    def __repr__(self) -> str:
        state = "" if self.is_private else ", NOT PRIVATE"
        return f"<PairwiseTests: {self.term}{state}>\n{self.result_frame}"


def pairwise_tests(
    results: TestedModel, term_name: Any, method: Any, alpha: float, factor_labels: Sequence[str] | None
) -> PairwiseTests:
    """Test all pairs of a factor's levels.

    Raises
    ------
    OptionError
        If the term is no factor by itself, or another argument is out of range.
    """
    from statsmodels.stats.multitest import multipletests

    level = check_alpha(alpha)
    methods = [method] if isinstance(method, str) else list(method)
    for name in methods:
        if name not in CORRECTIONS:
            raise OptionError(f"method must be a correction of statsmodels, such as 'hs' or 'holm', not {shown(name)}")
    coding, names = _coding(results.design, term_name)
    labels = _labels(factor_labels, names)
    pairs = [(later, earlier) for earlier, later in itertools.combinations(range(len(labels)), 2)]
    contrasts = np.array([coding[later] - coding[earlier] for later, earlier in pairs])
    pair_labels = [f"{labels[later]}-{labels[earlier]}" for later, earlier in pairs]
    test = results.t_test(contrasts)
    frame = test.summary_frame(xname=pair_labels, alpha=level)
    for name in methods:
        reject, corrected = multipletests(np.atleast_1d(test.pvalue), alpha=level, method=name)[:2]
        frame[f"pvalue-{name}"], frame[f"reject-{name}"] = corrected, reject
    return PairwiseTests(frame, contrasts, pair_labels, term_name, results.privacy.is_private)


def _coding(design: Design, term_name: Any) -> tuple[NDArray[np.float64], list[str]]:
    """Return what each level of a factor adds to the linear predictor, shape (L, q), and the levels' names."""
    found = {column.term: column for column in design.columns if _is_factor(column)}
    if not isinstance(term_name, str) or term_name not in found:
        known = ", ".join(map(repr, found)) or "none"
        raise OptionError(f"term_name must be a factor's term by itself (here {known}), not {shown(term_name)}")
    (factor,) = found[term_name].weights
    levels = design.schema[factor].levels  # type: ignore[union-attr]
    coding = np.zeros((len(levels), len(design.columns)))
    for j, column in enumerate(design.columns):
        if column.term == term_name:
            coding[:, j] = column.weights[factor]
    return coding, [str(level) for level in levels]


def _is_factor(column: ModelColumn) -> bool:
    return len(column.weights) == 1 and not column.vectors and set(column.polynomial) == {ONE}


def _labels(factor_labels: Any, names: list[str]) -> list[str]:
    if factor_labels is None:
        return names
    listed = isinstance(factor_labels, list | tuple) and all(isinstance(label, str) for label in factor_labels)
    if not listed or len(factor_labels) != len(names):
        wanted = f"{len(names)} levels {', '.join(names)}"
        raise OptionError(f"factor_labels must be a list that names the {wanted}, not {shown(factor_labels)}")
    return list(factor_labels)
