"""Colours survive print and colour blindness, and text can be read at a width of 180 mm."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from flatlab.lab.figures import render, style
from flatlab.papers.macdonald2023 import figures as macdonald
from tests.lab.publish.made_up import ROOT

PALETTES = {
    "settings": [look.color for look in style.SETTINGS.values()],
    "rates": style.RATES.values(),
    "others": [look.color for look in style.OTHERS],
    "ordered": style.ORDERED,
    "samples": [look.color for look in style.SAMPLES.values()],
    "bounds": [look.color for look in style.BOUNDS.values()],
    "kinds": [look.color for _, look in style.KINDS.values()],
    "colors": style.COLORS,
    "smoothings": [color for color, *_ in macdonald.SMOOTHINGS.values()],
    "input scales": [color for color, *_ in macdonald.INPUT_SCALES.values()],
}
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
    sizes = [value for key, value in render.STYLE.items() if key.endswith("size")]
    for path in [*Path(ROOT).glob("flatlab/lab/figures/*.py"), *Path(ROOT).glob("papers/*/*.py")]:
        sizes += map(float, re.findall(r"fontsize[\"']?[=:] ?([\d.]+)", path.read_text()))
    assert min(sizes) >= 6
