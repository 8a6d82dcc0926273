"""The laboratory: it plans, trains, tabulates, judges, draws and publishes.

The library, which is the rest of the package, measures networks, and knows nothing of it.
"""
