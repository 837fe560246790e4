"""Public in: what is known before a record is read."""
