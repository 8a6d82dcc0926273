"""Which measures the papers say do not change under which function-preserving transformations."""

LAYERS, NEURONS = ("layers",), ("layers", "neurons")
CLAIMED: dict[str, tuple[str, ...]] = {
    # chen2026 Sec. 3: "the compression metrics themselves (LVR, MLS, NMLS) depend only on the
    # network function f"; App. F: the measures "unchanged under layer rescaling"
    **dict.fromkeys(("log_volume", "mls", "nmls"), NEURONS),
    "matrix_normalized_sharpness": LAYERS,
    "elementwise_adaptive_trace": NEURONS,
    # chen2024 Sec. 1: "explicit formulas for these bounds that are reparametrization-invariant"
    "bound_d": LAYERS,
    # petzka2021 Thm. 4 and Fig. 7
    "kappa_trace": LAYERS,
    **dict.fromkeys(("normalized_kappa_trace", "normalized_kappa_max", "fisher_rao"), NEURONS),
    # andriushchenko2023 Sec. 3.2: elementwise adaptive sharpness, with or without normalized logits
    **{
        f"{case}-{scale}-{norm}": NEURONS
        for case in ("average", "worst")
        for scale in ("adaptive", "normalized")
        for norm in ("l2", "linf")
    },
}
"""By measure. The last layer and the one before it are two layers."""
