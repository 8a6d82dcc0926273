"""The package as others install it: a wheel, in a folder of its own, run from an empty folder."""

import ast
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from flatlab.core import store
from tests.workflow.lab import LEAKING, ROOT

FILES = (
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md"),
    *("MANIFEST.in", "Snakefile", "config.yaml", "pyproject.toml", "setup.py"),
)
FOLDERS = ("flatlab", "rules", "scripts", "papers", "envs", "report", "profiles", "tests")
WORKFLOW = "flatlab/workflow/"
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"
BUILDS = find_spec("setuptools") and find_spec("pip")

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(not BUILDS, reason="building a wheel needs setuptools and pip"),
]


@pytest.fixture(scope="module")
def archives(built_once):
    """A folder with the sdist, and the wheel that is built from it."""

    def build(folder):
        def built(kind, source):
            command = [sys.executable, "-c", BUILD.format(kind), str(folder)]
            subprocess.run(command, cwd=source, check=True, capture_output=True)

        source = folder / "source"
        source.mkdir(parents=True)
        for name in FILES:
            shutil.copy2(ROOT / name, source)
        for name in FOLDERS:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        built("sdist", source)
        with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
            archive.extractall(folder / "unpacked", filter="data")
        built("wheel", next((folder / "unpacked").iterdir()))

    return built_once("archives", build)


@pytest.fixture(scope="module")
def wheel(archives):
    return next(archives.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, built_once):
    """A folder of packages with nothing but the wheel; the others are those of this environment."""

    def install(folder):
        options = ["--quiet", "--no-deps", "--no-index", "--target", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, str(wheel)], check=True)

    return built_once("installed", install)


@pytest.fixture
def flatlab(installed, tmp_path):
    """Run the installed command in an empty folder."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}

    def run(*arguments, program="flatlab"):
        command = [str(installed / "bin" / program)] if program == "flatlab" else [sys.executable]
        return subprocess.run(
            [*command, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_the_wheel_holds_every_module_and_asks_for_no_snakemake(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(n for n in names if n.endswith("/METADATA"))).decode()
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "flatlab").rglob("*.py")}
    python = {name for name in names if name.endswith(".py")}
    assert modules == {name for name in python if not name.startswith(WORKFLOW)}
    for folder in ("rules", "scripts", "papers", "profiles"):
        files = [path for path in (ROOT / folder).rglob("*.*") if path.suffix != ".pyc"]
        assert files
        for path in files:
            if path.is_file() and not {"tests", "conftest.py", "README.md"} & {*path.parts}:
                assert f"{WORKFLOW}{path.relative_to(ROOT).as_posix()}" in names
    needs = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    assert any("torch" in line for line in needs)
    assert [line for line in needs if "snakemake" in line and "extra ==" not in line] == []


def test_the_sdist_holds_what_the_wheel_is_built_from_and_nothing_else(archives):
    with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
        there = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert there == {*FILES, *FOLDERS, "PKG-INFO", "flatlab.egg-info", "setup.cfg"} - {"tests"}


def test_what_the_package_imports_is_declared():
    """The packages that any module imports, wherever it does, are dependencies of the project."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {"pillow": "PIL", "pyyaml": "yaml", "scikit-learn": "sklearn"}
    asked = declared["dependencies"]
    packages = {name.partition("<")[0].partition(">")[0] for name in asked}
    known = {names.get(name, name) for name in packages} | {*sys.stdlib_module_names, "flatlab"}
    imported = set()
    template = ROOT / "flatlab/template"  # of a study, whose tests need pytest
    for path in {*(ROOT / "flatlab").rglob("*.py")} - {*template.rglob("*.py")}:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    assert imported - known == set()


