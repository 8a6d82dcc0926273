"""One bar on a terminal, plain lines elsewhere, and errors in full in both.

In this process with the records that Snakemake sends, then with Snakemake itself.
"""

import io
import logging
import shutil
import sys
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

import snakemake_logger_plugin_flatlab as plugin
from snakemake_logger_plugin_flatlab import LogHandler
from tests.workflow.lab import JOB, ROOT, Lab, Run


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    shown = Terminal()
    monkeypatch.setattr(plugin, "sys", SimpleNamespace(stderr=shown))
    monkeypatch.setenv("COLUMNS", "80")
    return shown


@pytest.mark.usefixtures("terminal")
class TestTheInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self):
        return LogHandler

    def get_log_handler_settings(self):
        return None


def send(handler, event, message="", **about):
    level = logging.ERROR if event == LogEvent.JOB_ERROR else logging.INFO
    record = logging.LogRecord("snakemake", level, "", 1, message, (), None)
    vars(record).update(about, event=event)
    handler.emit(record)


def started(**stats):
    handler = LogHandler(MockOutputSettings(), None)
    send(handler, LogEvent.RUN_INFO, stats={**stats, "total": sum(stats.values())})
    send(handler, LogEvent.JOB_STARTED, jobs=[1])
    return handler


def last(terminal):
    return terminal.getvalue().replace("\n", "\r").rstrip("\r ").rpartition("\r")[2]


def test_what_is_left_is_counted_by_rule_in_the_order_of_the_run(terminal):
    handler = started(train=2, measure=40, table=11, draw=31)
    assert last(terminal).startswith("0 of 84 jobs |")
    assert last(terminal).endswith("left: train 2, measure 40, table 11, ...")
    for job in (1, 2):
        send(handler, LogEvent.JOB_INFO, jobid=job, rule_name="train")
        send(handler, LogEvent.JOB_FINISHED, job_id=job)
        send(handler, LogEvent.PROGRESS, done=job, total=84)
    assert last(terminal).startswith("2 of 84 jobs |")
    assert last(terminal).endswith("left: measure 40, table 11, draw 31")
    assert len(last(terminal)) <= 80
    handler.close()


def test_messages_about_single_jobs_are_hidden_and_errors_are_not(terminal):
    handler = started(train=2)
    send(handler, None, "Select jobs to execute...")
    send(handler, LogEvent.SHELLCMD, "true")
    assert "Select" not in terminal.getvalue()
    assert "true" not in terminal.getvalue()
    send(handler, LogEvent.JOB_ERROR, "it has failed\nfor a reason")
    assert "it has failed\nfor a reason\n" in terminal.getvalue()
    assert last(terminal).startswith("0 of 2 jobs |")
    handler.close()


def test_at_the_end_the_bar_stays_and_its_clock_stops(terminal):
    handler = started(all=1)
    send(handler, LogEvent.PROGRESS, done=1, total=1)
    assert handler.bar is None
    assert handler.ended.is_set()
    send(handler, None, "Complete log(s): here")
    assert terminal.getvalue().endswith("\nComplete log(s): here\n")


def test_without_a_terminal_it_leaves_the_stream_to_snakemake(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(plugin, "sys", SimpleNamespace(stderr=shown))
    handler = started(train=2)
    assert not handler.writes_to_stream
    assert shown.getvalue() == ""


PLUGIN = "snakemake_logger_plugin_flatlab"
ON_A_TERMINAL = """
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn([sys.executable, "-m", "snakemake", *sys.argv[1:]])))
"""
DRAWN_AGAIN = ("--logger", "flatlab", "--cores", "1", "--forcerun", "draw")


@pytest.fixture
def watched(lab):
    shutil.copytree(ROOT / PLUGIN, lab / PLUGIN)
    return lab


def on_a_terminal(lab, *arguments, succeeds=True):
    command = (sys.executable, "-c", ON_A_TERMINAL, *arguments)
    process = lab.start_command(*command, COLUMNS="80", LINES="24", TERM="xterm")
    return lab.finish(process, succeeds).output  # \r has become \n


def log(lab):
    """The log file of the last run."""
    return max((lab / ".snakemake/log").glob("*.log")).read_text()


@pytest.mark.more
@pytest.mark.workflow
def test_a_terminal_shows_a_bar_and_the_log_file_every_job(watched):
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


@pytest.mark.workflow
@pytest.mark.long
def test_elsewhere_and_in_dry_runs_snakemake_prints_what_it_always_does(watched):
    assert watched.snakemake(*DRAWN_AGAIN).jobs == ["all", "draw figH8"]
    dry = on_a_terminal(watched, *DRAWN_AGAIN, "--dry-run")
    assert "jobs |" not in dry
    assert [rule for rule, _ in JOB.findall(dry)] == ["draw", "all"]


@pytest.mark.more
@pytest.mark.workflow
def test_an_error_is_shown_in_full_above_the_bar(watched):
    watched.damage(Lab.TABLE)
    shown = on_a_terminal(watched, *DRAWN_AGAIN, succeeds=False)
    assert "Error in rule draw" in shown
    assert f"{Lab.TABLE} is damaged" in shown
    assert "Traceback" in shown  # of the job's log, which the profile asks for
    assert "jobs |" in shown
    assert f"Complete log(s): {watched.folder}" in shown
