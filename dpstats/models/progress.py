"""A line on stderr that says how far a call is: elapsed time, and the share of a public number of rows."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

DELAY, STEP, WIDTH = 1.5, 0.25, 30
"""Seconds before anything is shown and between changes, and signs of the bar."""


class Bar:
    """A bar for one call (zone: public): rows of a table of public length, and time."""

    def __init__(self) -> None:
        self._total = self._done = 0
        self._finished = threading.Event()

    def begin(self, n_rows: int) -> None:
        """Start a reading of so many rows; 0 if none is under way, or their number is private."""
        self._total, self._done = n_rows, 0

    def advance(self, n_rows: int) -> None:
        """Count rows of the reading."""
        self._done += n_rows

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the bar while the block runs, if that takes long enough."""
        thread = threading.Thread(target=self._show, args=(time.monotonic(),), daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._finished.set()
            thread.join()

    def text(self, seconds: float) -> str:
        """Return the line to show after some seconds."""
        elapsed = f"{seconds:4.0f} s"
        if not self._total:
            return f"dpstats {' ' * (WIDTH + 7)} {elapsed}"
        share = min(self._done / self._total, 1.0)
        return f"dpstats [{'#' * int(share * WIDTH):{WIDTH}}] {share:4.0%} {elapsed}"

    def _show(self, start: float) -> None:
        if self._finished.wait(DELAY):
            return
        while True:
            print(f"\r{self.text(time.monotonic() - start)}", end="", file=sys.stderr, flush=True)
            if self._finished.wait(STEP):
                print(file=sys.stderr, flush=True)
                return
