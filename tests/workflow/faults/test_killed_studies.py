"""A study whose build is killed goes on: what was finished stays, the end has the same bytes."""

import os
import signal

import pytest

from tests.workflow import small_study

pytestmark = [pytest.mark.workflow, pytest.mark.long]

RUNS = 4


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The study after a build of both tables."""
    return small_study.built(tmp_path_factory.mktemp("undisturbed") / "mine", "[0-1]")


@pytest.fixture
def study(undisturbed, tmp_path):
    """The same before anything was built."""
    study = small_study.unbuilt(undisturbed, tmp_path / "mine")
    yield study
    study.stop()


@pytest.mark.parametrize(
    ("key", "call"),
    [("mine-loop", "train 3"), ("mine-loop", "measure 2"), ("mine-files", "measure 3")],
)
def test_a_killed_build_goes_on_to_the_same_bytes(undisturbed, study, key, call):
    arguments = (small_study.table(key), "--cores", "1")
    (study / "hold").write_text(call)
    run = small_study.start(study, *arguments)
    what, count = call.split()
    study.wait(run, lambda: notes(study, what) == int(count))  # it waits to be killed
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    (study / "hold").unlink()
    made = {path: (study / path).stat().st_mtime_ns for path in results(study)}
    half = unfinished(study)
    wanted = [path for path in results(undisturbed) if key in path]
    assert half in wanted
    assert 0 < len(made) < len(wanted)
    # What a file system leaves of a file whose end it had not written yet.
    (study / half).write_bytes((undisturbed / half).read_bytes()[:-40])
    refused = study.finish(small_study.start(study, *arguments), succeeds=False)
    assert "Directory cannot be locked" in refused.output
    study.finish(small_study.start(study, "--unlock"))
    again = study.finish(small_study.start(study, *arguments))
    assert len(again.jobs) == len(wanted) - len(made)
    for path, date in made.items():
        assert (study / path).stat().st_mtime_ns == date, path
    expected = {path: content for path, content in undisturbed.results().items() if key in path}
    assert study.results() == expected
    assert notes(study, "train") == (RUNS + (what == "train")) * (key == "mine-loop")
    assert notes(study, "measure") == RUNS + (what == "measure")


def notes(study, what):
    """How often a function of the study was called."""
    return (study / "notes").read_text().split().count(what) if (study / "notes").exists() else 0


def results(study):
    """The files of results."""
    return [path for path in study.results() if path.endswith((".zarr.zip", ".safetensors"))]


def unfinished(study):
    """The output of the job that was killed: its lock lies beside it."""
    (lock,) = (study / "results").rglob("*.lock")
    return lock.relative_to(study.folder).as_posix().removesuffix(".lock")
