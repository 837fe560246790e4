"""Black-box audits: what a fit function shows of one row, measured by calling it on two neighbouring tables."""
