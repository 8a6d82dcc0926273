"""What a configuration will take, from the records of jobs."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from flatlab.data.digits import load
from flatlab.lab import plan
from flatlab.lab.jobs import forecast

MLP, VGG = "mlp (width 64)", "vgg (widths 8-8-pool-16-16-pool, hidden 32-32)"


@pytest.fixture
def chosen(project):
    """The project's plan for one paper, in a folder without results."""
    Path("config.yaml").write_text("papers: [chen2024]\n")
    return plan.Plan({"papers": ["chen2024"]})


def record(task, seconds, device="cpu", done=True, **more):
    """The record of a job, and its output."""
    task.file.parent.mkdir(parents=True, exist_ok=True)
    if done:
        task.file.touch()
    about = {"runtime_s": seconds, "device": device, **more}
    Path(f"{task.file}.provenance.json").write_text(json.dumps(about))


def of(chosen, network, times=None):
    """The forecast of training a kind of network."""
    found = forecast.forecast(chosen, forecast.recorded(chosen) if times is None else times)
    [one] = [each for each in found if (each.kind, each.network) == ("train", network)]
    return one


def tasks_of(chosen, network):
    tasks = forecast.jobs_of(chosen, "demo")
    return [task for task in tasks if (task.kind, task.network) == ("train", network)]


def test_hours_are_in_proportion_to_work(chosen):
    tasks = tasks_of(chosen, MLP)
    assert len({task.work for task in tasks}) > 1
    record(tasks[0], seconds=1e-6 * tasks[0].work)
    found = of(chosen, MLP)
    assert (found.jobs, found.done, found.basis) == (len(tasks) - 1, 1, "1 jobs")
    seconds = sum(1e-6 * task.work + forecast.JOB_S["cpu"] for task in tasks[1:])
    assert found.hours == pytest.approx(seconds / 3600)


def test_processor_time_counts_and_the_last_part_of_a_resumed_job_does_not(chosen):
    first, second, *_ = tasks_of(chosen, MLP)
    record(second, 1, done=False, resumed=True, processor_s=1)
    assert of(chosen, MLP).hours is None
    record(first, 10)
    alone = of(chosen, MLP).hours
    record(first, 26, processor_s=10, resumed=False)
    assert of(chosen, MLP).hours == alone
    record(first, 10, device="cuda")
    waiting = forecast.recorded(chosen)
    record(first, 10, device="cuda", processor_s=1)
    assert forecast.recorded(chosen) == waiting


def test_another_network_is_a_rough_basis_and_another_device_is_none(chosen):
    [first, *_] = tasks_of(chosen, MLP)
    record(first, 10, device="cuda")
    assert of(chosen, VGG).hours is None
    record(first, 10)
    found = of(chosen, VGG)
    assert found.hours > 0
    assert found.basis == f"roughly, 1 jobs of {MLP}"


def test_jobs_of_the_same_size_and_architecture_are_a_better_basis(chosen):
    tasks = tasks_of(chosen, VGG)
    work = sum(task.work for task in tasks)
    mean = work / len(tasks)
    times, bases = {}, []
    for network, time in {
        "lenet5 (kernel 3)": (8 * mean, mean, 1),
        "vgg (widths 4-8)": (0.2 * mean, 0.02 * mean, 2),
        "vgg (widths 64)": (6 * mean, 3 * mean, 1),
    }.items():
        times["train", network, "cpu", time[1] / time[2]] = time
        bases.append(of(chosen, VGG, times))
        assert bases[-1].basis.removeprefix("roughly, ") == f"{time[2]} jobs of {network}"
    seconds = [each.hours * 3600 - forecast.JOB_S["cpu"] * each.jobs for each in bases]
    assert seconds == pytest.approx([8 * work, 10 * work, 2 * work])


def test_of_one_network_the_jobs_nearest_in_work_count(chosen):
    """Those that stop early, or whose steps are all overhead, are of other sizes."""
    tasks = tasks_of(chosen, MLP)
    [*sizes] = {task.work for task in tasks}
    rates = {size: 10.0**number for number, size in enumerate(sizes)}
    times = {
        ("train", MLP, "cpu", 1.01 * size): (1.01 * size * rate, 1.01 * size, 1)
        for size, rate in rates.items()
    }
    found = of(chosen, MLP, times)
    seconds = sum(task.work * rates[task.work] + forecast.JOB_S["cpu"] for task in tasks)
    assert found.hours == pytest.approx(seconds / 3600)
    assert found.basis == f"{len(sizes)} jobs"


