"""Real tables to learn and test on, each with its `Schema`.

Sources, licences and attribution are in ``LICENSES.md`` beside this file. Bounds and levels are public knowledge from
the codebooks; none was computed from the rows.
"""

from importlib import resources
from typing import NamedTuple

import pandas as pd

from dpstats.datasets.schemas import ADULT, BANK
from dpstats.specification.schema import Schema

__all__ = ["Dataset", "load_adult", "load_bank"]


class Dataset(NamedTuple):
    """A table and what is publicly known of its columns; unpacks as ``data, schema = ...``.

    Attributes
    ----------
    data : pandas.DataFrame
        One row per person; private, as far as a fit is concerned. Blank entries are NaN.
    schema : Schema
        Bounds or levels of every column of `data`; public.
    """

    data: pd.DataFrame
    schema: Schema

    def __repr__(self) -> str:
        rows, columns = self.data.shape
        return f"Dataset(data=<{rows} rows x {columns} columns>, schema=<{columns} columns declared>)"


def load_adult() -> Dataset:
    """Load UCI Adult: persons of the 1994 US Census database.

    Returns
    -------
    Dataset
        48,842 rows and 16 columns. `age` is in years, `hours_per_week` in hours, `capital_gain` and `capital_loss` in
        US dollars a year; `income_gt50k` is 1 where `income` is ">50K". `workclass`, `occupation` and `native_country`
        have missing entries.

    Notes
    -----
    Becker and Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0.

    Examples
    --------
    >>> from dpstats.datasets import load_adult
    >>> adult, schema = load_adult()
    >>> adult.shape
    (48842, 16)
    """
    return Dataset(_read("adult.csv.gz"), ADULT)


def load_bank() -> Dataset:
    """Load UCI Bank Marketing: clients telephoned by a Portuguese bank, 2008 to 2010.

    Returns
    -------
    Dataset
        45,211 rows and 17 columns, none missing. `age` is in years, `balance` in euros (yearly average), `duration` in
        seconds; `pdays` counts the days since an earlier campaign's last contact, -1 if there was none; `y` says
        whether the client subscribed to a term deposit.

    Notes
    -----
    Moro, Rita and Cortez (2012), UCI Machine Learning Repository, CC BY 4.0.

    Examples
    --------
    >>> from dpstats.datasets import load_bank
    >>> bank, schema = load_bank()
    >>> bank.shape
    (45211, 17)
    """
    return Dataset(_read("bank.csv.gz"), BANK)


def _read(name: str) -> pd.DataFrame:
    """Read one table of this folder, from a checkout or an installed wheel; only blank entries are missing."""
    with resources.files("dpstats.datasets").joinpath(name).open("rb") as file:
        return pd.read_csv(file, compression="gzip", keep_default_na=False, na_values=[""])
