"""What commands print and refuse: transcripts.yaml has what is typed, __snapshots__ the rest."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from flatlab.cli import main
from tests.cli import given

TYPED = yaml.safe_load(Path(__file__).with_name("transcripts.yaml").read_text())
SLOW = {"estimate-all"}
SHELL = {**os.environ}  # in which programs are found, whatever PATH a test sets
VARIES = {
    r"^flatlab \d\S*(?=,| in )": "flatlab VERSION",
    r"\d+\.\d s, at most \d+\.\d\d GB": "N s, at most N GB",
    r"\d+ (?=quantities|columns)": "N ",
    r"([Kk]nown( \w+)?: [^,\n]+, [^,\n]+), .*,.*": r"\1, ...",
    r"(cannot be read as \.(pt|npz): ).*": r"\1...",
    r"^! +\d+ % of .*\n": "",
}


class Transcript(SingleFileSnapshotExtension):
    """A text file for each transcript."""

    _write_mode, file_extension = WriteMode.TEXT, "txt"


@pytest.fixture
def carried_out(tmp_path, monkeypatch, request, capsys):
    """Carry out a line: a command of flatlab here, a function of given.py, or what sh does.

    Returns stdout, stderr with a mark before each line, and the exit status if it is not 0. Of a
    pipe, which sh carries out, they are those of the command of flatlab but for stdout.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # whatever the terminal in which the tests run

    def carry_out(line):
        first, _, pipe = line.partition(" | ")
        program, *words = shlex.split(first)
        if make := getattr(given, program, None):
            return make(request, *words) or ""
        if program != "flatlab":
            return _sh(line)
        capsys.readouterr()
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code
        out, err = capsys.readouterr()
        marked = "".join(f"! {each}\n" for each in err.splitlines())
        return (_sh(pipe, out) if pipe else out) + marked + (f"exit {status}\n" if status else "")

    def _sh(line, text=None):
        done = subprocess.run(
            line, shell=True, input=text, capture_output=True, text=True, env=SHELL
        )
        assert not done.stderr, done.stderr
        return done.stdout

    return carry_out


def without_what_varies(text, folder):
    """Without the test's path, versions, times, progress, words of torch, and lists that grow."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, instead in VARIES.items():
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.more if each in SLOW else ()) for each in TYPED]
)
def test_transcript(name, carried_out, tmp_path, snapshot):
    said = "".join(f"$ {line}\n{carried_out(line)}" for line in TYPED[name].splitlines())
    assert without_what_varies(said, tmp_path) == snapshot(extension_class=Transcript)


def test_every_transcript_that_is_kept_is_typed():
    """Syrupy itself finds a left-over only where no case is left out, as `make test` does."""
    kept = Path(__file__).with_name("__snapshots__").joinpath(Path(__file__).stem).iterdir()
    assert {path.name for path in kept} == {f"test_transcript[{name}].txt" for name in TYPED}
