"""The pages on measures: their examples run, what they name exists, and every cost is told."""

import re
import sys
import types
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import torch
from torch import nn

import flatlab
from flatlab.core.registry import imported, keys_of
from flatlab.simulations import _ridge as features
from tests.measurement.comparing import ALL_COSTLY

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [
    DOCS / "measures.md",
    DOCS / "errata.md",
    DOCS / "derivatives.md",
    *(DOCS / "measures").glob("*.md"),
]
FAMILIES = {key.replace("-", "_"): imported("families", key) for key in keys_of("families")}


def blocks(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run(page, names):
    found = blocks(page)
    assert len(found) == (DOCS / page).read_text().count("```python")
    for block in found:
        exec(compile(block, f"docs/{page}", "exec"), names)
    return names


def test_the_script_of_the_readme_prints_what_stands_there(capsys):
    """Numbers to 5 %: they come from a training, and machines round differently."""
    readme = (DOCS.parent / "README.md").read_text()
    [script] = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    shown = re.search(r"```text\n(.*?)```", readme, re.DOTALL)[1].split()
    exec(compile(script, "README.md", "exec"), {})
    printed = capsys.readouterr().out.split()
    assert len(printed) == len(shown)
    for there, here in zip(shown, printed, strict=True):
        same = there == here
        assert same or float(here) == pytest.approx(float(there), rel=0.05, abs=0.02)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "results/README.md"])
def test_links_of_pages_outside_the_site_lead_somewhere(name):
    page = DOCS.parent / name
    links = re.findall(r"\]\(([^)#:]+)[^)]*\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_page_names_every_setting_and_nothing_that_does_not_exist():
    text = "".join(page.read_text() for page in PAGES)
    geometry = FAMILIES["geometry"]
    for word in (*ALL_COSTLY, *geometry.NORMS, *geometry.BOUNDS):
        assert f"`{word}`" in text or f'"{word}"' in text, word
    quantities = {name for family in FAMILIES.values() for name in family.QUANTITIES}
    underscored = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text))
    settings = {"singular_values", "batch_size", "batch_norm", "test_set", "test_sets"}
    settings |= {"output_change"}
    for family in FAMILIES.values():
        settings |= {*family.Options.__struct_fields__} if hasattr(family, "Options") else set()
    functions = {"approximated_bound", "loss_nearby"}
    assert all(callable(getattr(features, name)) for name in functions)
    notes = {"class_weights", "layers_left_out", "parameters_by_generic_gradient"}
    notes |= {"parameters_unused", "derivatives_not_checked", "ignore_index"}
    notes |= {"parameters_frozen", "named_modules", "quantities_left_out"}
    notes |= {"class_axis", "max_norm", "padding_idx"}
    notes |= {"representations_left_out", "representations_directions", "held_out"}
    assert underscored <= quantities | functions | settings | notes | {*FAMILIES}


@pytest.mark.more
@pytest.mark.parametrize(
    ("page", "printed", "files"),
    [
        ("large.md", r".*'embedding'.*", []),
        pytest.param(  # how many samples are ignored, and positions
            *("networks.md", r"4\n6 .*\n", []), marks=pytest.mark.filterwarnings("ignore")
        ),
        ("spectra.md", r".*", ["density"]),
        ("landscapes.md", r".*", ["lines", "plane"]),
    ],
)
def test_every_block_of_the_page_runs(page, printed, files, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch, "compile", lambda model: torch._dynamo.optimize("eager")(model))
    monkeypatch.chdir(tmp_path)
    run(page, {})
    assert re.fullmatch(printed, capsys.readouterr().out, re.DOTALL)
    endings = ("csv", "pdf", "svg", "png")
    assert {f.name for f in tmp_path.iterdir()} == {f"{n}.{e}" for n in files for e in endings}


def test_every_block_of_the_page_on_tracking_runs_and_its_callbacks_measure(monkeypatch, tmp_path):
    """With classes that stand in for those of Lightning and transformers, and call as these do."""
    monkeypatch.setitem(sys.modules, "lightning", types.SimpleNamespace(Callback=object))
    stand_in = types.SimpleNamespace(TrainerCallback=object)
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    monkeypatch.chdir(tmp_path)
    names = run("tracking.md", {})
    assert {f.name for f in tmp_path.iterdir()} > {"run.zarr.zip", "run.pdf", "run.csv"}
    model, x, y = nn.Linear(3, 2), torch.randn(20, 3), torch.arange(20) % 2

    def tracker():
        return flatlab.Tracker(model, x, y, every=2, families="geometry", loss="cross-entropy")

    callback, trainer = names["Track"](tracker()), types.SimpleNamespace(global_step=0)
    callback.on_train_start(trainer, model)
    for batch in range(4):
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, model, None, None, batch)
    assert callback.tracker.table.step.values.tolist() == [0, 2, 4]
    callback, state = names["TrackSteps"](tracker()), types.SimpleNamespace(global_step=0)
    callback.on_train_begin(None, state, None, model=model)
    for _ in range(4):
        state.global_step += 1
        callback.on_step_end(None, state, None, model=model)
    assert callback.tracker.table.step.values.tolist() == [0, 2, 4]


def rows():
    """Family, patterns of names, and the three other cells of each row of costs."""
    for page in (DOCS / "measures").glob("*.md"):
        for line in page.read_text().partition("## Cost\n")[2].splitlines()[3:]:
            names, *cells = (cell.strip() for cell in line.strip("|").split(" | "))
            yield page.stem.replace("-", "_"), re.findall(r"`([^`]+)`", names), cells


def row_of(patterns, name):
    """The first row that fits, by its index."""
    return next((i for i, ps in enumerate(patterns) if any(fnmatchcase(name, p) for p in ps)), None)


@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"prediction"}))
def test_every_row_of_costs_is_complete_and_of_some_quantity(family):
    patterns = []
    for name, names, cells in rows():
        assert name in FAMILIES
        assert [bool(cell) for cell in cells] == [True] * 3
        patterns += [names] if name == family else []
    used = {row_of(patterns, name) for name in FAMILIES[family].QUANTITIES}
    assert used == {*range(len(patterns))}
    for pattern in (p for names in patterns for p in names):
        assert any(fnmatchcase(name, pattern) for name in FAMILIES[family].QUANTITIES), pattern
