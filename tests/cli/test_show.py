"""What is printed of results: files, experiments, figures, and the summary of verdicts."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from flatlab.cli import show
from flatlab.core import store
from flatlab.core.registry import imported
from flatlab.lab.plan import keys_of
from tests.synthetic.verdicts import claim, verdicts, write_verdicts

DEMO = "results/demo"


def test_show_prints_what_a_file_holds(project, printed):
    values = np.array([1.0, 3.0, np.nan])
    store.save_dataset("a.zarr.zip", xr.Dataset({"mls": ("run", values)}, attrs={"scale": "demo"}))
    store.save_weights("w.safetensors", {"fc1.bias": np.ones((2, 1, 5))}, {"runs": ["r0", "r1"]})
    store.save_json("v.json", {"verdict": "holds"})
    text = printed("show", "a.zarr.zip", "w.safetensors", "v.json")
    for part in ("scale: demo", "mls", "2", "fc1.bias", "(2, 1, 5)", "runs: ['r0', 'r1']", "holds"):
        assert part in text


@pytest.mark.parametrize("family", keys_of("metrics"))
def test_show_lists_quantities_as_their_family_defines_them(family, tmp_path, capsys, printed):
    """Of a report in memory and of its file, which lists them in no order."""
    names = [*imported("metrics", family).QUANTITIES]
    values = {name: ((), 1.0) for name in reversed(names)}
    report = xr.Dataset({"unknown": ((), 0.0), **values}, attrs={"families": [family]})
    show.print_dataset(report)
    fresh = capsys.readouterr().out
    store.save_dataset(tmp_path / "a.zarr.zip", report)
    _path, of_file = printed("show", tmp_path / "a.zarr.zip").split("\n", 1)
    assert of_file == fresh
    shown = [line.split()[0] for line in fresh.splitlines() if "  1" in line]
    assert shown == names
    assert fresh.splitlines()[-1].split()[0] == "unknown"


def test_show_prints_a_small_table_whole_and_a_large_one_as_a_summary(tmp_path, printed):
    small = xr.DataArray([[1.0, 2, 3], [4, 5, np.nan]], dims=("definition", "index"))
    large = xr.DataArray(np.ones((40, 3)), dims=("draw", "index"))
    store.save_dataset(tmp_path / "a.zarr.zip", xr.Dataset({"sharpness": small, "draws": large}))
    lines = [line.split() for line in printed("show", tmp_path / "a.zarr.zip").splitlines()]
    assert lines[lines.index(["sharpness"]) + 1] == ["index", "0", "1", "2"]
    assert ["1", "4", "5", "NaN"] in lines
    assert ["draws", "draw,", "index", "1", "1", "1"] in lines


LISTED = {
    "": [
        *("mlp-grid (grid, demo): Four-layer perceptrons", "lr0.1-b20-s5-19", "repeats: 8"),
        *("100 mlp (width 64) networks on digits", "representativeness (simulation, demo): "),
    ],
    "mlp-grid --scale paper": [
        *("mlp-grid (grid, paper)", "100 mlp networks on fashion-mnist", "!representativeness")
    ],
    "--keys": [
        *("Keys of kind grid", "Keys of kind networks", "momentum", "number >= 0 < 1"),
        *("drop_above", "size_at_most", "folder or list of"),
    ],
    "mlp-grid --keys": ["Keys of kind grid", "!Keys of kind networks"],
}


@pytest.mark.first(2)
@pytest.mark.parametrize("arguments", LISTED)
def test_experiments_lists_what_each_has_at_a_scale_and_the_keys_of_each_kind(
    arguments, project, printed
):
    text = printed("experiments", *arguments.split())
    for part in LISTED[arguments]:
        assert (part.lstrip("!") in text) != part.startswith("!"), part


@pytest.mark.more
def test_figures_lists_every_figure_and_table_of_the_papers_with_its_state(project, printed):
    """78 of them: 11, 8, 34, 6 and 19."""
    write_verdicts(DEMO, verdicts("chen2026_figH8"), picture=True)
    lines = printed("figures").splitlines()[:-2]
    papers = [line.split("_")[0].strip() for line in lines]
    five = ("chen2026", "chen2024", "macdonald2023", "petzka2021", "andriushchenko2023")
    assert [papers.count(paper) for paper in five] == [11, 8, 34, 6, 19]
    by_target = {line.split()[0]: line for line in lines}
    assert "built" in by_target["chen2026_figH8"]
    assert "to build" in by_target["macdonald2023_fig13"]


def judged(key, verdict="undecided"):
    record = claim(f"chen2026_{key}/c1", verdict, "stand-in", reason="why", p=0.3)
    return verdicts(f"chen2026_{key}", record)


def test_the_summary_is_a_table_that_fits_a_terminal_and_says_where_to_look(project, printed):
    """Figures whose verdicts differ from the published ones are marked."""
    for key, before, after in (("figH8", "holds", "undecided"), ("figH9", "holds", "holds")):
        write_verdicts("results/published/demo", judged(key, before))
        write_verdicts(DEMO, judged(key, after), picture=True)
    text = printed("summary")
    assert max(map(len, text.splitlines()[:-1])) <= 80  # but for the differences in words
    rows = [line.split() for line in text.splitlines() if "stand-in" in line and "_fig" in line]
    marked, other = ["chen2026_figH8", "*", "stand-in", "1"], ["chen2026_figH9", "stand-in", "1"]
    assert rows == [marked, other]
    for part in (
        *("results/demo/figures", "2 targets built, 9 not", "not built: chen2026_fig2,"),
        *("build one with: snakemake chen2026_fig2", "flatlab summary chen2026_figH8"),
        "* verdicts differ from the published ones",
    ):
        assert part in " ".join(text.split())


def test_the_summary_of_a_figure_or_a_paper_has_its_claims(project, printed):
    write_verdicts(DEMO, judged("figH8"), picture=True)
    text = printed("summary", "chen2026_figH8")
    for part in (
        "mlp-grid: 99 mlp (width 64) networks on digits; ",
        "; 1 left out (diverged or did not fit); evidence: ",
        *("undecided  c1", "why", "results/demo/figures/chen2026/figH8.pdf"),
        "results/demo/verdicts/chen2026/figH8.json",
    ):
        assert part in text
    assert printed("summary", "chen2026") == text


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("show nothing.zarr.zip", "nothing.zarr.zip does not exist"),
        ("show config.yaml", "config.yaml: show reads .zarr.zip, .safetensors, .json files"),
        ("experiments mlp-gird", "unknown experiment 'mlp-gird'; did you mean 'mlp-grid'"),
        (
            "summary chen2026_fig2",
            "chen2026_fig2 is not built at scale demo; build it with: snakemake chen2026_fig2",
        ),
        (
            "summary petzka2021",
            "petzka2021 is not built at scale demo; build it with: snakemake petzka2021",
        ),
        ("summary chen2026_figH88", "unknown target 'chen2026_figH88'; did you mean 'chen2026_fig"),
    ],
)
def test_what_is_not_there_is_a_sentence(command, sentence, project, refusal):
    assert refusal(*command.split()).startswith(sentence)


@pytest.mark.parametrize("command", ["summary", "check", "keep mlp-grid"])
def test_an_unknown_key_of_the_configuration_is_a_sentence(command, project, refusal):
    Path("config.yaml").write_text("scael: demo\n")
    sentence = "config.yaml: unknown key 'scael'; did you mean 'scale'?"
    assert refusal(*command.split()).startswith(sentence)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "lacking"),
    [
        ("beyond_fig2", "vgg-grid, lenet-grid"),  # of its three grids, one has a measured pack
        ("petzka2021", "locally-constant-labels, representativeness, minima-grid"),
    ],
)
def test_a_figure_without_measured_packs_is_refused_with_the_experiments_that_have_none(
    name, lacking, project, refusal
):
    Path("config.yaml").write_text("packs: measured\n")
    measured = "results/demo/metrics/mlp-grid/accuracy+geometry/lr0.05-b20-s0-4.zarr.zip"
    store.replace(Path(measured), b"")
    reason = "needs packs of these experiments, of which none is measured"
    assert refusal("summary", name).startswith(f"{name} {reason}: {lacking}")
    assert refusal("summary", "chen2026_figH8").startswith("chen2026_figH8 is not built")
