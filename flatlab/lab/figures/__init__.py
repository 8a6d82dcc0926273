"""Figures: each is declared in its paper's figures.py and drawn by the template that it names.

A template is a module of this folder: `points`, `lines`, `intervals`, `matrix` or `table`; `frames`
select what they show. A figure of its own kind is a module of its paper's folder.
"""

from flatlab.lab.figures.contents import about, caption, shown
from flatlab.lab.figures.render import Settings, Tables, completed, frame_of, make

__all__ = ["Settings", "Tables", "about", "caption", "completed", "frame_of", "make", "shown"]
