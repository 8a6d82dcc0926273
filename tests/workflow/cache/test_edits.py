"""An edit of the training changes the weights."""

import pytest

pytestmark = pytest.mark.workflow


@pytest.mark.more
def test_an_edit_of_the_training_changes_the_weights(lab):
    before = lab.results()
    lab.append("flatlab/lab/train/minibatches.py", "DATA_STREAM += 1")
    lab.plans_exactly(*lab.jobs_from_training(*lab.PACKS))
    weights = lab.weights(lab.PACKS[0])
    assert lab.snakemake("--cores", "1", weights).jobs == [f"train {lab.PACKS[0]}"]
    assert (lab / weights).read_bytes() != before[weights]
