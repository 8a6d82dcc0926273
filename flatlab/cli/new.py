"""Make the folder of a study of your own: a small example that runs, to be edited.

It is a git repository that can be published. `flatlab build` there trains, measures, draws and
judges in about a minute.
"""

import argparse
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from flatlab.core import text
from flatlab.core.schema import PlanError
from flatlab.core.studies import PACKAGE, check_name, key_of, workflow_folder

TEMPLATE = PACKAGE / "template"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_ = "the folder, which must not exist; letters and digits of its name are the study's key"
    parser.add_argument("folder", type=Path, help=help_)


def run(options: argparse.Namespace) -> int:
    folder: Path = options.folder
    check_name(folder.absolute(), "flatlab new")
    if folder.exists():
        raise PlanError(f"{folder} exists already; a new study needs a new folder")
    key = key_of(folder.absolute())
    from flatlab.lab.jobs.job import origin_in_words

    words = {"KEY": key, "FILE": key, "NAME": folder.name, "INSTALLED": origin_in_words()}
    for path in sorted(TEMPLATE.rglob("*")):
        if not path.is_file() or path.suffix == ".pyc":
            continue
        name = path.relative_to(TEMPLATE).as_posix().replace("gitignore", ".gitignore")
        content = path.read_text()
        for word, meaning in words.items():
            name, content = name.replace(word, meaning), content.replace(word, meaning)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    shutil.copytree(workflow_folder() / "profiles", folder / "profiles")
    _images(folder / "data" / f"{key}_images.npz")
    is_git = _git(folder, "init", "--quiet") and _git(folder, "add", "--all")
    print(f"{folder}: the study {key}{', a git repository without a commit' if is_git else ''}")
    steps = (("cd", str(folder)), ("flatlab", "build -n"), ("flatlab", "build"))
    print(text.table("<<", *steps))
    return 0


def add_arguments_build(parser: argparse.ArgumentParser) -> None:
    parser.prefix_chars = "\0"  # all options but --help are Snakemake's
    help_ = "targets and options of Snakemake"
    parser.add_argument("arguments", nargs="*", metavar="TARGET|OPTION", help=help_)
    parser.set_defaults(describe=parser.print_help)


def run_build(options: argparse.Namespace) -> int:
    """Build the figures of the study, or project, in this folder: what `snakemake` does there.

    Everything behind `build` is given to Snakemake: targets, -n, --config scale=paper,
    --workflow-profile profiles/slurm, ...
    """
    if options.arguments in (["-h"], ["--help"]):
        options.describe()
        raise SystemExit(0)  # as argparse does
    if not Path("Snakefile").is_file():
        raise PlanError("there is no Snakefile here; `flatlab new FOLDER` makes a study")
    if importlib.util.find_spec("snakemake") is None:
        raise PlanError("Snakemake is missing; install it with: pip install 'flatlab[workflow]'")
    return subprocess.run([sys.executable, "-m", "snakemake", *options.arguments]).returncode


def _images(path: Path) -> None:
    """A few handwritten digits, which come with scikit-learn."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8).astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:400], order[400:1000]
    arrays = {"x_train": images[train], "y_train": labels[train]}
    np.savez_compressed(path, **arrays, x_test=images[test], y_test=labels[test])


def _git(folder: Path, *arguments: str) -> bool:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True)
    except OSError:
        return False
    return done.returncode == 0
