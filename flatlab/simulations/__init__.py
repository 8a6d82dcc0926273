"""Simulations: computations without trained networks; one file each.

A file `simulations/<name>.py` has a class `Options`, the settings of its experiments, and
`table(options)`, a dataset whose attribute `extent` says in words what was computed.
"""
