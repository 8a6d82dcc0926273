"""Figures of several grids, of which some are measured."""

import json
from pathlib import Path

import pytest

from flatlab.core import store
from flatlab.lab import plan

SAID = "Not measured, and therefore not shown: vgg-grid, lenet-grid."


@pytest.fixture
def partly(tmp_path, monkeypatch):
    """One pack of perceptrons is measured, at scale demo."""
    monkeypatch.chdir(tmp_path)
    files = Path("results/demo/metrics/mlp-grid/accuracy+geometry")
    store.replace(files / "lr0.05-b20-s0-4.zarr.zip", b"")
    return plan.Plan({"packs": "measured"})


def test_a_figure_with_panels_of_each_grid_is_of_those_that_are_measured(partly):
    figure = partly.figure("chen2026_fig4", "demo")
    assert figure.experiments == ["mlp-grid"]
    *sentences, said = figure.declared.caption
    assert said == SAID
    whole = partly.figure("chen2026_fig4", "short")
    assert whole.experiments == ["vgg-grid", "mlp-grid", "lenet-grid"]
    assert list(whole.declared.caption) == sentences
    assert whole.settings != figure.settings  # so that it is drawn anew when the others are there
    assert figure in partly.papers["chen2026"]
    assert partly.why_not("chen2026_fig4") == ""


def test_a_figure_of_no_measured_grid_and_one_that_compares_grids_are_not_drawn(partly):
    drawable = {figure.target for of_paper in partly.papers.values() for figure in of_paper}
    assert {"chen2026_fig4", "chen2026_figH8"} <= drawable
    for target in ("chen2026_fig3", "beyond_fig2", "andriushchenko2023_fig5"):
        assert target not in drawable
        assert partly.figure(target, "demo") == partly.figure(target, "short")
        assert "none is measured" in partly.why_not(target)


def test_what_is_published_of_a_part_stays_of_that_part(partly):
    """Whatever has been measured since, or is configured now."""
    [whole] = (figure for figure in plan.figures() if figure.target == "chen2026_fig4")
    place = plan.published_at("demo")
    assert plan.as_published(whole, place) == whole
    content = {"target": whole.target, "claims": [], "tables": {"mlp-grid": {}}}
    store.replace(place.verdicts("chen2026", "fig4"), json.dumps(content).encode())
    assert plan.as_published(whole, place) == partly.figure("chen2026_fig4", "demo")


def test_a_measured_pack_may_lack_an_optional_family(tmp_path, monkeypatch):
    """Its figures are drawn; of the other family only the files that exist go into the table."""
    monkeypatch.chdir(tmp_path)
    whole = plan.Plan({}).experiment("mlp-grid", "paper")
    assert whole.optional == ["representations"]
    first, second, third = list(whole.packs)[:3]
    some = [(first, "accuracy"), (first, "geometry"), (second, "accuracy"), (third, "accuracy")]
    some += [(second, "geometry"), (second, "representations"), (third, "representations")]
    for pack, family in some:
        store.replace(whole.metrics(pack, family), b"")
    config = {"packs": "measured", "scale": "paper"}
    partly = plan.Plan(config).experiment("mlp-grid")
    assert list(partly.packs) == [first, second]
    assert partly.missing_networks == len(whole.runs) - len(partly.runs) > 0
    assert {*partly.metric_files} == {whole.metrics(*each) for each in some if each[0] != third}
    assert len(whole.metric_files) == 3 * len(whole.packs)  # all are made where none is there


def test_an_unknown_figure_is_a_sentence(partly):
    with pytest.raises(plan.PlanError, match="unknown figure 'chen2026_fig44'; did you mean"):
        partly.figure("chen2026_fig44", "demo")
