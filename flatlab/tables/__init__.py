"""Tables: all quantities of all runs of a grid, the selections of them, and their correlations."""
