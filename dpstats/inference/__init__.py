"""Public out: inference from released numbers with a known noise law."""