def test_jobs_done_in_both_places_say_how_much_slower_this_one_is():
    key = ("train", MLP, "cpu", 2.0)
    there = {key: (10.0, 4.0, 2), ("train", VGG, "cpu", 2.0): (50.0, 2.0, 1)}
    here = {key: (15.0, 2.0, 1)}
    assert forecast.slower(here, there, "cpu") == 3
    assert forecast.slower(here, there, "cuda") == 1
    assert forecast.slower({("train", MLP, "cpu", 3.0): (15.0, 3.0, 1)}, there, "cpu") == 1


def test_training_that_stops_early_is_said_to_take_less(chosen):
    tasks = list(forecast.jobs_of(chosen, "demo", ["full-batch-grid", "mlp-grid"]))
    assert {task.stops for task in tasks if task.stage == "train"} == {True, False}
    assert not any(task.stops for task in tasks if task.stage != "train")
    times = {("train", "mlp", "cpu", 1.0): (1.0, 1.0, 1)}
    for key, early in (("full-batch-grid", True), ("mlp-grid", False)):
        found = forecast.forecast(chosen, times, [key])
        bases = [each.basis for each in found if each.kind == "train"]
        assert any("less where networks stop" in basis for basis in bases) == early


def test_a_full_batch_counts_all_samples_in_each_step(chosen):
    """Ghost batches are parts of it; without a number of samples it is one batch, or the digits."""

    def first(key, scale="short"):
        experiment = chosen.experiment(key, scale)
        pack = experiment.packs[name := next(iter(experiment.packs))]
        return experiment.training(name).work / pack.bytes, pack.training, pack.data.samples

    work, training, samples = first("full-batch-grid")
    assert (training.batch_size, samples) == (200, 2000)
    assert work == training.iterations * samples
    work, training, samples = first("regression-relu-grid")
    assert (training.batch_size, samples) == (8, "all")
    assert work == training.epochs * 8
    work, training, samples = first("joint-mlp-grid", "demo")
    digits = load(Path()).sizes["train_sample"]
    assert (samples, work) == ("all", training.epochs * digits)


def publish(scale, times):
    folder = plan.PUBLISHED / scale
    folder.mkdir(parents=True)
    (folder / "provenance.json").write_text("{}")
    (folder / forecast.PUBLISHED).write_text(json.dumps(forecast.as_records(times)))


def test_published_records_serve_where_there_are_no_others_and_are_added_up(chosen):
    [first, *_] = tasks_of(chosen, MLP)
    record(first, 10, done=False)
    times = forecast.recorded(chosen)
    publish("demo", times)
    assert forecast.published() == times
    for scale, seconds in (("short", 10.0), ("paper", 30.0)):
        publish(scale, {("train", "linear", "cpu", 5.0): (seconds, 5.0, 1)})
    assert forecast.published() == {**times, ("train", "linear", "cpu", 5.0): (40.0, 10.0, 2)}


def test_the_networks_of_a_zoo_are_trained_for_it_and_measured_as_a_zoo(chosen, small_zoo):
    small_zoo("lenet-grid")
    chosen = plan.Plan({})
    chosen.figures = [SimpleNamespace(experiments=["small-zoo"])]
    grid, zoo = map(chosen.experiment, ("lenet-grid", "small-zoo"))
    tasks = list(forecast.jobs_of(chosen, "demo"))
    trained = {Path(grid.weights(pack)["weights"]) for pack in grid.packs}
    assert {task.file for task in tasks if task.kind == "train"} == trained
    assert {task.file for task in tasks if task.kind == "small-zoo"} == set(zoo.metric_files)
    assert len(tasks) == len(grid.packs) + 2
    networks = {task.network for task in tasks if task.kind == "train"}
    assert networks == {"lenet5 (kernel 3, padding 1)"}
    [task] = forecast.jobs_of(chosen, "demo", ["representativeness"])  # that is named
    assert task.kind == "representativeness"
    record(task, 3.0)
    times = forecast.recorded(chosen, ["demo"], ["representativeness"])
    assert times == {("representativeness demo", "", "cpu", 1.0): (3.0, 1.0, 1)}
    assert forecast.recorded(chosen, ["demo"], ["small-zoo"]) == {}


@pytest.mark.more
def test_of_measured_packs_nothing_is_left_whatever_they_lack(project):
    """Neither their training, whose weights are gone, nor a family that they may lack."""
    whole = plan.Plan({"scale": "paper"}).experiment("mlp-grid")
    first, second, *_ = whole.packs
    files = [whole.metrics(pack, name) for pack in (first, second) for name in whole.families]
    for path in files[:-1]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    measured = plan.Plan({"scale": "paper", "packs": "measured"})
    found = forecast.forecast(measured, {}, ["mlp-grid"])
    counted = {each.kind: (each.jobs, each.done) for each in found}
    done = {"train": 0, "accuracy": 2, "geometry": 2, "representations": 1}
    assert counted == {kind: (0, count) for kind, count in done.items()}
