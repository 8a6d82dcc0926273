"""Figures: each is declared in its paper's figures.py and drawn by the template that it names.

A template is a module of this folder: `curves`, `sweep`, `lines`, `pairs`, `sharpness_grid`,
`points`, `intervals`, `rank_table` or `matrix`. A figure of its own kind is a module of its paper's
folder. `render` makes the files of all.
"""
