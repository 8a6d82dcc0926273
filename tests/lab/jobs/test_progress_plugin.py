"""The logger that `make` uses, with the records that Snakemake sends: its interface's own tests."""

from __future__ import annotations

import io
import logging
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.tests import MockOutputSettings, TestLogHandlerBase

import snakemake_logger_plugin_flatlab as plugin
from snakemake_logger_plugin_flatlab import LogHandler


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    shown = Terminal()
    monkeypatch.setattr(plugin, "sys", SimpleNamespace(stderr=shown))
    monkeypatch.setenv("COLUMNS", "80")
    return shown


class TestTheInterface(TestLogHandlerBase):
    __test__ = True

    def get_log_handler_cls(self) -> type[LogHandler]:
        return LogHandler

    def get_log_handler_settings(self) -> None:
        return None


def send(handler: LogHandler, event: LogEvent | None, message: str = "", **about: object) -> None:
    level = logging.ERROR if event == LogEvent.JOB_ERROR else logging.INFO
    record = logging.LogRecord("snakemake", level, "", 1, message, (), None)
    vars(record).update(about, event=event)
    handler.emit(record)


def started(**stats: int) -> LogHandler:
    handler = LogHandler(MockOutputSettings(), None)
    send(handler, LogEvent.RUN_INFO, stats={**stats, "total": sum(stats.values())})
    send(handler, LogEvent.JOB_STARTED, jobs=[1])
    return handler


def last(terminal: Terminal) -> str:
    return terminal.getvalue().replace("\n", "\r").rstrip("\r ").rpartition("\r")[2]


def test_what_is_left_is_counted_by_rule_in_the_order_of_the_run(terminal: Terminal) -> None:
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


def test_messages_about_single_jobs_are_hidden_and_errors_are_not(terminal: Terminal) -> None:
    handler = started(train=2)
    send(handler, None, "Select jobs to execute...")
    send(handler, LogEvent.SHELLCMD, "true")
    assert "Select" not in terminal.getvalue()
    assert "true" not in terminal.getvalue()
    send(handler, LogEvent.JOB_ERROR, "it has failed\nfor a reason")
    assert "it has failed\nfor a reason\n" in terminal.getvalue()
    assert last(terminal).startswith("0 of 2 jobs |")
    handler.close()


def test_at_the_end_the_bar_stays_and_its_clock_stops(terminal: Terminal) -> None:
    handler = started(all=1)
    send(handler, LogEvent.PROGRESS, done=1, total=1)
    assert handler.bar is None
    assert handler.ended.is_set()
    send(handler, None, "Complete log(s): here")
    assert terminal.getvalue().endswith("\nComplete log(s): here\n")


def test_without_a_terminal_it_leaves_the_stream_to_snakemake(monkeypatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(plugin, "sys", SimpleNamespace(stderr=shown))
    handler = started(train=2)
    assert not handler.writes_to_stream
    assert shown.getvalue() == ""
