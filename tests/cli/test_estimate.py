"""What a configuration will take, from the records of jobs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from flatlab.cli import main
from flatlab.lab import plan
from flatlab.lab.jobs import forecast

VGG = "vgg (widths 8-8-pool-16-16-pool, hidden 32-32)"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def chosen(project: Path) -> plan.Plan:
    """The project's plan for one paper, in a folder without results."""
    (project / "config.yaml").write_text("papers: [chen2024]\n")
    return plan.Plan({"papers": ["chen2024"]}, Path("experiments"))


def record(task: forecast.TimedJob, seconds: float, device: str = "cpu", done: bool = True) -> None:
    """The record of a job, and its output."""
    task.file.parent.mkdir(parents=True, exist_ok=True)
    if done:
        task.file.touch()
    about = {"runtime_s": seconds, "device": device}
    Path(f"{task.file}.provenance.json").write_text(json.dumps(about))


def of(chosen: plan.Plan, kind: str, network: str) -> forecast.Forecast:
    found = forecast.forecast(chosen, forecast.recorded(chosen))
    [one] = [each for each in found if (each.kind, each.network) == (kind, network)]
    return one


def tasks_of(chosen: plan.Plan, kind: str, network: str) -> list[forecast.TimedJob]:
    tasks = forecast.jobs_of(chosen, "demo")
    return [task for task in tasks if (task.kind, task.network) == (kind, network)]


def test_hours_are_in_proportion_to_work(chosen: plan.Plan) -> None:
    tasks = tasks_of(chosen, "train", "mlp (width 64)")
    assert len({task.work for task in tasks}) > 1
    record(tasks[0], seconds=1e-6 * tasks[0].work)
    found = of(chosen, "train", "mlp (width 64)")
    assert (found.jobs, found.done, found.basis) == (len(tasks) - 1, 1, "1 jobs")
    seconds = sum(1e-6 * task.work + forecast.JOB_S for task in tasks[1:])
    assert found.hours == pytest.approx(seconds / 3600)


def test_another_network_is_a_rough_basis_and_another_device_is_none(chosen: plan.Plan) -> None:
    [first, *_] = tasks_of(chosen, "train", "mlp (width 64)")
    record(first, 10, device="cuda")
    assert of(chosen, "train", VGG).hours is None
    record(first, 10)
    found = of(chosen, "train", VGG)
    assert found.hours > 0
    assert found.basis == "roughly, 1 jobs of mlp (width 64)"


def test_jobs_of_the_same_size_and_architecture_are_a_better_basis(chosen: plan.Plan) -> None:
    tasks = tasks_of(chosen, "train", VGG)
    work = sum(task.work for task in tasks)
    mean = work / len(tasks)
    other = ("train", "lenet5 (kernel 3)", "cpu"), (8 * mean, mean, 1)
    narrow = ("train", "vgg (widths 4-8)", "cpu"), (0.2 * mean, 0.02 * mean, 2)
    wide = ("train", "vgg (widths 64)", "cpu"), (6 * mean, 3 * mean, 1)
    bases = []
    for times in ([other], [other, narrow], [other, narrow, wide]):
        found = forecast.forecast(chosen, dict(times))
        bases.append(next(each for each in found if each.network == VGG))
    assert [each.basis.removeprefix("roughly, ") for each in bases] == [
        "1 jobs of lenet5 (kernel 3)",
        "2 jobs of vgg (widths 4-8)",
        "1 jobs of vgg (widths 64)",
    ]
    seconds = [(each.hours or 0) * 3600 - forecast.JOB_S * each.jobs for each in bases]
    assert seconds == pytest.approx([8 * work, 10 * work, 2 * work])


def test_training_that_stops_early_is_said_to_take_less(chosen: plan.Plan) -> None:
    tasks = list(forecast.jobs_of(chosen, "demo", ["full-batch-grid", "mlp-grid"]))
    assert {task.stops for task in tasks if task.stage == "train"} == {True, False}
    assert not any(task.stops for task in tasks if task.stage != "train")
    times = {("train", "mlp", "cpu"): (1.0, 1.0, 1)}
    for key, early in (("full-batch-grid", True), ("mlp-grid", False)):
        found = forecast.forecast(chosen, times, [key])
        bases = [each.basis for each in found if each.kind == "train"]
        assert any("less where networks stop" in basis for basis in bases) == early


def test_a_full_batch_counts_all_samples_in_each_step(chosen: plan.Plan) -> None:
    """Ghost batches are parts of it; without a number of samples it is one batch."""
    ghost = chosen.experiment("full-batch-grid", "short")
    pack = next(iter(ghost.packs))
    training, samples = ghost.packs[pack].training, ghost.packs[pack].data.samples
    assert (training.batch_size, samples) == (200, 2000)
    assert ghost.training(pack).work == ghost.packs[pack].bytes * training.iterations * samples
    points = chosen.experiment("regression-relu-grid", "short")
    pack = next(iter(points.packs))
    training = points.packs[pack].training
    assert (training.batch_size, points.packs[pack].data.samples) == (8, "all")
    assert points.training(pack).work == points.packs[pack].bytes * training.epochs * 8


