"""An edit re-runs the jobs that use what was edited, and no others: over all jobs of all scales.

What a job depends on beside its input files is its params: settings and the fingerprint of its
code. A fingerprint is a function of the modules in the closure of its roots, of each of which any
edit that computes counts (tests/lab/plan/test_fingerprint.py): a job is re-run if the edited module
is in its closure. Whether Snakemake obeys is asked in test_a_day.py.
"""

import importlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from flatlab.lab import plan
from flatlab.lab.plan import keys_of
from tests.workflow.cache.jobs import Job, jobs_of

# The package has a function of the same name.
fingerprints = importlib.import_module("flatlab.lab.plan.fingerprint")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def planned():
    """Every job, and the modules that it uses by the fingerprint of its code."""
    roots = []

    def closure(*names):
        roots.append(names)
        return found(*names)

    found = fingerprints.closure
    fingerprints.fingerprint.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprints, "closure", closure)
        jobs = jobs_of()
    without_code = {"": frozenset[str]()}
    return jobs, without_code | {plan.fingerprint(*names): found(*names) for names in roots}


@pytest.fixture(scope="module")
def jobs(planned):
    return planned[0]


@pytest.fixture(scope="module")
def closures(planned):
    return planned[1]


Uses = Callable[[str, Job], object]


def stacked(*heads):
    """Training jobs of architectures with these names, but those in a loop."""
    return lambda name, job: (
        job.kind == "train"
        and job.network["name"].startswith(heads)
        and job.training["mode"] != "loop"
    )


def trained(section, key, value):
    """Training jobs whose section has this value, alone or among several."""
    return lambda name, job: (
        job.kind == "train" and value in str(job.facts[section].get(key)).split("+")
    )


def with_option(key, value):
    """Training jobs of stacked networks with this option."""
    return lambda name, job: stacked("")(name, job) and job.network["options"].get(key) == value


def with_network(name):
    """Training and measuring jobs of this architecture."""
    return lambda _, job: job.network["name"] == name


def with_loss(loss, *defaults):
    """Training and measuring jobs with this loss, and those whose default it is."""
    return lambda name, job: (
        job.training.get("loss") == loss or any(re.search(each, name) for each in defaults)
    )


def verdicts_of(*papers):
    return lambda name, job: job.kind == "verify" and name.split()[-1].rpartition("_")[0] in papers


def either(*uses):
    return lambda name, job: any(use(name, job) for use in uses)


def matching(pattern):
    """Jobs whose name without the scale fits a pattern."""
    return lambda name, job: re.fullmatch(pattern, name.partition(": ")[2])


def nothing(name, job):
    return False


EVERY_TRAINING = matching("train .*")
USES: dict[str, Uses] = {
    "lab/train/layers/max_pool.py": stacked("vgg", "lenet"),
    "lab/train/layers/convolution.py": stacked("vgg", "lenet", "resnet"),
    "lab/train/layers/batch_norm.py": with_option("normalization", "batch"),
    "lab/train/layers/residual.py": stacked("resnet"),
    "lab/train/layers/product.py": stacked("diagonal"),
    "lab/train/layers/linear.py": stacked("vgg", "lenet", "resnet", "mlp", "linear"),
    "lab/train/layers/gaussian.py": with_option("activation", "gaussian"),
    "lab/train/optimizers/sgd.py": trained("training", "optimizer", "sgd"),
    "lab/train/optimizers/adam.py": either(  # the initialization that fits a sine takes its steps
        trained("training", "optimizer", "adam"),
        trained("network", "initialization", "high-frequency"),
    ),
    "lab/train/regularizers/sam.py": trained("training", "regularizer", "sam"),
    "lab/train/augmentations/crop_flip.py": trained("data", "augmentation", "crop-flip"),
    **{
        f"lab/train/initializations/{key.replace('-', '_')}.py": trained(
            "network", "initialization", key
        )
        for key in ("framework", "high-frequency", "low-frequency", "xavier-linear")
    },
    "losses/cross_entropy.py": with_loss(
        # The joint grids measure sharpness with the loss of training.
        "cross-entropy",
        r"measure (\S+-zoo|(?!joint-)\S+ \S*(?<![\w-])sharpness)\b",
    ),
    **{
        f"networks/{key.replace('-', '_')}.py": with_network(key)
        for key in ("diagonal-linear", "mlp", "vgg")
    },
    **{f"lab/train/{engine}.py": EVERY_TRAINING for engine in ("run", "stacking", "schedules")},
    "data/sparse_regression.py": matching("prepare sparse-regression"),
    "families/hessian.py": matching(r"measure \S+ \S*\bhessian\b.*"),
    "simulations/representativeness.py": matching("measure representativeness .*"),
    "lab/figures/matrix.py": lambda name, job: (
        job.facts.get("drawn_by") == "flatlab.lab.figures.matrix"
    ),
    "papers/chen2026/fig5.py": matching("draw chen2026_fig5"),
    "lab/tables/runs.py": matching(r"table \S+-(grid|zoo)"),
    "cli/run.py": nothing,
    "lab/kinds/grid.py": nothing,
    "lab/publish/scoreboard.py": nothing,
}
PAPERS_WITH_CLAIMS = sorted(path.parent.name for path in (ROOT / "papers").glob("*/claims.py"))
USES |= {f"papers/{paper}/claims.py": verdicts_of(paper) for paper in PAPERS_WITH_CLAIMS}
CHEN = ("chen2024", "chen2026", "beyond")  # the others repeat claims of chen2026
USES["papers/chen2026/claims.py"] = verdicts_of(*CHEN)
USES["papers/chen2024/claims.py"] = verdicts_of("chen2024", "beyond")
AMONG = {
    "train": {
        "networks/timm.py": with_network("timm"),
        **{
            f"losses/{key.replace('-', '_')}.py": trained("training", "loss", key)
            for key in ("half-mse", "cross-entropy", "logistic", "sum-of-squares")
        },
    },
    "verify": {
        "papers/andriushchenko2023/_names.py": verdicts_of("andriushchenko2023"),
        "papers/chen2026/claims_trends.py": verdicts_of(*CHEN),
        "papers/macdonald2023/claims_training.py": verdicts_of("macdonald2023"),
        "lab/tables/networks.py": verdicts_of(*plan.papers()),
        "lab/figures/render.py": nothing,
    },
}
"""What other kinds of jobs may use too."""


