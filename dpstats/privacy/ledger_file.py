"""The file of a ledger: an SQLite database made all at once, used under the terms that stand in it, written through."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dpstats.errors import BudgetError

FORMAT = "dpstats-ledger-2"
WAIT_SECONDS = 60.0
APPLICATION = 0x64_70_73_31
"""Number by which SQLite files of this kind are told from others: "dps1"."""
_TABLES = f"""
PRAGMA application_id = {APPLICATION};
CREATE TABLE terms (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE spends (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    what TEXT NOT NULL,
    budget TEXT NOT NULL,
    cost INTEGER NOT NULL CHECK (cost > 0),
    delta INTEGER NOT NULL CHECK (delta >= 0),
    state TEXT NOT NULL CHECK (state IN ('reserved', 'committed'))
);
"""
_SHOWN_TERMS = ("budget", "levels_delta", "dataset", "neighboring_relation", "contributions", "privacy_unit")


@dataclass(frozen=True, slots=True)
class LedgerFile:
    """Where the spends of a data set are kept (zone: public).

    Attributes
    ----------
    path : Path
        The file.
    terms : mapping of str to str
        What must stand in the file: its format, the total, whom it protects.
    """

    path: Path
    terms: Mapping[str, str]

    def open(self) -> None:
        """Make the file, all at once, or check that it is a ledger under the same terms.

        Raises
        ------
        BudgetError
            If the file cannot be made or used, is something else, or was made under other terms.
        """
        try:
            if not self.path.exists():
                self._make()
        except OSError as error:
            raise BudgetError(f"the ledger {str(self.path)!r} cannot be made: {error}") from None
        with self.connected() as connection:
            self.check(connection)

    def _make(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.path.parent, prefix=".ledger-") as folder:
            draft = Path(folder) / "draft"
            with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                connection.executescript(_TABLES)
                connection.executemany("INSERT INTO terms VALUES (?, ?)", list(self.terms.items()))
            with suppress(FileExistsError):  # another process was faster: its file is the ledger
                os.link(draft, self.path)

    def check(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that is no ledger, or one under other terms.

        Raises
        ------
        BudgetError
            If it is.
        """
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise BudgetError(f"the ledger {str(self.path)!r} cannot be used: the file is something else")
        found = dict(connection.execute("SELECT name, value FROM terms").fetchall())
        if found.get("format") != FORMAT:
            raise BudgetError(
                f"the ledger {str(self.path)!r} was made by another version of dpstats; what it says was spent stays "
                "spent, so enter it into a new ledger as a smaller total"
            )
        if found != self.terms:
            other = [_term(name, found.get(name, "")) for name in _SHOWN_TERMS if found.get(name) != self.terms[name]]
            raise BudgetError(
                f"the ledger {str(self.path)!r} was made under other terms, {', '.join(other)}; open it with those"
            )

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection that writes through to disk.

        Raises
        ------
        BudgetError
            If the file cannot be used.
        """
        connection = None
        try:
            address = f"{self.path.as_uri()}?mode=rw"
            connection = sqlite3.connect(address, timeout=WAIT_SECONDS, isolation_level=None, uri=True)
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection
        except sqlite3.Error as error:
            raise BudgetError(f"the ledger {str(self.path)!r} cannot be used: {error}") from None
        finally:
            if connection is not None:
                connection.close()


def total_spent(connection: sqlite3.Connection, column: Literal["cost", "delta"] = "cost") -> int:
    """Return the sum of all spends, reservations included, in units of the column."""
    query = {
        "cost": "SELECT COALESCE(SUM(cost), 0) FROM spends",
        "delta": "SELECT COALESCE(SUM(delta), 0) FROM spends",
    }
    return int(connection.execute(query[column]).fetchone()[0])


def _term(name: str, value: str) -> str:
    """Return a term of a ledger as the argument that makes it, such as ``epsilon=3.0``."""
    if name in ("contributions", "levels_delta"):
        return f"{name}={value}"
    if name != "budget":
        return f"{name}={value!r}"
    parts = zip(("epsilon", "delta", "rho"), value.split(), strict=False)
    return " and ".join(f"{part}={number}" for part, number in parts if number != "None")