def test_published_records_serve_where_there_are_no_others(chosen: plan.Plan) -> None:
    [first, *_] = tasks_of(chosen, "train", "mlp (width 64)")
    record(first, 10, done=False)
    times = forecast.recorded(chosen)
    place = plan.PUBLISHED / "demo"
    place.mkdir(parents=True)
    (place / "provenance.json").write_text("{}")
    (place / forecast.PUBLISHED).write_text(json.dumps(forecast.as_records(times)))
    assert forecast.published() == times


def test_published_records_of_several_scales_are_added_up(chosen: plan.Plan) -> None:
    for scale, seconds in (("demo", 10.0), ("paper", 30.0)):
        place = plan.PUBLISHED / scale
        place.mkdir(parents=True)
        (place / "provenance.json").write_text("{}")
        times = {("train", "linear", "cpu"): (seconds, 2 * seconds, 1)}
        (place / forecast.PUBLISHED).write_text(json.dumps(forecast.as_records(times)))
    assert forecast.published() == {("train", "linear", "cpu"): (40.0, 80.0, 2)}


@pytest.fixture
def with_zoo(chosen: plan.Plan) -> plan.Plan:
    """The plan of one figure, of a zoo of two jobs."""
    scale = {"name": "small-zoo", "grid": "lenet-grid"}
    zoo = {
        **{"kind": "zoo", "title": "The networks of a grid", "samples": 2, "seed": 0, "jobs": 2},
        "adaptive": {"outputs": "sigmoid", "rho": 0.1},
        "scales": {"paper": scale, "short": scale, "demo": scale},
    }
    Path("experiments/small-zoo.yaml").write_text(yaml.safe_dump(zoo))
    result = plan.Plan({}, Path("experiments"))
    result.figures = [SimpleNamespace(experiments=["small-zoo"])]  # type: ignore[list-item]
    return result


def test_the_networks_of_a_zoo_are_trained_for_it_and_measured_as_a_zoo(
    with_zoo: plan.Plan,
) -> None:
    grid, zoo = map(with_zoo.experiment, ("lenet-grid", "small-zoo"))
    tasks = list(forecast.jobs_of(with_zoo, "demo"))
    trained = {Path(grid.weights(pack)["weights"]) for pack in grid.packs}
    assert {task.file for task in tasks if task.kind == "train"} == trained
    assert {task.file for task in tasks if task.kind == "small-zoo"} == set(zoo.metric_files)
    assert len(tasks) == len(grid.packs) + 2
    networks = {task.network for task in tasks if task.kind == "train"}
    assert networks == {"lenet5 (kernel 3, padding 1)"}


def test_of_named_experiments_those_are_counted(with_zoo: plan.Plan) -> None:
    tasks = list(forecast.jobs_of(with_zoo, "demo", ["representativeness"]))
    assert [task.kind for task in tasks] == ["representativeness"]
    record(tasks[0], 3.0)
    times = forecast.recorded(with_zoo, ["demo"], ["representativeness"])
    assert times == {("representativeness demo", "", "cpu"): (3.0, 1.0, 1)}
    assert forecast.recorded(with_zoo, ["demo"], ["small-zoo"]) == {}


def test_what_nobody_has_timed_is_said(chosen: plan.Plan, capsys: pytest.CaptureFixture) -> None:
    assert main(["estimate"]) == 0
    text = capsys.readouterr().out
    jobs = len(list(forecast.jobs_of(chosen, "demo")))
    assert f"{jobs} jobs: 0.00 hours one after the other, {jobs} of unknown length" in text
    assert "Approximate size of the weights of each grid:" in text


def test_of_measured_packs_nothing_is_left_whatever_they_lack(project: Path) -> None:
    """Neither their training, whose weights are gone, nor a family that they may lack."""
    whole = plan.Plan({"scale": "paper"}, Path("experiments")).experiment("mlp-grid")
    first, second, *_ = whole.packs
    files = [whole.metrics(pack, name) for pack in (first, second) for name in whole.families]
    for path in files[:-1]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    measured = plan.Plan({"scale": "paper", "packs": "measured"}, Path("experiments"))
    found = forecast.forecast(measured, {}, ["mlp-grid"])
    counted = {each.kind: (each.jobs, each.done) for each in found}
    done = {"train": 0, "accuracy": 2, "geometry": 2, "representations": 1}
    assert counted == {kind: (0, count) for kind, count in done.items()}


def test_figures_papers_and_experiments_are_estimated_by_name(
    chosen: plan.Plan, capsys: pytest.CaptureFixture
) -> None:
    assert main(["estimate"]) == 0
    assert "vgg-grid:" in (configured := capsys.readouterr().out)
    assert "smoothing-grid:" not in configured
    said = set()
    for name in ("smoothing-grid", "macdonald2023_fig28"):
        assert main(["estimate", name]) == 0
        said.add(text := capsys.readouterr().out)
        assert "smoothing-grid:" in text
        assert "vgg-grid:" not in text
    assert len(said) == 1
    for names, grids in (
        (["petzka2021", "smoothing-grid"], ["minima-grid", "smoothing-grid"]),
        (["all"], ["minima-grid", "smoothing-grid", "vgg-grid", "released-grid"]),
    ):
        assert main(["estimate", *names]) == 0
        text = capsys.readouterr().out
        assert [grid for grid in grids if f"{grid}:" in text] == grids
    assert main(["estimate", "petzka2012"]) != 0
    assert "did you mean 'petzka2021'" in capsys.readouterr().err
