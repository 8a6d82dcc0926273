"""Lines and files of Python by room, and the longest file: `python -m tools.count [--check]`.

With --check the exit status is 1 if there is more than the limits below.
"""

import subprocess
import sys
from pathlib import Path

PACKAGE_LINES, PACKAGE_FILES = 33_500, 251
LINES_WITH_PAPERS = 44_750
LONGEST_FILE = 500
TEST_LINES = 36_750

ROOMS = ("flatlab", "papers", "tools", "tests")


def counted() -> dict[str, dict[Path, int]]:
    """The lines of the files that git knows or would add, by room; tests of papers are tests."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rooms: dict[str, dict[Path, int]] = {room: {} for room in ROOMS}
    for path in map(Path, listed.split()):
        room = "tests" if "tests" in path.parts else path.parts[0]
        if room in rooms and path.is_file():
            rooms[room][path] = len(path.read_bytes().splitlines())
    return rooms


def excesses(rooms: dict[str, dict[Path, int]]) -> list[str]:
    """What is more than its limit, a sentence each."""
    lines = {room: sum(files.values()) for room, files in rooms.items()}
    limits = [
        ("lines of flatlab", lines["flatlab"], PACKAGE_LINES),
        ("files of flatlab", len(rooms["flatlab"]), PACKAGE_FILES),
        ("lines of flatlab and papers", lines["flatlab"] + lines["papers"], LINES_WITH_PAPERS),
        ("lines of tests", lines["tests"], TEST_LINES),
    ]
    for files in rooms.values():
        limits += [(f"lines of {path}", n, LONGEST_FILE) for path, n in files.items()]
    return [f"{n:,} {what}, {limit:,} at most" for what, n, limit in limits if n > limit]


def main() -> int:
    rooms = counted()
    print(f"{'':8}{'files':>8}{'lines':>8}  longest file")
    for room, files in rooms.items():
        longest = max(files, key=lambda path: files[path])
        lines = sum(files.values())
        print(f"{room:8}{len(files):8,}{lines:8,}  {longest} ({files[longest]})")
    found = excesses(rooms) if "--check" in sys.argv[1:] else []
    for sentence in found:
        print(f"too much: {sentence}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
