"""Colours survive print and colour blindness, and text can be read at a width of 180 mm."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from flatlab.lab import plan
from flatlab.lab.figures import render, style
from flatlab.lab.figures.points import OfFactors
from tests.lab.publish.made_up import ROOT

FIGURES = plan.figures()
PALETTES = {name: getattr(style, name) for name in ("OTHERS", "ORDERED", "COLORS")}
PALETTES["RATES"] = style.RATES.values()
for looks in (style.SETTINGS, style.SAMPLES, style.BOUNDS, dict(style.KINDS.values())):
    PALETTES[", ".join(looks)] = [look.color for look in looks.values()]
TEXTS = {figure.target: str(figure.settings) for figure in FIGURES}
MODULES = Path(ROOT).glob("papers/*/fig[0-9]*.py")
TEXTS |= {f"{path.parent.name} {path.stem}": path.read_text() for path in MODULES}
COLORS = {name: {*re.findall("#[0-9a-f]{6}", text)} for name, text in TEXTS.items()}
PALETTES |= {name: colors for name, colors in COLORS.items() if colors}
SEEN = {
    "all": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
"""Linear RGB as it is seen (Machado, Oliveira and Fernandes, 2009, severity 1)."""

XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color):
    rgb = np.array(to_rgb(color))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lab(color, seen):
    xyz = XYZ @ np.clip(np.array(seen) @ linear(color), 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("name", PALETTES)
def test_colours_stand_out_from_white_and_from_each_other(name):
    colors = [to_hex(color) for color in PALETTES[name]]
    contrasts = {color: 1.05 / (XYZ[1] @ linear(color) + 0.05) for color in colors}
    assert min(contrasts.values()) >= 2.5, contrasts
    for a, b in combinations(colors, 2):
        apart = {kind: np.linalg.norm(lab(a, m) - lab(b, m)) for kind, m in SEEN.items()}
        assert min(apart.values()) >= 8, (a, b, apart)


def test_no_text_is_smaller_than_six_points():
    assert {figure.settings["size_inches"][0] for figure in FIGURES} == {7.1}  # 180 mm
    sizes = [value for key, value in render.STYLE.items() if key.endswith("size")]
    for path in [*Path(ROOT).glob("flatlab/lab/figures/*.py"), *Path(ROOT).glob("papers/*/*.py")]:
        sizes += map(float, re.findall(r"(?:font|label)size[\"']?[=:] ?([\d.]+)", path.read_text()))
    assert min(sizes) >= 6


def test_a_batch_size_has_one_marker_and_a_rate_one_colour_in_all_figures():
    frame = pd.DataFrame({"row": "run", "batch_size": [8, 32]})
    factors = OfFactors(frame, {"groups": ["batch_size"], "shade": ""}, ["batch_size"])
    for size, look in style.in_order([8, 32], "batch_size").items():
        named = style.look_of_settings([f"learning rate {n}, batch size {size}" for n in (0.1, 7)])
        markers = {look.marker, factors.of((size,))[1], *(each.marker for each in named.values())}
        assert markers == {style.marker_of(size)}
    for rate, look in style.in_order([0.1, 0.2], "lr").items():
        assert style.SETTINGS[f"learning rate {rate}, batch size 20"].color == look.color


def test_a_number_outside_of_a_panel_has_an_arrow_in_the_colour_of_its_line():
    ax = Figure().subplots()
    ax.plot([0, 1, 2], [5, 0.5, -3], color="red")
    ax.axvline(1)
    ax.set(xlim=(0, 2), ylim=(0, 1))
    style.mark_clipped([ax])
    arrows = [(*line.get_xydata()[0], line.get_marker(), line.get_color()) for line in ax.lines[2:]]
    assert arrows == [(0, 1, 6, "red"), (2, 0, 7, "red")]