def test_every_extra_is_locked():
    """Except zoos, whose packages are nothing that the workflow needs."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {
        name: extras["optional-dependencies"][name] for name in ("workflow", "dev", "cluster")
    }
    wanted["needed"] = extras["dependencies"]
    for extra, asked in wanted.items():
        file = "cluster" if extra == "cluster" else "requirements"
        listed = (ROOT / f"envs/{file}.in").read_text().splitlines()
        lines = {line.partition("#")[0].strip() for line in listed}
        assert {each for each in asked if not each.startswith("flatlab[")} <= lines, extra


def test_a_network_is_measured_from_an_empty_folder(flatlab, installed, tmp_path):
    """The installed package, not this checkout, with the numbers of this checkout."""
    found = flatlab("-c", "import flatlab; print(flatlab.__file__)", program="python")
    assert Path(found.stdout.strip()).is_relative_to(installed)
    code = "def build():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    (tmp_path / "mine.py").write_text(f"from torch import nn\n\n{code}")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    torch.save(model.state_dict(), tmp_path / "w.pt")
    asked = ["measure", "w.pt", "--model", "mine:build", "--data", "digits", "--samples", "5"]
    asked += ["--family", "geometry"]
    done = flatlab(*asked, "--out", "report.zarr.zip")
    assert done.returncode == 0, done.stderr
    report = store.load_dataset(tmp_path / "report.zarr.zip")
    assert report["mls"] > 0
    assert report["sharpness"] > 0
    printed = flatlab("show", "report.zarr.zip").stdout.split("\n", 1)[1]
    assert done.stdout.startswith(printed)


COMMANDS = [
    *(["check"], ["estimate"], ["experiments"], ["figures"], ["publish"]),
    *(["keep", "mlp-grid"], ["run", "mlp-grid"], ["summary"]),
]


def test_what_needs_a_checkout_says_so_in_a_sentence(flatlab):
    code = f"from flatlab.cli import main; print(*(main(each) for each in {COMMANDS}))"
    done = flatlab("-c", code, program="python")
    assert done.stdout.split() == ["1"] * len(COMMANDS)
    sentences = done.stderr.splitlines()
    assert len(sentences) == len(COMMANDS)
    for sentence in sentences:
        assert sentence.startswith("flatlab: ")
        assert "run flatlab in the project's folder" in sentence


def test_in_a_checkout_the_installed_command_lists_its_own_figures(flatlab, tmp_path):
    shutil.copy(ROOT / "config.yaml", tmp_path)
    done = flatlab("figures")
    assert done.returncode == 0, done.stderr
    assert "chen2026_fig2" in done.stdout


def test_the_installed_wheel_makes_a_study_and_plans_it(flatlab, tmp_path):
    assert flatlab("new", "my-study").returncode == 0
    program = (
        "import os; os.chdir('my-study'); from flatlab.cli import main; import sys;"
        "sys.exit(main(['build', '-n']))"
    )
    done = flatlab("-c", program, program="python")
    assert done.returncode == 0, done.stderr
    assert "rule train" in done.stdout + done.stderr


@pytest.mark.workflow
@pytest.mark.long
def test_a_study_is_built_by_the_wheel_in_a_clean_environment(wheel, tmp_path):
    """Which brings the workflow."""

    ours = {k: v for k, v in os.environ.items() if not k.startswith(LEAKING)}
    captured = {"env": ours, "capture_output": True, "text": True}

    def call(*command, cwd=tmp_path):
        return subprocess.run([*map(str, command)], cwd=cwd, **captured)

    assert call(sys.executable, "-m", "venv", "clean").returncode == 0
    programs, uv = tmp_path / "clean/bin", Path(sys.executable).with_name("uv")
    install = [programs / "python", "-m", "pip", "install"]
    if uv.is_file():  # the same, in half a minute where the packages are in its cache
        install = [uv, "pip", "install", "--python", programs / "python"]
    installed = call(*install, f"{wheel}[workflow]")
    if installed.returncode:
        pytest.skip(f"nothing can be installed here: {installed.stderr.strip().splitlines()[-1]}")
    made = call(programs / "flatlab", "new", "my-study")
    assert made.returncode == 0, made.stderr
    study = tmp_path / "my-study"
    assert wheel.name in (study / "README.md").read_text()
    built = call(programs / "flatlab", "build", cwd=study)
    assert built.returncode == 0, built.stdout + built.stderr
    for file in ("figures/mystudy/fig1.png", "verdicts/mystudy/fig1.json"):
        assert (study / "results/demo" / file).is_file()
