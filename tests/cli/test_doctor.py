"""`flatlab doctor` in faked surroundings, and `flatlab check`: what is wrong, and what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torchvision import datasets

from flatlab.core.registry import literal

ROOT = Path(__file__).resolve().parents[2]


def test_the_names_of_data_sets_are_torchvisions():
    for kind, key in ((datasets.CIFAR10, "cifar10"), (datasets.CIFAR100, "cifar100")):
        assert literal("data", key, "FILES") == [kind.base_folder, kind.filename]
    names = {*literal("data", "fashion-mnist", "FILES")}
    assert names <= {name for name, _ in datasets.FashionMNIST.resources}


@pytest.mark.more
def test_it_starts_where_packages_are_missing(project):
    """Other commands name the package; this one runs."""
    code = "import sys; sys.modules.update(numpy=None, xarray=None, joblib=None, psutil=None)\n"
    code += "from flatlab.cli import main; sys.exit(main(sys.argv[1:]))"

    def run(command):
        call = [sys.executable, "-c", code, command]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(call, capture_output=True, text=True, env=environment)

    done = run("doctor")
    assert (done.returncode, done.stderr) == (1, "")
    assert "the package psutil is missing" in done.stdout
    done = run("show")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("flatlab: the package ")
    assert "flatlab doctor" in done.stderr
    assert done.stderr.count("\n") == 1


def test_weights_that_are_published_for_others_are_not_checked(project, printed):
    (folder := project / "results/published/paper/networks").mkdir(parents=True)
    (folder / "mlp.safetensors").write_bytes(b"anything")
    assert "0 result files checked, 0 damaged" in printed("check")
