"""An edit re-runs the jobs that use what was edited, and no others: over all jobs of the demo.

What a job depends on beside its input files is its params: settings and the fingerprint of its
code. Here the params of every job of the project are compared before and after an edit.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PARAMS = """
import json, sys
from pathlib import Path
from flatlab import plan

sys.dont_write_bytecode = True
chosen = plan.Plan({"papers": "all"}, Path("experiments"))
found = {}

def add(name, settings, code, **about):
    found[name] = {"params": json.dumps([settings, code], sort_keys=True), **about}

for key, experiment in chosen.experiments.items():
    for data_set in experiment.data_sets:
        add(f"prepare {data_set}", {}, plan.fingerprint(plan.module_of("data", data_set)))
    for pack, about in experiment.packs.items():
        stage = experiment.training(pack)
        facts = {}
        if stage:
            network, training = stage.settings["network"], stage.settings["training"]
            facts = {"network": network, "training": training}
            add(f"train {key} {pack}", stage.settings, stage.code, **facts)
        for family in experiment.families:
            stage = experiment.measuring(pack, family)
            add(f"measure {key} {family} {pack}", stage.settings, stage.code, **facts)
    stage = experiment.tabulating(chosen.as_published(key))
    add(f"table {key}", stage.settings, stage.code)
for figure in chosen.figures:
    settings = figure.settings
    facts = {"template": settings["template"], "caption": settings["caption"]}
    add(f"draw {figure.target}", settings, figure.code, **facts)
    claims = plan.claims_code(figure.paper)
    add(f"verify {figure.target}", figure.experiments, claims)
