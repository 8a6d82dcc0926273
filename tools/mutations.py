"""Whether tests find errors: `python -m tools.mutations` makes those of `mutations.yaml` in turn.

Each is made in a copy of the repository, in which the tests that concern the file run up to the
first failure: those of its own folder first, then those of what stands on it. Numbers as arguments
choose mutations; `--full` asks `make test-full` of all, not only of what `make test` misses.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
QUICK, FULL = "not cluster and not long and not more", "not cluster and not long"
SUITES = {
    "stats": ["lab/tables", "lab/claims", "lab/figures", "papers"],
    "losses": ["families", "laws", "measurement", "lab/train"],
    "data": ["lab/train", "measurement", "cli"],
    "networks": ["laws", "families", "lab/train", "measurement"],
    "derivatives": ["families", "laws", "oracle", "measurement"],
    "inputs": ["laws", "measurement", "families", "cli"],
    "measuring": ["families", "measurement", "lab", "laws"],
    "api": ["measurement", "cli"],
    "families": ["derivatives", "laws", "oracle", "measurement", "cli"],
    "core": ["lab", "cli", "workflow"],
    "lab": ["lab", "cli", "papers", "workflow"],
    "cli": ["workflow"],
    "papers": ["papers"],
}
"""Beside its own folder, what concerns a file of each package."""


def tests_of(file: str, near: bool) -> list[str]:
    """Folders and files with tests, the nearest first.  near: of its own folder alone."""
    path = Path(file)
    package = path.parts[0 if path.parts[0] == "papers" else 1]
    if package == "papers":
        return [f"papers/{path.parts[1]}/tests"]
    own = Path("tests", *path.with_suffix("").parts[1:])
    nearest = [own.with_name(f"test_{own.name.strip('_')}.py"), *list(own.parents)[:-1]]
    beyond = [Path(each if each == "papers" else f"tests/{each}") for each in SUITES[package]]
    chosen = dict.fromkeys(each for each in [*nearest, *beyond] if each != Path("tests"))
    there = [str(each) for each in chosen if (ROOT / each).exists()]
    return there[: 1 + there[0].endswith(".py")] if near else there


def failure(copy: Path, tests: list[str], selection: str) -> str:
    """The first test that fails, "" if none does."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(
        [*command, "-m", selection, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1, 5) or (done.returncode == 1 and not failed):
        raise SystemExit(done.stdout + done.stderr)
    return failed[0] if failed else ""


def main() -> None:
    """Print each mutation with the test that finds it, then how many were found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="from 1; default: all")
    parser.add_argument("--full", action="store_true", help="ask `make test-full` of all")
    parser.add_argument("--near", action="store_true", help="only tests of the file's own folder")
    options = parser.parse_args()
    mutations = yaml.safe_load((ROOT / "tools/mutations.yaml").read_text())
    found = {QUICK: 0, FULL: 0}
    chosen = options.numbers or range(1, len(mutations) + 1)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "flatlab")
        names = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT)
        for name in filter(lambda name: (ROOT / name).is_file(), names.decode().splitlines()):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
        for number in chosen:
            mutation = mutations[number - 1]
            path = copy / mutation["in"]
            text = path.read_text()
            if text.count(mutation["was"]) != 1:
                raise SystemExit(f"{number}: {mutation['was']!r} is not once in {mutation['in']}")
            path.write_text(text.replace(mutation["was"], mutation["now"]))
            by = ""
            for selection in [FULL] if options.full else [QUICK, FULL]:
                by = by or failure(copy, tests_of(mutation["in"], options.near), selection)
                found[selection] += bool(by)
            path.write_text(text)
            print(f"{number:2} {mutation['in']}, {mutation['kind']}: {by or 'MISSED'}", flush=True)
    for selection, command in ((QUICK, "make test"), (FULL, "make test-full")):
        if selection == FULL or not options.full:
            print(f"{command}: {found[selection]} of {len(chosen)} found")


if __name__ == "__main__":
    main()
