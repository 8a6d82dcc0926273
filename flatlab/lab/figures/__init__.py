"""Figures: each is declared in its paper's figures.py and drawn by the template that it names.

A template is a module of this folder: `curves`, `sweep`, `lines`, `pairs`, `sharpness_grid`,
`points`, `intervals` or `matrix`. A figure of its own kind is a module of its paper's folder.
"""

from flatlab.lab.figures.render import (
    Settings,
    Tables,
    about,
    caption,
    completed,
    frame_of,
    make,
    shown,
)

__all__ = ["Settings", "Tables", "about", "caption", "completed", "frame_of", "make", "shown"]
