"""One bar on a terminal, plain lines elsewhere, and errors in full in both."""

import shutil
import sys

import pytest

from tests.workflow.lab import JOB, ROOT, Lab, Run

pytestmark = pytest.mark.workflow

PLUGIN = "snakemake_logger_plugin_flatlab"
ON_A_TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, "-m", "snakemake", *sys.argv[1:]])))
"""
DRAWN_AGAIN = ("--logger", "flatlab", "--cores", "1", "--forcerun", "draw")


@pytest.fixture
def watched(lab: Lab) -> Lab:
    shutil.copytree(ROOT / PLUGIN, lab / PLUGIN)
    return lab


def on_a_terminal(lab: Lab, *arguments: str, succeeds: bool = True) -> str:
    command = (sys.executable, "-c", ON_A_TERMINAL, *arguments)
    process = lab.start_command(*command, COLUMNS="80", LINES="24", TERM="xterm")
    return lab.finish(process, succeeds).output  # \r has become \n


def log(lab: Lab) -> str:
    """The log file of the last run."""
    return max((lab / ".snakemake/log").glob("*.log")).read_text()


def test_a_terminal_shows_a_bar_and_the_log_file_every_job(watched: Lab) -> None:
    shown = on_a_terminal(watched, *DRAWN_AGAIN)
    assert "0 of 2 jobs |" in shown
    assert "left: draw 1, all 1" in shown
    assert "2 of 2 jobs |" in shown
    assert "rule draw" not in shown
    bars = [line for line in shown.splitlines() if "jobs |" in line]
    assert max(map(len, bars)) <= 80
    assert Run(log(watched)).jobs == ["all", "draw figH8"]
    assert "Complete log(s): " in shown
    assert "Nothing to be done" in on_a_terminal(watched, "--logger", "flatlab")


@pytest.mark.long
def test_elsewhere_and_in_dry_runs_snakemake_prints_what_it_always_does(watched: Lab) -> None:
    assert watched.snakemake(*DRAWN_AGAIN).jobs == ["all", "draw figH8"]
    dry = on_a_terminal(watched, *DRAWN_AGAIN, "--dry-run")
    assert "jobs |" not in dry
    assert [rule for rule, _ in JOB.findall(dry)] == ["draw", "all"]


def test_an_error_is_shown_in_full_above_the_bar(watched: Lab) -> None:
    watched.damage(Lab.TABLE)
    shown = on_a_terminal(watched, *DRAWN_AGAIN, succeeds=False)
    assert "Error in rule draw" in shown
    assert f"{Lab.TABLE} is damaged" in shown
    assert "Traceback" in shown  # of the job's log, which the profile asks for
    assert "jobs |" in shown
    assert f"Complete log(s): {watched.folder}" in shown
