"""The parts of the family `geometry`: the table of its quantities, and their computation."""
