"""One folder per paper: what it is, its figures, its claims, and what belongs to it alone."""
