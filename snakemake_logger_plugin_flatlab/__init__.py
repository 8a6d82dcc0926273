"""One bar for a whole run of Snakemake: `python -m snakemake --logger flatlab`, as `make` does.

Snakemake finds a logger by the name of its package in the folder where it is started. The records
of single jobs are in the log file that Snakemake names at the end. Errors and warnings are shown in
full, above the bar. Where stderr is no terminal, and in dry runs, Snakemake prints what it always
prints. There is no forecast of the time: jobs differ by too much; `flatlab estimate` has one.
"""

import logging
import shutil
import sys
import threading
from collections import Counter

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from tqdm import tqdm

FORM = "{n_fmt} of {total_fmt} jobs |{bar:14}| {elapsed}{postfix}"
SHOWN = ("Building DAG", "Nothing to be done", "Will exit", "Trying to restart", "Complete log")
"""How those messages begin that are shown although they are neither errors nor warnings."""

RULES = 3


class LogHandler(LogHandlerBase):
    """left: jobs to do by rule.  rules: the rule of each job that has started, by its id."""

    def __post_init__(self) -> None:
        self.left: Counter[str] = Counter()
        self.rules: dict[int, str] = {}
        self.bar: tqdm | None = None
        self.ended = threading.Event()

    @property
    def writes_to_stream(self) -> bool:
        """Whether it takes the place of Snakemake's own messages."""
        return sys.stderr.isatty() and not self.common_settings.dryrun

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.writes_to_stream:
            return
        try:
            self._take(record, getattr(record, "event", None))
        except Exception:
            self.handleError(record)

    def _take(self, record: logging.LogRecord, event: LogEvent | None) -> None:
        about = vars(record)
        if record.levelno >= logging.WARNING or str(record.msg).startswith(SHOWN):
            tqdm.write(self.format(record), file=sys.stderr)
        elif event == LogEvent.RUN_INFO:
            self.left = Counter({k: n for k, n in about["stats"].items() if k != "total"})
        elif event == LogEvent.JOB_INFO:
            self.rules[about["jobid"]] = about["rule_name"]
        elif event == LogEvent.JOB_STARTED and self.bar is None:
            columns, rows = shutil.get_terminal_size()  # tqdm takes a size of 0 for what it says
            size = {"ncols": columns, "nrows": rows, "file": sys.stderr}
            self.bar = tqdm(total=sum(self.left.values()), bar_format=FORM, **size)
            self._show()
            threading.Thread(target=self._tick, daemon=True).start()
        elif event == LogEvent.JOB_FINISHED:
            self.left[self.rules.get(about["job_id"], "")] -= 1
        elif event == LogEvent.PROGRESS and self.bar is not None:
            self.bar.n, self.bar.total = about["done"], about["total"]
            self._show()
            if self.bar.n == self.bar.total:
                self._end()

    def _show(self) -> None:
        """Write the bar, with the jobs that are left of the rules that come first."""
        assert self.bar
        left = [f"{rule} {count}" for rule, count in self.left.items() if count > 0]
        more = ", ..." if len(left) > RULES else ""
        self.bar.set_postfix_str(f"left: {', '.join(left[:RULES])}{more}" if left else "")

    def _tick(self) -> None:
        """Let the seconds run while no job ends."""
        while not self.ended.wait(1):
            if bar := self.bar:
                bar.refresh()

    def _end(self) -> None:
        self.ended.set()
        if self.bar:
            self.bar.close()
            self.bar = None

    def close(self) -> None:
        self._end()
        super().close()
