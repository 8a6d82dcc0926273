"""The plan: everything that a configuration asks for; and the process of a workflow that has it."""

import functools
import os
import platform
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from flatlab.core.contents import content_within
from flatlab.core.registry import LOCAL_IMAGES, check_known, experiment_files, module_of
from flatlab.core.schema import Config, PlanError, closest, convert
from flatlab.core.studies import use_studies
from flatlab.lab.plan.experiments import Experiment, PlannedJob, read_experiment
from flatlab.lab.plan.figures import Figure, figures, papers, why_not
from flatlab.lab.plan.fingerprint import fingerprint


def load_config(mapping: Mapping[str, Any], name: str = "config.yaml") -> Config:
    """Check a configuration; raise `PlanError` with the file and the key."""
    config = convert(mapping, Config, f"{name}: ")
    use_studies(config.studies, f"{name}: studies")
    if isinstance(config.papers, str) and config.papers != "all":
        config = structs.replace(config, papers=[config.papers])
    known = ["all", *papers()]
    for paper in [] if config.papers == "all" else config.papers:
        if paper not in known:
            raise PlanError(f"{name}: papers: unknown paper {paper!r}; {closest(paper, known)}")
    for key in (key for pair in config.stand_ins.items() for key in pair):
        check_known("data", key, f"{name}: stand_ins")
    return config


