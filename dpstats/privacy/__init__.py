"""Public in: what privacy costs."""
