"""A study in the working folder, for tests of its experiments."""

import contextlib
import sys
from pathlib import Path

import yaml

from flatlab.core import store
from flatlab.core.registry import imported
from flatlab.core.studies import use_studies
from flatlab.lab import plan
from tests.lab.plan import fingerprints


@contextlib.contextmanager
def made(folder, monkeypatch, **modules):
    """A study with these modules, which is the working folder; afterwards there is none."""
    (folder / "experiments").mkdir(parents=True)
    monkeypatch.setenv("FLATLAB_STUDIES", "")
    monkeypatch.chdir(folder)
    for name, content in modules.items():
        Path(f"{name}.py").write_text(content)
    Path("config.yaml").write_text("studies: [.]\npapers: [mine]\n")
    yield folder
    use_studies([], "")
    forget()


def forget():
    """Files are read anew, as in a new process."""
    for name in [n for n in sys.modules if "papers.mine" in n or n in ("mine", "helpers")]:
        del sys.modules[name]
    fingerprints.forget()


def declare(name, content):
    """Write an experiment, the same at each scale."""
    scales = {"scales": {"demo": {}, "short": {}, "paper": {}}}
    Path("experiments", f"{name}.yaml").write_text(yaml.safe_dump({**content, **scales}))
    forget()


def planned():
    """The plan of the study in the working folder, whose key is `mine`."""
    return plan.Plan({"studies": ["."], "papers": ["mine"]})


def table_of(key):
    """The table of an experiment whose metric files are there."""
    chosen = planned()
    experiment = chosen.experiment(key)
    parts = [store.load_dataset(path) for path in experiment.metric_files]
    settings = experiment.tabulating(chosen.as_published[key]).settings
    return imported("lab/kinds", experiment.kind).tabulate(parts, settings)
