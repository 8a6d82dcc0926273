"""Tables: all quantities of all runs of an experiment, selections of them, correlations."""
