"""Tables as text: columns line up, and on a terminal the last one wraps."""

from __future__ import annotations

import pytest

from flatlab.cli import _text as text

ROWS = (["name", "size", "what"], ["a", 5, "short"], ["longer", 12345, "one two three four five"])


def test_text_is_aligned_left_and_numbers_right() -> None:
    assert text.table("<><", *ROWS).splitlines() == [
        "  name     size  what",
        "  a           5  short",
        "  longer  12345  one two three four five",
    ]


def test_on_a_terminal_the_last_column_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr(text, "NARROWEST", 5)
    monkeypatch.setenv("COLUMNS", "30")
    *_, first, second = text.table("<><", *ROWS).splitlines()
    assert first == "  longer  12345  one two three"
    assert second == "                 four five"
    assert max(map(len, (first, second))) <= 30


def test_numbers_in_the_last_column_and_empty_cells() -> None:
    assert text.table("<>", ["a", 1], ["b", ""], ["c", 100]).splitlines() == [
        "  a    1",
        "  b",
        "  c  100",
    ]
