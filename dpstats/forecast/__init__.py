"""Forecasts from public facts and guesses: what planned releases would resolve, before a record is read."""
