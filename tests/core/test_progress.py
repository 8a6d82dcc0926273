"""What takes more than a minute says so first; in a log progress is a line, counted when due."""

import time
import warnings

import pytest

from flatlab.core import progress
from flatlab.core.progress import Progress, ProgressBar, duration


@pytest.mark.parametrize(
    ("first", "others", "total", "expected"),
    [
        (5.0, 0.01, 100, []),  # something was loaded
        (30.0, 30.0, 9, ["pieces will take about 4 minutes"]),  # before the second
        (2.0, 2.0, 100, ["pieces will take about 3 minutes"]),
        (0.1, 0.1, 10**5, ["pieces will take about 2.8 hours"]),
        (0.5, 0.5, 100, []),
        (5.0, 5.0, 13, []),
    ],
)
def test_more_than_a_minute_is_forecast_once_and_not_of_a_slow_first_step(
    first, others, total, expected, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ProgressBar("pieces", total, False) as steps:
            for number in range(min(total, 300)):
                now[0] += others if number else first
                steps.tick()
    assert [str(warning.message) for warning in caught] == expected


def test_the_clock_of_a_bar_moves_during_a_single_long_step(monkeypatch, capsys):
    monkeypatch.setattr(progress, "CLOCK", 0.01)
    with ProgressBar("one step", 1, progress=True) as alone:
        drawn = [len(capsys.readouterr().err)]
        for _ in range(500):
            time.sleep(0.01)
            drawn.append(len(capsys.readouterr().err))
            if sum(map(bool, drawn)) > 2:
                break
        alone.tick()
    assert sum(map(bool, drawn)) > 2
    assert alone.clock is not None
    assert not alone.clock.is_alive()
    with ProgressBar("one step", 1, progress=False) as hidden:
        assert hidden.clock is None


def test_durations_are_in_words():
    assert [duration(s) for s in (61, 150, 10_000)] == ["61 s", "2 minutes", "2.8 hours"]


def lines_of(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_line_has_the_share_the_total_and_the_note(capsys):
    bar = Progress(12_000, "steps", lambda: "loss 0.5", start=3_000)
    bar.every_s = 0
    bar.advance(lambda: 6_000)
    bar.close(12_000)
    first, last = lines_of(capsys)
    assert first.startswith("50 % of 12,000 steps, ")
    assert first.endswith(" left, loss 0.5")
    assert last.startswith("100 % of 12,000 steps, ")


def test_nothing_is_counted_before_a_line_is_due(capsys):
    bar = Progress(10, "networks", lambda: "none failed")

    def count():
        raise AssertionError("counting may wait for a GPU")

    bar.advance(count)
    assert lines_of(capsys) == []


def test_of_no_steps_there_is_a_line_too(capsys):
    Progress(0, "networks", lambda: "none failed").close(0)
    assert lines_of(capsys) == ["0 % of 0 networks, ?networks/s, ? left, none failed"]
