"""The command line: what it prints of results, and what it says of bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import flatlab.cli
from flatlab.cli import main, show
from flatlab.core import store
from flatlab.core.registry import imported
from flatlab.lab.plan import keys_of
from tests.synthetic.verdicts import verdicts, write_verdicts


def test_show_prints_what_a_file_holds(project: Path, capsys: pytest.CaptureFixture) -> None:
    values = np.array([1.0, 3.0, np.nan])
    store.save_dataset("a.zarr.zip", xr.Dataset({"mls": ("run", values)}, attrs={"scale": "demo"}))
    store.save_weights("w.safetensors", {"fc1.bias": np.ones((2, 1, 5))}, {"runs": ["r0", "r1"]})
    store.save_json("v.json", {"verdict": "holds"})
    assert main(["show", "a.zarr.zip", "w.safetensors", "v.json"]) == 0
    text = capsys.readouterr().out
    for part in ("scale: demo", "mls", "2", "fc1.bias", "(2, 1, 5)", "runs: ['r0', 'r1']", "holds"):
        assert part in text


@pytest.mark.parametrize("family", keys_of("metrics"))
def test_show_lists_quantities_as_their_family_defines_them(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """Of a report in memory and of its file, which lists them in no order."""
    names = [*imported("metrics", family).QUANTITIES]
    values = {name: ((), 1.0) for name in reversed(names)}
    report = xr.Dataset({"unknown": ((), 0.0), **values}, attrs={"families": [family]})
    show.print_dataset(report)
    fresh = capsys.readouterr().out
    store.save_dataset(tmp_path / "a.zarr.zip", report)
    assert main(["show", str(tmp_path / "a.zarr.zip")]) == 0
    _path, of_file = capsys.readouterr().out.split("\n", 1)
    assert of_file == fresh
    shown = [line.split()[0] for line in fresh.splitlines() if "  1" in line]
    assert shown == names
    assert fresh.splitlines()[-1].split()[0] == "unknown"


def test_check_finds_every_damaged_file(project: Path, capsys: pytest.CaptureFixture) -> None:
    for name in ("a", "b", "c"):
        store.save_dataset(f"results/{name}.zarr.zip", xr.Dataset({"x": ("run", np.arange(9.0))}))
    assert main(["check"]) == 0
    for name in ("a", "c"):
        path = Path(f"results/{name}.zarr.zip")
        content = bytearray(path.read_bytes())
        content[100] ^= 1
        path.write_bytes(content)
    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert "results/a.zarr.zip is damaged" in text
    assert "results/c.zarr.zip is damaged" in text
    assert "3 result files checked, 2 damaged" in text
    assert main(["check", "resluts"]) == 1
    assert "resluts is no folder" in capsys.readouterr().err


def test_experiments_lists_what_each_has_at_a_scale(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["experiments"]) == 0
    text = capsys.readouterr().out
    for part in (
        "mlp-grid (grid, demo): Four-layer perceptrons",
        "100 mlp (width 64) networks on digits",
        "lr0.1-b20-s5-19",
        "representativeness (simulation, demo): ",
        "repeats: 8",
    ):
        assert part in text
    assert main(["experiments", "mlp-grid", "--scale", "paper"]) == 0
    text = capsys.readouterr().out
    assert "mlp-grid (grid, paper)" in text
    assert "100 mlp networks on fashion-mnist" in text
    assert "representativeness" not in text
    assert main(["experiments", "mlp-gird"]) == 1
    assert "unknown experiment 'mlp-gird'; did you mean 'mlp-grid'" in capsys.readouterr().err


def test_experiments_lists_the_keys_of_each_kind(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["experiments", "--keys"]) == 0
    text = capsys.readouterr().out
    parts = ("momentum", "number >= 0 < 1", "drop_above", "size_at_most", "folder or list of")
    for part in ("Keys of a grid", "Keys of a zoo", *parts):
        assert part in text
    assert main(["experiments", "mlp-grid", "--keys"]) == 0
    text = capsys.readouterr().out
    assert "Keys of a grid" in text
    assert "Keys of a zoo" not in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "nothing.zarr.zip"], "nothing.zarr.zip does not exist"),
        (["show", "config.yaml"], "config.yaml: show reads .zarr.zip, .safetensors and .json"),
        (["summary"], "config.yaml: unknown key 'scael'; did you mean 'scale'?"),
        (["check"], "config.yaml: unknown key 'scael'; did you mean 'scale'?"),
        (["keep", "mlp-grid"], "config.yaml: unknown key 'scael'; did you mean 'scale'?"),
    ],
)
def test_bad_input_ends_in_one_sentence(
    arguments: list[str], sentence: str, project: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("config.yaml").write_text("scael: demo\n")
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"flatlab: {sentence}")
    assert error.count("\n") == 1


@pytest.mark.parametrize("content", [b"scale: [", b"scale: \xff"])
def test_a_configuration_that_is_no_yaml_is_a_sentence(
    content: bytes, project: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("config.yaml").write_bytes(content)
    assert main(["figures"]) == 1
    assert capsys.readouterr().err == "flatlab: config.yaml: not valid YAML\n"


def test_check_does_not_ask_what_is_measured_at_other_scales(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    Path("config.yaml").write_text("packs: measured\n")
    measured = Path("results/demo/metrics/mlp-grid/accuracy+geometry/lr0.1-b20-s0-4.zarr.zip")
    store.save_dataset(measured, xr.Dataset({"x": ("run", np.arange(9.0))}))
    assert main(["check"]) == 0
    text = capsys.readouterr().out
    assert "configuration and experiments: valid at every scale" in text
    assert "1 result files checked, 0 damaged" in text


def test_outside_a_project_it_says_where_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["summary"]) == 1
    assert "run flatlab in the project's folder" in capsys.readouterr().err


COMMANDS = keys_of("cli")


def test_a_file_in_the_folder_of_commands_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "say_again.py").write_text(
        '"""Say something again."""\n\n'
        'def add_arguments(parser):\n    parser.add_argument("word")\n\n'
        "def run(options):\n    print(options.word * 2)\n    return 3\n"
    )
    monkeypatch.setattr(flatlab.cli, "__path__", [*flatlab.cli.__path__, str(tmp_path)])
    monkeypatch.setattr("flatlab.lab.plan.keys_of", lambda folder: ["say-again", "show"])
    assert main(["say-again", "ho"]) == 3
    assert capsys.readouterr().out == "hoho\n"
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "Say something again." in capsys.readouterr().out


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS)])
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as end:
        main([*command, "--help"])
    assert end.value.code == 0
    assert "usage: flatlab" in capsys.readouterr().out


def test_figures_lists_every_figure_and_table_of_the_papers_with_its_state(
    project: Path, capsys: pytest.CaptureFixture
) -> None:
    """78 of them: 11, 8, 34, 6 and 19."""
    write_verdicts("results/demo", verdicts("chen2026_figH8"), picture=True)
    assert main(["figures"]) == 0
    lines = capsys.readouterr().out.splitlines()[:-2]
    papers = [line.split("_")[0].strip() for line in lines]
    counted = {paper: papers.count(paper) for paper in dict.fromkeys(papers)}
    five = ("chen2026", "chen2024", "macdonald2023", "petzka2021", "andriushchenko2023")
    assert [counted[paper] for paper in five] == [11, 8, 34, 6, 19]
    by_target = {line.split()[0]: line for line in lines}
    assert "built" in by_target["chen2026_figH8"]
    assert "to build" in by_target["macdonald2023_fig13"]
    assert main(["figures", "petzka2021"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6 + 2
    assert main(["figures", "petzka2022"]) == 1
    assert "did you mean 'petzka2021'" in capsys.readouterr().err


def test_show_prints_a_small_table_whole_and_a_large_one_as_a_summary(tmp_path, capsys):
    small = xr.DataArray([[1.0, 2, 3], [4, 5, np.nan]], dims=("definition", "index"))
    large = xr.DataArray(np.ones((40, 3)), dims=("draw", "index"))
    store.save_dataset(tmp_path / "a.zarr.zip", xr.Dataset({"sharpness": small, "draws": large}))
    assert main(["show", str(tmp_path / "a.zarr.zip")]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["sharpness", "by", "definition", "index", "0", "index", "1", "index", "2"] in lines
    assert ["1", "4", "5", "nan"] in lines
    assert ["draws", "draw,", "index", "1", "1", "1"] in lines
