"""An edit re-runs exactly what it can affect, its effect arrives, and all else stays as it is.

Snakemake does not see imported modules; the fingerprints in the rules' params make up for that.
Here Snakemake plans and runs the edited laboratory; test_exact_cache.py compares the params of
every job of the demo.
"""

import re

import pytest

from tests.workflow.lab import Lab

pytestmark = pytest.mark.workflow

FIGURE = "flatlab/lab/figures/matrix.py"
DECLARATION = "papers/chen2026/figures.py"
FAMILY = "flatlab/families/geometry/__init__.py"
TRAINING = "flatlab/lab/train/minibatches.py"
MODEL = "flatlab/networks/mlp.py"

A_FAMILY = '''
"""A family of one quantity."""
import numpy as np

from flatlab.measuring.quantity import Measured, Quantity

CHECKS = ()
QUANTITIES = {"l1_norm": Quantity("sum of absolute weights", "1", "this test")}

def measure(model, samples, settings):
    total = sum(float(p.abs().sum()) for p in model.parameters())
    return Measured({"l1_norm": np.array(total)})
'''


def edit_the_figure(lab):
    lab.append(FIGURE, "labels.in_lines = 'so: {}'.format")


def edit_the_declaration(lab, quantities=("mls", "nmls")):
    lab.append(
        DECLARATION,
        f"FIGURES['figH8'] = Matrix('mlp-grid', quantities={quantities}, "
        "title='others', caption='Others.', size_inches=(4.0, 4.0))",
    )


def edit_the_family(lab):
    lab.append(FAMILY, "QUANTITIES.pop('samples_measured')")


def add_a_family(lab):
    (lab / "flatlab/families/l1_norm.py").write_text(A_FAMILY)
    lab.rewrite_grid(lambda grid: grid["measure"]["families"].append("l1-norm"))


def edit_the_training(lab):
    lab.append(TRAINING, "DATA_STREAM += 1")


def add_seeds_to_the_grid(lab):
    lab.rewrite_grid(lambda grid: grid["seeds"].append(2))


def add_seeds_to_one_setting(lab):
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(seeds=["0-1", "2-3"]))


def change_one_learning_rate(lab):
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(lr=0.2))


def measured(family, *packs):
    return [f"measure {family} {pack}" for pack in packs]


def change_words(lab):
    """Comments, docstrings and layout: of a figure, a family, the training, a model and a grid."""
    for path in (FIGURE, DECLARATION, FAMILY, TRAINING, MODEL):
        text = (lab / path).read_text()
        edited = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
        assert edited.count("In other words") >= (1 if path == DECLARATION else 2)
        (lab / path).write_text(edited.replace("\n\n", "\n\n# A remark.\n\n"))
    lab.append(lab.GRID, "# A remark.")


def test_an_edit_of_a_grid_trains_what_it_adds_alone(lab):
    add_seeds_to_one_setting(lab)
    lab.plans_exactly(*Lab.jobs_from_training("lr0.1-b20-s2-3"))
    change_one_learning_rate(lab)
    add_seeds_to_the_grid(lab)
    new = ("lr0.05-b20-s2", "lr0.2-b20-s0-1", "lr0.2-b20-s2-3")
    lab.plans_exactly(*Lab.jobs_from_training(*new))


def test_the_effects_of_edits_arrive(lab):
    """The CSV shows that the jobs run this copy's code: two quantities, here and before."""
    before = lab.results()
    header = before[f"{lab.FIGURE}.csv"].decode().splitlines()[0].split(",")
    assert len(header) == len(["row", "name", "setting"]) + 2
    change_words(lab)  # which re-runs nothing
    edit_the_figure(lab)
    assert lab.snakemake("--cores", "1").jobs == ["all", "draw figH8"]
    drawn = lab.results()
    changed = {name for name in before if before[name] != drawn[name]}
    assert changed == {f"{lab.FIGURE}.{extension}" for extension in ("pdf", "svg", "png")}

    edit_the_declaration(lab, ("mls", "l1_norm"))
    edit_the_family(lab)
    add_a_family(lab)
    measuring = [*measured("geometry", *lab.PACKS), *measured("l1-norm", *lab.PACKS)]
    assert lab.snakemake("--cores", "2").jobs == sorted([*measuring, *lab.ANALYSIS])
    after = lab.results()
    header = after[f"{lab.FIGURE}.csv"].decode().splitlines()[0]
    assert header == "row,name,setting,mls,l1_norm"
    for quantity, was_there in ((b"samples_measured", True), (b"l1_norm", False)):
        assert (quantity in before[lab.TABLE]) == was_there
        assert (quantity in after[lab.TABLE]) != was_there

    edit_the_training(lab)
    families = (*lab.FAMILIES, "l1-norm")
    lab.plans_exactly(*lab.jobs_from_training(*lab.PACKS, families=families))
    pack = lab.PACKS[0]
    assert lab.snakemake("--cores", "1", lab.weights(pack)).jobs == [f"train {pack}"]
    assert (lab / lab.weights(pack)).read_bytes() != before[lab.weights(pack)]
