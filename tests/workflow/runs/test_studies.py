"""The pages on studies: their commands are carried out in order, and a new study is a paper."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flatlab.cli import new
from flatlab.core import store
from tests.workflow.lab import JOB, LEAKING, ROOT

pytestmark = [pytest.mark.workflow, pytest.mark.more]
PAGES = "".join((ROOT / f"docs/{page}.md").read_text() for page in ("studies", "adding"))
BLOCKS = re.compile(r"(?:`([\w./-]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""Files of the page behind their names, and commands."""


def carry_out(folder, line):
    """What a command prints; it must succeed."""
    program, _, rest = line.partition(" ")
    ours = {"flatlab": f"{sys.executable} -m flatlab", "python": sys.executable}
    command = f"{ours[program]} {rest}" if program in ours else line
    others = {k: v for k, v in os.environ.items() if not k.startswith(LEAKING)}
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**others, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}"
    return done.stdout


def rules_of(text):
    """The rules that a run has started, in their order."""
    return [rule for rule, _ in JOB.findall(text)]


@pytest.mark.long
def test_every_command_of_the_pages_is_carried_out(tmp_path):
    folder, printed, tables = tmp_path, [], []
    for name, language, block in BLOCKS.findall(PAGES):
        if name:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(block)
        for line in block.splitlines() if language == "sh" else []:
            if line.startswith("cd "):
                folder = folder / line.removeprefix("cd ")
            else:
                printed.append((line, carry_out(folder, line)))
    built = [(line, text) for line, text in printed if "build" in line]
    builds = [text for line, text in built if line == "flatlab build"]
    assert "rule train" in builds[0]
    drawn = rules_of(builds[1])
    assert sorted({*drawn} - {"score", "study", "verify"}) == ["draw"]
    assert drawn.count("draw") == 1
    for kind, rules in (("files", {"measure"}), ("loop", {"train_one", "measure"})):
        [text] = [text for line, text in built if line.endswith(f"mystudy-{kind}.zarr.zip")]
        started = rules_of(text)
        assert {*started} == rules | {"table"}
        assert started.count("measure") == 4
        own = store.load_dataset(folder / f"results/demo/tables/mystudy-{kind}.zarr.zip")
        assert own["my_test_error"].notnull().all()
        assert own.sizes["run"] == 4
        tables.append(own)
    for name in ("sharpness", "hessian_lambda_max", "my_test_error"):
        ours, theirs = (table[name].values for table in tables)
        assert ours == pytest.approx(theirs, rel=1e-4)  # the script has as many threads as it likes
    drawn = rules_of(builds[2])
    assert (drawn.count("measure"), "train" in drawn) == (4, False)
    for figure in ("fig1", "fig2", "fig3"):
        for ending in ("png", "pdf", "svg", "csv", "txt"):
            assert (folder / f"results/demo/figures/mystudy/{figure}.{ending}").is_file()
    verdicts = json.loads((folder / "results/demo/verdicts/mystudy/fig1.json").read_text())
    assert verdicts["claims"][0]["verdict"] in ("holds", "fails", "undecided")
    table = folder / "results/demo/tables/mystudy-grid.zarr.zip"
    made = json.loads(Path(f"{table}.provenance.json").read_text())
    assert made["flatlab"]["version"]
    assert made["flatlab"]["installed"]
    assert len((folder / "README.md").read_text().splitlines()) <= 12
    assert "3 passed" in carry_out(folder, "python -m pytest -q -p no:cacheprovider")


def paper(lab):
    """A new study among the papers, with the examples of the page."""
    folder = lab / "papers/doe2027"
    new.run(argparse.Namespace(folder=folder))
    examples = {name: block for name, _, block in BLOCKS.findall(PAGES)}
    for name in ("families/weight_norms.py", "figures.py", "fig3.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(examples[name].replace("mystudy", "doe2027"))
    return folder


@pytest.mark.long  # of a study of one's own: test_wheel.py
def test_a_new_study_is_a_paper_among_ours_and_nothing_else_names_it(fresh):
    folder = paper(fresh)
    grid = folder / "experiments/doe2027-grid.yaml"
    families = "accuracy+geometry+weight-norms"
    content = grid.read_text().replace("accuracy+geometry", families)
    grid.write_text(content.replace("seeds: [0-4]", "seeds: [0-2]"))
    run = fresh.snakemake("--cores", "2", "doe2027")
    packs = [f"lr{lr}-b{size}-s0-2" for lr in (0.1, 0.3) for size in (10, 40)]
    assert run.jobs == sorted(
        [
            "prepare doe2027-images",
            *(f"train doe2027-grid {pack}" for pack in packs),
            *(f"measure doe2027-grid {families} {pack}" for pack in packs),
            *("table doe2027-grid", "correlate doe2027-grid"),
            *(f"{rule} fig{number}" for rule in ("draw", "verify") for number in (1, 3)),
            "doe2027",
        ]
    )
    table = store.load_dataset(fresh / "results/demo/tables/doe2027-grid.zarr.zip")
    assert table.sizes["run"] == 12
    assert (table["parameters_norm_1"] > table["parameters_norm_2"]).all()
    for ending in ("pdf", "svg", "png", "csv"):
        for figure in ("fig1", "fig3"):
            assert (fresh / f"results/demo/figures/doe2027/{figure}.{ending}").stat().st_size
    verdicts = json.loads((fresh / "results/demo/verdicts/doe2027/fig1.json").read_text())
    assert [claim["id"] for claim in verdicts["claims"]] == ["doe2027_fig1/c1"]
    missing = fresh.snakemake("--dry-run", "doe2027_fig4", succeeds=False).output
    assert "it needs a data set that is not public" in missing


@pytest.mark.long
def test_what_is_made_passes_the_checks_of_the_project(fresh):
    modules = [str(path) for path in paper(fresh).glob("**/*.py") if path.parent.name != "tests"]
    shutil.copy(ROOT / "pyproject.toml", fresh.folder)
    cache = f"--cache-dir={ROOT / '.mypy_cache'}"
    for check in (["ruff", "format", "--check"], ["ruff", "check"], ["mypy", cache]):
        command = [sys.executable, "-m", *check, *modules]
        done = subprocess.run(command, cwd=fresh.folder, capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr
