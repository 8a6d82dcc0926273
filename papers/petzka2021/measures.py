"""The measures of minima that petzka2021 compares with the generalization gap."""

GRID, GAP = "minima-grid", "generalization_gap"
RESCALED, AFTER = "last-layer", "_after"
"""The transformation of Figure 7, and the ending of what is measured after it."""

MEASURES = {
    "kappa": "normalized_kappa_trace[-1]",
    "trace": "hessian_trace_per_layer[-1]",
    "fisher_rao": "fisher_rao",
    "pac_bayes": "pac_bayes",
    "norm": "squared_norm_per_layer[-1]",
    "kappa_before_last": "normalized_kappa_trace[-2]",
    "network_trace": "hessian_trace",
    "network_norm": "squared_norm",
}
"""The column of the table that a measure is."""
