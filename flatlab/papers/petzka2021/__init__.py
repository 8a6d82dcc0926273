"""petzka2021: Relative flatness and generalization, NeurIPS 2021."""
