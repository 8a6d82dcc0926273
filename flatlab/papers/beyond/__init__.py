"""beyond: figures of our own, on the networks of the papers' grids."""
