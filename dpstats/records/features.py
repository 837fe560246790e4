"""Private rows to exact integer sums of products of features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.records.moments import MomentSums, exact_products
from dpstats.records.rows import combine_columns
from dpstats.records.source import Partition, Source
from dpstats.specification.features import Features


def feature_rows(partition: Partition, features: Features, bits: int) -> tuple[NDArray[np.float64], int]:
    """Combine coded columns to features on the integer lattice; incomplete rows become 0.

    Parameters
    ----------
    partition : Partition
        Private rows.
    features : Features
        The features and their box.
    bits : int
        The lattice has step 2**-bits.

    Returns
    -------
    rows : ndarray
        PRIVATE, shape (n, d + 1), whole numbers held as float64, within the public radii: a clip after the combination
        makes the box hold; a multiple of a single coded column, by at most 1, is within it already.
    n_complete : int
        PRIVATE, number of complete rows.
    """
    radii, multiples = features.lattice_radii(bits), features.multiples
    if multiples is not None:
        coded = features.row_map.code(partition.columns, partition.n_rows, multiples * radii)
        rows = coded.columns
    else:
        coded = features.row_map.code(partition.columns, partition.n_rows)
        rows = np.empty((partition.n_rows, len(radii)), order="F")
        for weights, radius, column in zip(features.combine, radii, rows.T, strict=True):
            combine_columns(coded.columns, weights * radius, out=column)
            np.clip(column, -radius, radius, out=column)
            np.copyto(column, 0.0, where=np.isnan(column))
            np.rint(column, out=column)
    rows[~coded.complete] = 0.0
    return rows, int(np.count_nonzero(coded.complete))


def sum_products(source: Source, features: Features, bits: int) -> MomentSums:
    """Return the exact sums of all products of features and response (zone: PRIVATE).

    Parameters
    ----------
    source : Source
        The table.
    features : Features
        The features and their box.
    bits : int
        At most 20, with n * 2**(2 bits) < 2**62.
    """

    def partition_sums(partition: Partition) -> MomentSums:
        rows, n_complete = feature_rows(partition, features, bits)
        return MomentSums(exact_products(rows), n_complete)

    sums: MomentSums = source.map_reduce(features.row_map.variables, partition_sums, lambda a, b: a + b)
    return sums


def smallest_eigenvalue(gram: NDArray[np.int64]) -> int:
    """Return the smallest eigenvalue of an exact Gram matrix, rounded to a whole number of its units (zone: PRIVATE).

    The floating-point error is part of the sensitivity that `dpstats.mechanisms.adassp` states.
    """
    return int(np.rint(np.linalg.eigvalsh(gram.astype(np.float64))[0]))
