"""Simulations: computations without trained networks; one file each.

A file `simulations/<name>.py` has a literal `SETTINGS` (the keys that its experiments state, with
their meanings) and `table(settings)`, whose dataset has an attribute `extent`: what was computed,
in words.
"""
