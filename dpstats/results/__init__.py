"""Public out: results in the protocol of statsmodels."""
