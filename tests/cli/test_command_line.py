"""The command line as a whole: what is a command, tables as text, what a start imports."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import flatlab.cli
from flatlab.cli import main
from flatlab.cli._main import EXAMPLES, parser
from flatlab.core import text

ROOT = Path(__file__).resolve().parents[2]


def test_every_command_has_an_example_that_it_understands():
    _, commands = parser(None)
    assert {*commands} == {*EXAMPLES}
    for name, line in EXAMPLES.items():
        words = shlex.split(line)
        assert words[:2] == ["flatlab", name]
        commands[name].parse_known_args(words[2:])  # `build` passes the rest on
        page = commands[name].format_help()
        assert "usage: flatlab" in page
        assert line in page
    for part in ("digits", "cross-entropy", "how it is computed:"):
        assert part in commands["measure"].format_help()


def test_a_file_in_the_folder_of_commands_is_a_command_and_may_hold_another(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "say_again.py").write_text(
        '"""Say something again."""\n\n'
        'def add_arguments(parser):\n    parser.add_argument("word")\n\n'
        "def run(options):\n    print(options.word * 2)\n    return 3\n\n"
        'def run_whisper(options):\n    """Say nothing.\n\n    Softly.\n    """\n    return 4\n'
    )
    monkeypatch.setattr(flatlab.cli, "__path__", [*flatlab.cli.__path__, str(tmp_path)])
    assert (main(["say-again", "ho"]), main(["whisper"])) == (3, 4)
    assert capsys.readouterr().out == "hoho\n"
    for command, words in (("--help", "Say something again."), ("whisper", "Softly.")):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        assert words in capsys.readouterr().out


def test_an_unknown_command_is_an_error_that_lists_the_known(capsys):
    with pytest.raises(SystemExit) as end:
        main(["sumary"])
    assert end.value.code == 2
    assert "summary" in capsys.readouterr().err


def test_only_the_command_that_is_called_is_imported():
    code = "import sys; from flatlab.cli import main; main(['experiments', '--scale', 'demo'])\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    loaded = {*done.stderr.split()}
    assert "flatlab.cli.experiments" in loaded
    assert not loaded & {"flatlab.cli.correlate", "xarray", "scipy", "torch"}


ROWS = (["name", "size", "what"], ["a", 5, "short"], ["longer", 12345, "one two three four five"])


def test_text_is_aligned_left_numbers_right_and_the_last_column_wraps(monkeypatch):
    assert text.table("<><", *ROWS).splitlines() == [
        "  name     size  what",
        "  a           5  short",
        "  longer  12345  one two three four five",
    ]
    empty = text.table("<>", ["a", 1], ["b", ""], ["c", 100])
    assert empty.splitlines() == ["  a    1", "  b", "  c  100"]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(text, "NARROWEST", 5)
    monkeypatch.setenv("COLUMNS", "30")
    lines = text.table("<><", *ROWS).splitlines()
    assert lines[-2:] == ["  longer  12345  one two three", "                 four five"]
