"""Lines and files of Python by package, and the longest file: `python -m tools.count [--check]`.

With --check the exit status is 1 if there is more than the limits below.
"""

import subprocess
import sys
from pathlib import Path

PACKAGE_LINES, PACKAGE_FILES = 33_600, 250
LINES_WITH_PAPERS = 45_580
LONGEST_FILE = 500
TEST_LINES = 37_135

PACKAGES = ("flatlab", "papers", "tools", "tests")


def counted() -> dict[str, dict[Path, int]]:
    """The lines of the files that git knows or would add, by package; tests of papers are tests."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    packages: dict[str, dict[Path, int]] = {package: {} for package in PACKAGES}
    for path in map(Path, listed.split()):
        package = "tests" if "tests" in path.parts else path.parts[0]
        if package in packages and path.is_file():
            packages[package][path] = len(path.read_bytes().splitlines())
    return packages


def excesses(packages: dict[str, dict[Path, int]]) -> list[str]:
    """What is more than its limit, a sentence each."""
    lines = {package: sum(files.values()) for package, files in packages.items()}
    limits = [
        ("lines of flatlab", lines["flatlab"], PACKAGE_LINES),
        ("files of flatlab", len(packages["flatlab"]), PACKAGE_FILES),
        ("lines of flatlab and papers", lines["flatlab"] + lines["papers"], LINES_WITH_PAPERS),
        ("lines of tests", lines["tests"], TEST_LINES),
    ]
    for files in packages.values():
        limits += [(f"lines of {path}", n, LONGEST_FILE) for path, n in files.items()]
    return [f"{n:,} {what}, {limit:,} at most" for what, n, limit in limits if n > limit]


def main() -> int:
    packages = counted()
    print(f"{'':8}{'files':>8}{'lines':>8}  longest file")
    for package, files in packages.items():
        longest = max(files, key=lambda path: files[path])
        lines = sum(files.values())
        print(f"{package:8}{len(files):8,}{lines:8,}  {longest} ({files[longest]})")
    found = excesses(packages) if "--check" in sys.argv[1:] else []
    for sentence in found:
        print(f"too much: {sentence}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
