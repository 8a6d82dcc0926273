"""What the kinds `files` and `loop` have in common: a study's networks, measured one by one.

They are like any other experiment to everything behind their tables.
"""