@pytest.mark.more
@pytest.mark.parametrize(
    ("path", "uses", "kind"),
    [
        *((path, uses, "") for path, uses in USES.items()),
        *((path, uses, kind) for kind, among in AMONG.items() for path, uses in among.items()),
    ],
)
def test_an_edit_re_runs_exactly_what_uses_it(path, uses, kind, jobs, closures):
    module = "flatlab." + path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert fingerprints._file(module).is_file()
    asked = {name: job for name, job in jobs.items() if kind in ("", job.kind)}
    expected = {name for name, job in asked.items() if uses(name, job)}
    assert bool(expected) == (uses is not nothing)
    assert {name for name, job in asked.items() if module in closures[job.code]} == expected


ENGINE = ("train", "train/layers", "train/optimizers", "train/regularizers", "train/augmentations")


def modules_of(*folders):
    return {plan.module_of(folder, key) for folder in folders for key in keys_of(folder)}


@pytest.mark.more
def test_measuring_uses_nothing_of_the_training(jobs, closures):
    engine = modules_of(*ENGINE)
    measuring = [job for job in jobs.values() if job.kind == "measure" and job.training]
    assert len(measuring) > 100
    assert not any(closures[job.code] & engine for job in measuring)


@pytest.mark.more
def test_layers_are_stacked_by_their_rules_but_in_a_loop(jobs, closures):
    rules = modules_of("train/layers")
    for name, job in jobs.items():
        if job.kind == "train":
            in_a_loop = job.training["mode"] == "loop"
            assert bool(closures[job.code] & rules) != in_a_loop, name


IN_A_COPY = """
import json, sys
from pathlib import Path
sys.dont_write_bytecode = True
sys.path.append(sys.argv[1])  # the copy is first
from dataclasses import asdict
from tests.workflow.cache.jobs import jobs_of
print(json.dumps({k: asdict(v) for k, v in jobs_of(("demo",)).items()}))
"""


def substitute(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1, f"{old!r} is {text.count(old)} times in {path}"
    path.write_text(text.replace(old, new))


@pytest.mark.more
def test_words_re_run_nothing_and_declarations_what_they_declare(jobs, tmp_path):
    """A remark and other docstrings in every file; a title, a sentence of captions, an option."""
    for name in ("flatlab", "papers"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    edited = 0
    for path in sorted(tmp_path.rglob("*.py")):
        text = path.read_text()
        other = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
        edited += other != text
        path.write_text(f"# A remark.\n{other}")
    assert edited > 100
    for path in (tmp_path / "papers").glob("*/experiments/*.yaml"):
        path.write_text(f"# A remark.\n{path.read_text()}")
    substitute(tmp_path / "papers/chen2026/figures.py", '"LeNet networks"', '"other networks"')
    sentence = "A is the maximum local sensitivity (MLS), which B, C and D bound in turn."
    substitute(tmp_path / "papers/chen2026/figures.py", sentence, f"Here {sentence}")
    path = tmp_path / "papers/chen2026/experiments/lenet-grid.yaml"
    substitute(path, "relative_flatness_loss: half-mse", "relative_flatness_loss: mean-mse")

    run = subprocess.run(
        [sys.executable, "-B", "-c", IN_A_COPY, ROOT], cwd=tmp_path, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    before = {name: asdict(job) for name, job in jobs.items() if job.scale == "demo"}
    before, after = json.loads(json.dumps(before)), json.loads(run.stdout)
    assert after.keys() == before.keys()
    with_sentence = {
        name for name, job in before.items() if sentence in str(job["facts"].get("caption", ""))
    }
    assert 1 < len(with_sentence) < 10
    measured = {name for name in before if name.startswith("demo: measure lenet-grid ")}
    expected = {"demo: draw chen2026_figH9", *with_sentence, *measured}
    assert {name for name in before if after[name] != before[name]} == expected
