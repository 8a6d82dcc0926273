"""Pictures of spectra, densities, landscapes and runs: their numbers, and all their files."""

import io

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure

from flatlab.core.schema import PlanError
from flatlab.lab.figures import render
from flatlab.lab.figures import reports as template


def spectrum(factor=1.0):
    places = {"block": ["network"], "matrix": ["hessian", "gauss-newton"]}
    values = factor * np.array([[[5.0, 2, 1], [4, 1, np.nan]]])
    at = np.linspace(-1, 5, 30)
    normal = np.exp(-(at**2)) * np.ones((1, 2, 1))
    ranks, points = ("block", "matrix", "rank"), ("block", "matrix", "point")
    return xr.Dataset(
        {
            "largest_eigenvalue": (ranks, values),
            "largest_residual": (ranks, values / 100),
            "density_at": (points, at * np.ones((1, 2, 1))),
            "spectral_density": (points, normal),
            "spectral_density_error": (points, normal / 10),
            "density_width": (("block", "matrix"), np.full((1, 2), 0.1)),
        },
        {**places, "rank": ["1", "2", "3"]},
    )


def landscape(dimensions, high=1.0):
    axes = ("first", "second")[:dimensions]
    at = np.linspace(-1, high, 5)
    grid = np.array(np.meshgrid(*[at] * dimensions, indexing="ij"))
    places = {f"network_{axis}": ("network", [0.0, 1.0]) for axis in axes}
    return xr.Dataset(
        {"loss": (axes, (grid**2).sum(0)), "accuracy": (axes, grid[0])},
        {axis: at for axis in axes} | places,
    )


def barriers():
    values = np.array([[0, 0.5], [0.5, 0]])
    pairs, names = ("network", "other"), ["0", "1"]
    return xr.Dataset(
        {"barrier": (pairs, values, {"units": "loss"}), "highest_at": (pairs, values)},
        {"network": names, "other": names},
    )


def run():
    values = np.array([3.0, 2, 1])
    return xr.Dataset(
        {
            "loss": ("step", values, {"units": "loss"}),
            "hessian_lambda_max": ("step", 2 * values),
            "hessian_products": ("step", values),
            "samples_measured": ("step", values),
            "largest_eigenvalue": (("step", "rank"), np.stack([values, values - 1], 1)),
        },
        {"step": [0, 10, 20], "rank": ["1", "2"]},
    )


def layers(factor=1.0):
    norms = factor * np.array([1.0, 8, 2])
    return xr.Dataset({"weight_norm": ("layer", norms)}, {"layer": ["fc1", "fc2", "fc3"]})


REPORTS = {
    "spectrum": {"before": spectrum(), "after": spectrum(2)},
    "density": {"one": spectrum()},
    "landscape": {"wide": landscape(1), "narrow": landscape(1, 2.0)},
    "plane": {"plane": landscape(2), "other": landscape(2, 2.0)},
    "barriers": {"few steps": barriers(), "many steps": barriers()},
    "run": {"run": run()},
    "layers": {"one": layers(), "other": layers(2)},
}


@pytest.mark.first(2)
@pytest.mark.parametrize("name", REPORTS)
def test_a_picture_has_its_files_and_its_csv_is_what_is_drawn(name, monkeypatch):
    """tests/cli/test_reports.py asks for all formats."""
    kind, reports = ("landscape" if name == "plane" else name), REPORTS[name]
    monkeypatch.setattr(render, "FORMATS", ("svg",))
    files = template.pictures(kind, reports)
    assert {*files} == {"csv", "svg"}
    assert b"<svg" in files["svg"]
    types = dict.fromkeys(("network", "other"), str) if kind == "barriers" else {}
    frame = pd.read_csv(io.BytesIO(files["csv"]), dtype=types)
    if "units" in frame:
        frame["units"] = frame["units"].astype(object).fillna("")
    expected = template.frame_of(kind, reports).astype(types)
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False)


def test_the_frames_have_the_numbers_of_the_reports():
    frame = template.frame_of("spectrum", REPORTS["spectrum"])
    after = frame[(frame.report == "after") & (frame.matrix == "gauss-newton")]
    assert after["value"].tolist() == [8, 2]
    assert after["rank"].tolist() == [1, 2]
    plane = template.frame_of("landscape", {"plane": landscape(2)})
    losses = plane[plane.network.isna()]
    assert losses.loss.tolist() == (losses["first"] ** 2 + losses["second"] ** 2).tolist()
    assert plane[plane.network.notna()]["first"].tolist() == [0, 1]
    along = dict(list(template.frame_of("run", {"run": run()}).groupby("quantity")["value"]))
    assert {*along} == {"loss", "hessian_lambda_max", "largest_eigenvalue"}
    assert along["largest_eigenvalue"].tolist() == [3, 2, 1]


def test_nothing_of_a_picture_lies_over_another_part_or_outside_of_it():
    """Long names of reports, blocks and layers, in legends and titles."""
    long = {f"{what}-{'name' * 6}": spectrum(n + 1) for n, what in enumerate(("first", "second"))}
    blocks = {n: report.assign_coords(block=["layer" * 8]) for n, report in long.items()}
    frame = template.frame_of("spectrum", blocks)
    with mpl.rc_context(render.STYLE):
        fig = Figure(figsize=(4.8, 2.7), layout="constrained")
        template.draw(fig, frame, template.KINDS["spectrum"])
        fig.draw_without_rendering()
    whole, legend = fig.bbox, fig.legends[0].get_window_extent()
    assert legend.x0 >= whole.x0
    assert legend.x1 <= whole.x1
    titles = [ax.get_title(loc="left") for ax in fig.axes]
    assert all(titles)
    boxes = [ax.get_tightbbox() for ax in fig.axes]
    assert not boxes[0].overlaps(boxes[1])
    assert not any(box.overlaps(legend) for box in boxes)
    assert all(box.x1 <= whole.x1 + 1 for box in boxes)


def test_what_a_report_does_not_have_is_refused_in_a_sentence():
    assert template.kinds_of(spectrum()) == ["spectrum", "density"]
    assert template.kinds_of(landscape(1)) == ["landscape"]
    assert template.kinds_of(barriers()) == ["barriers"]
    assert template.kinds_of(run()) == ["run"]
    with pytest.raises(PlanError, match="line has no picture density; those it has: landscape"):
        template.pictures("density", {"line": landscape(1)})
    with pytest.raises(PlanError, match="did you mean 'spectrum'"):
        template.pictures("spectrun", {"one": spectrum()})
    with pytest.raises(PlanError, match="lines and planes"):
        template.pictures("landscape", {"line": landscape(1), "plane": landscape(2)})
    with pytest.raises(PlanError, match="did you mean 'loss'"):
        template.pictures("run", {"run": run()}, ["lost"])
