"""Progress in a log: a line with numbers, and steps are counted only when one is due."""

from flatlab.core.progress import Progress


def lines_of(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_line_has_the_share_the_total_and_the_note(capsys):
    progress = Progress(12_000, "steps", lambda: "loss 0.5", start=3_000)
    progress.every_s = 0
    progress.advance(lambda: 6_000)
    progress.close(12_000)
    first, last = lines_of(capsys)
    assert first.startswith("50 % of 12,000 steps, ")
    assert first.endswith(" left, loss 0.5")
    assert last.startswith("100 % of 12,000 steps, ")


def test_nothing_is_counted_before_a_line_is_due(capsys):
    progress = Progress(10, "networks", lambda: "none failed")

    def count():
        raise AssertionError("counting may wait for a GPU")

    progress.advance(count)
    assert lines_of(capsys) == []


def test_of_no_steps_there_is_a_line_too(capsys):
    Progress(0, "networks", lambda: "none failed").close(0)
    assert lines_of(capsys) == ["0 % of 0 networks, ?networks/s, ? left, none failed"]
