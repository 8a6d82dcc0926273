"""chen2024: the earlier preprint of chen2026."""
