"""Figures: each is declared in its paper's figures.py and drawn by the template that it names.

A template is a module of this folder: `curves`, `sweep`, `lines`, `pairs`, `points`, `intervals` or
`matrix`. A figure or a template of a paper's own is a module of its folder. `render` makes the
files of all.
"""