class Plan:
    """Everything that a configuration asks for.

    config: the checked configuration.
    experiments: all of them by key, at the configured scale.
    papers: every figure that can be built, by paper; of the experiments with packs where each has
        panels of its own.
    figures: those of the configured papers.
    as_published: all experiments by key, at scale paper without stand-ins.
    """

    def __init__(self, config: Mapping[str, Any], name: str = "config.yaml") -> None:
        self.config = load_config(config, name)
        # All files are read now, so that a mistake is reported before anything runs.
        keys = sorted(experiment_files())
        self.experiments = {key: self.experiment(key) for key in keys}
        self.as_published = {key: self._load(key, "paper") for key in keys}
        computable = {key for key, experiment in self.experiments.items() if experiment.packs}
        self.papers: dict[str, list[Figure]] = {}
        for whole in figures():
            figure = whole.restricted_to(computable)
            if computable.issuperset(figure.experiments):
                self.papers.setdefault(figure.paper, []).append(figure)
        chosen = self.papers if self.config.papers == "all" else self.config.papers
        self.figures = [figure for paper in chosen for figure in self.papers.get(paper, [])]
        self._name = name
        if not self.papers:
            self.check_figures()

    def figure(self, target: str, scale: str) -> Figure:
        """A figure by the name of its target, of the experiments that it can be drawn from.

        scale: with packs of all experiments unless it is the configured one.

        Raises `PlanError` for an unknown target.
        """
        known = {figure.target: figure for figure in figures()}
        if target not in known:
            raise PlanError(f"unknown figure {target!r}; {closest(target, known)}")
        if scale == self.config.scale:
            known |= {each.target: each for of_paper in self.papers.values() for each in of_paper}
        return known[target]

    def check_figures(self) -> None:
        """Raise `PlanError` if the configured papers have no figure that can be built."""
        if self.figures:
            return
        if self.config.packs == "all":
            raise PlanError(f"{self._name}: papers: none of these has a figure in this version")
        others = f"; papers that have one: {', '.join(self.papers)}" if self.papers else ""
        raise PlanError(
            f"{self._name}: packs: no figure has a measured pack at scale {self.config.scale}; "
            f"`all` trains them{others}"
        )

    def why_not(self, name: str) -> str:
        """Why a figure, or all of a paper, cannot be built as configured; "" if it can.

        Raises `PlanError` for an unknown name.
        """
        shown = [each for each in figures() if name in (each.paper, each.target)]
        if not shown:
            return why_not(name)
        buildable = {each.target for of_paper in self.papers.values() for each in of_paper}
        if any(each.target in buildable for each in shown):
            return ""
        keys = dict.fromkeys(key for each in shown for key in each.experiments)
        lacking = ", ".join(key for key in keys if not self.experiments[key].packs)
        return f"{name} needs packs of these experiments, of which none is measured: {lacking}"

    @functools.cache  # noqa: B019 - a plan lives as long as its process
    def experiment(self, key: str, scale: str | None = None) -> Experiment:
        """One experiment, with the configured stand-ins and packs.

        key: the stem of its file.
        scale: by default the configured one.
        """
        ours = self.config.scale
        experiment = self._load(key, scale or ours).with_stand_ins(self.config.stand_ins)
        partly = self.config.packs == "measured" and scale in (None, ours)
        return experiment.only_measured_packs() if partly else experiment

    def _load(
        self, key: str, scale: str, context: str = "", within: tuple[str, ...] = ()
    ) -> Experiment:
        """within: the experiments that need it, the first one first."""
        needed_by = (*within, key)

        def find(other: str, context: str) -> Experiment:
            if other in needed_by:
                circle = " needs ".join([*needed_by[needed_by.index(other) :], other])
                raise PlanError(f"{context}experiments need each other: {circle}")
            experiment = self._load(other, scale, context, needed_by)
            return experiment.with_stand_ins(self.config.stand_ins)

        if key not in (known := experiment_files()):
            raise PlanError(f"{context}unknown experiment {key!r}; {closest(key, known)}")
        return read_experiment(known[key], scale, find)

    def preparing(self, name: str) -> PlannedJob:
        """The job that prepares a data set."""
        reads = (LOCAL_IMAGES[name],) if name in LOCAL_IMAGES else ()
        code = fingerprint(module_of("data", name))
        return self.with_content(PlannedJob(inputs={}, settings={}, code=code, reads=reads))

    def with_content(self, job: PlannedJob) -> PlannedJob:
        """A job with a hash of what it reads in the data folder in its code, if that exists."""
        folder = Path(self.config.data_folder or os.environ.get("FLATLAB_DATA") or "data")
        content = content_within(folder, job.reads)
        return structs.replace(job, code=f"{job.code}-{content}") if content else job

    def disk_use(self, keys: Collection[str]) -> str:
        """The approximate size of the weights of some experiments in words; "" if none has any."""
        lines = ["Approximate size of the weights of each grid:"]
        if self.config.packs == "measured":
            lines = ["Only packs that are measured already; approximate size of their weights:"]
        used = ((key, self.experiments[key].disk_use) for key in sorted(keys))
        rows = [f"  {key}: {text}" for key, text in used if text]
        return "\n".join([*lines, *rows]) if rows else ""


def set_job_environment(folder: str) -> None:
    """Make the jobs of this process import flatlab from `folder` and use one thread each.

    The number of threads changes the last bits of a result; several jobs run in parallel instead.
    """
    paths = [folder, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    for library in ("OMP", "MKL", "OPENBLAS"):
        os.environ[f"{library}_NUM_THREADS"] = "1"
    ours, path = str(Path(folder, "profiles", "slurm", "bin")), os.environ.get("PATH", "")
    if shutil.which("sbatch") and ours not in path.split(os.pathsep):
        os.environ["PATH"] = f"{ours}{os.pathsep}{path}"  # status commands that keep trying


def require_writable_snakemake_folder() -> None:
    """Raise `PlanError` if Snakemake could not keep its records, instead of its traceback."""
    records = Path(".snakemake")
    try:
        (records / "locks").mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=records).close()
    except OSError as error:
        raise PlanError(
            f"{records.absolute()} cannot be written to ({error.strerror}); Snakemake keeps its "
            "records there"
        ) from None


def record_start() -> None:
    """Record the machine and the process of this run for `profiles/slurm/resume`."""
    Path(".snakemake", "started").write_text(f"{platform.node()} {os.getpid()}\n")
