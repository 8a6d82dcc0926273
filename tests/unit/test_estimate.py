"""What a configuration will take, from the records of jobs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from flatlab import estimate, plan
from flatlab.cli import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> plan.Plan:
    """The project's plan for one paper, in a folder without results."""
    shutil.copytree(ROOT / "grids", tmp_path / "grids")
    (tmp_path / "config.yaml").write_text("papers: [chen2024]\n")
    monkeypatch.chdir(tmp_path)
    return plan.Plan({"papers": ["chen2024"]}, Path("grids"))


def record(task: estimate.Task, seconds: float, device: str = "cpu", done: bool = True) -> None:
    """The record of a job, and its output."""
    task.file.parent.mkdir(parents=True, exist_ok=True)
    if done:
        task.file.touch()
    about = {"runtime_s": seconds, "device": device}
    Path(f"{task.file}.provenance.json").write_text(json.dumps(about))


def of(chosen: plan.Plan, kind: str, network: str) -> estimate.Forecast:
    found = estimate.forecast(chosen, estimate.recorded(chosen))
    [one] = [each for each in found if (each.kind, each.network) == (kind, network)]
    return one


def tasks_of(chosen: plan.Plan, kind: str, network: str) -> list[estimate.Task]:
    tasks = estimate.tasks(chosen, "demo")
    return [task for task in tasks if (task.kind, task.network) == (kind, network)]


def test_hours_are_in_proportion_to_work(chosen: plan.Plan) -> None:
    tasks = tasks_of(chosen, "train", "mlp4-small")
    assert len({task.work for task in tasks}) > 1
    record(tasks[0], seconds=1e-6 * tasks[0].work)
    found = of(chosen, "train", "mlp4-small")
    assert (found.jobs, found.done, found.basis) == (len(tasks) - 1, 1, "1 jobs")
    seconds = sum(1e-6 * task.work + estimate.JOB_S for task in tasks[1:])
    assert found.hours == pytest.approx(seconds / 3600)


def test_another_network_is_a_rough_basis_and_another_device_is_none(chosen: plan.Plan) -> None:
    [first, *_] = tasks_of(chosen, "train", "mlp4-small")
    record(first, 10, device="cuda")
    assert of(chosen, "train", "vgg-small").hours is None
    record(first, 10)
    found = of(chosen, "train", "vgg-small")
    assert found.hours > 0
    assert found.basis == "roughly, 1 jobs of mlp4-small"


def test_published_records_serve_where_there_are_no_others(chosen: plan.Plan) -> None:
    [first, *_] = tasks_of(chosen, "train", "mlp4-small")
    record(first, 10, done=False)
    times = estimate.recorded(chosen)
    place = plan.PUBLISHED / "demo"
    place.mkdir(parents=True)
    (place / "provenance.json").write_text("{}")
    (place / estimate.PUBLISHED).write_text(json.dumps(estimate.as_records(times)))
    assert estimate.published() == times


def test_published_records_of_several_scales_are_added_up(chosen: plan.Plan) -> None:
    for scale, seconds in (("demo", 10.0), ("paper", 30.0)):
        place = plan.PUBLISHED / scale
        place.mkdir(parents=True)
        (place / "provenance.json").write_text("{}")
        times = {("train", "linear", "cpu"): (seconds, 2 * seconds, 1)}
        (place / estimate.PUBLISHED).write_text(json.dumps(estimate.as_records(times)))
    assert estimate.published() == {("train", "linear", "cpu"): (40.0, 80.0, 2)}


def test_the_networks_of_a_zoo_are_trained_and_measured(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "grids", tmp_path / "grids")
    chosen = plan.Plan({"papers": ["chen2026"]}, Path("grids"))
    zoo = plan.load_zoo("vision-zoo", "demo")
    tasks = [task for task in estimate.tasks(chosen, "demo") if "vision-zoo" in task.kind]
    assert [task.kind for task in tasks] == ["train vision-zoo", "vision-zoo"] * len(zoo.parts)
    assert {task.file for task in tasks if task.kind == "vision-zoo"} == {
        zoo.metrics(part) for part in zoo.parts
    }


def test_what_nobody_has_timed_is_said(chosen: plan.Plan, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimate"]) == 0
    text = capsys.readouterr().out
    jobs = len(list(estimate.tasks(chosen, "demo")))
    assert f"{jobs} jobs, 0.00 hours one after the other, and {jobs} jobs of unknown" in text
    assert "Weights on disk once a grid is trained, about:" in text