print(json.dumps(found))
"""


def jobs_of(folder: Path) -> dict[str, dict]:
    """The params of every job, and what tells which use what."""
    run = subprocess.run(
        [sys.executable, "-B", "-c", PARAMS], cwd=folder, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project's code and declarations; not to be changed."""
    folder = tmp_path_factory.mktemp("original")
    copy_to(folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def before(original: Path) -> dict[str, dict]:
    return jobs_of(original)


def copy_to(folder: Path, source: Path) -> None:
    for name in ("flatlab", "experiments"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source / name, folder / name, ignore=ignored)


@pytest.fixture
def project(original: Path, tmp_path: Path) -> Path:
    """A copy to be edited."""
    copy_to(tmp_path, original)
    return tmp_path


def substitute(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
    path.write_text(text.replace(old, new))


def changed(before: dict[str, dict], project: Path) -> set[str]:
    after = jobs_of(project)
    assert after.keys() == before.keys()
    return {name for name in before if after[name]["params"] != before[name]["params"]}


def stacked(*heads: str):
    """Training jobs of architectures with these names, but those in a loop."""
    return lambda name, job: (
        name.startswith("train ")
        and job["network"]["name"].startswith(heads)
        and job["training"]["mode"] != "loop"
    )


def named(section: str, key: str, value: str):
    """Training jobs whose section has this value."""
    return lambda name, job: name.startswith("train ") and job[section][key] == value


def with_network(*names: str):
    """Training and measuring jobs of these architectures."""
    return lambda name, job: "network" in job and job["network"]["name"] in names


def matching(pattern: str):
    """Jobs whose whole name fits a pattern."""
    return lambda name, job: re.fullmatch(pattern, name)


EDITS = {
    "layer rule": ("train/layers/max_pool.py", stacked("vgg", "lenet")),
    "layer rule of an activation": (
        "train/layers/gaussian.py",
        lambda name, job: (
            name.startswith("train ") and job["network"]["options"].get("activation") == "gaussian"
        ),
    ),
    "optimizer": (  # which also takes the steps of the initialization `high-frequency`
        "train/optimizers/adam.py",
        lambda name, job: (
            named("training", "optimizer", "adam")(name, job)
            or named("network", "initialization", "high-frequency")(name, job)
        ),
    ),
    "loss": (
        "losses/cross_entropy.py",
        lambda name, job: (  # zoos and the family `sharpness` use it by default
            job.get("training", {}).get("loss") == "cross-entropy"
            or re.match(r"measure (\S+-zoo|\S+ \S*\bsharpness)\b", name)
        ),
    ),
    "initialization": (
        "train/initializations/low_frequency.py",
        named("network", "initialization", "low-frequency"),
    ),
    "architecture": ("networks/diagonal_linear.py", with_network("diagonal-linear")),
    "data set": ("data/sparse_regression.py", matching("prepare sparse-regression")),
    "family": ("metrics/hessian.py", matching(r"measure \S+ \S*\bhessian\b.*")),
    "simulation": ("simulations/representativeness.py", matching("measure representativeness .*")),
    "template": ("plotting/pairs.py", lambda name, job: job.get("template") == "pairs"),
    "figure of its own kind": ("papers/chen2026/fig5.py", matching("draw chen2026_fig5")),
    "claims of a paper": ("papers/petzka2021/claims.py", matching(r"verify petzka2021_\w+")),
    "tables of runs": ("tables/runs.py", matching(r"table \S+-grid")),
    "command line": ("cli/run.py", matching("none")),
    "what a kind is": ("experiments/grid.py", matching("none")),
}


LONG = (
    *("layer rule of an activation", "optimizer", "initialization"),  # asked in test_training_code
    *("template", "figure of its own kind"),  # and in unit/test_declarations
)


@pytest.mark.parametrize(
    "edit", [pytest.param(edit, marks=[pytest.mark.long] * (edit in LONG)) for edit in EDITS]
)
def test_an_edit_re_runs_exactly_what_uses_it(edit: str, before, project: Path) -> None:
    path, uses = EDITS[edit]
    expected = {name for name, job in before.items() if uses(name, job)}
    assert bool(expected) == (edit not in ("command line", "what a kind is"))
    file = project / "flatlab" / path
    file.write_text(f"{file.read_text()}\nEDITED = True\n")
    assert changed(before, project) == expected


def test_a_declaration_redraws_its_own_figure(before, project: Path) -> None:
    path = project / "flatlab/papers/chen2026/figures.py"
    substitute(path, '"LeNet networks"', '"other networks"')
    assert changed(before, project) == {"draw chen2026_figH9"}


def test_a_sentence_of_captions_redraws_the_figures_that_use_it(before, project: Path) -> None:
    sentence = "A is the maximum local sensitivity (MLS), which B, C and D bound in turn."
    users = {name for name, job in before.items() if sentence in job.get("caption", "")}
    assert 1 < len(users) < 10
    substitute(project / "flatlab/plotting/captions.py", sentence, f"Here {sentence}")
    assert changed(before, project) == users


def test_an_option_of_a_family_measures_it_again(before, project: Path) -> None:
    path = project / "experiments/lenet-grid.yaml"
    substitute(path, "relative_flatness_loss: half-mse", "relative_flatness_loss: mean-mse")
    assert changed(before, project) == {n for n in before if n.startswith("measure lenet-grid ")}


def test_comments_and_docstrings_re_run_nothing(before, project: Path) -> None:
    edited = 0
    for path in sorted((project / "flatlab").rglob("*.py")):
        text = path.read_text()
        other = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
        edited += other != text
        path.write_text(f"# A remark.\n{other}")
    for path in (project / "experiments").glob("*.yaml"):
        path.write_text(f"# A remark.\n{path.read_text()}")
    assert edited > 100
    assert changed(before, project) == set()


def test_a_misspelt_experiment_is_one_sentence_at_planning_time(project: Path) -> None:
    path = project / "flatlab/papers/chen2026/figures.py"
    path.write_text(path.read_text().replace('"lenet-grid"', '"lente-grid"'))
    run = subprocess.run(
        [sys.executable, "-c", "from pathlib import Path; from flatlab import plan; "
         "plan.Plan({}, Path('experiments'))"],
        cwd=project, capture_output=True, text=True,
    )  # fmt: skip
    last = run.stderr.strip().splitlines()[-1]
    assert run.returncode != 0
    assert "chen2026/figures.py: fig4: unknown experiment 'lente-grid'; did you mean" in last
