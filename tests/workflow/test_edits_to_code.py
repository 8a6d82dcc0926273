"""An edit to the package re-runs exactly what it can affect, and its effect arrives.

Snakemake does not see imported modules; the fingerprints in the rules' params make up for that.
"""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.workflow

FIGURE = "flatlab/plotting/pairs.py"
DECLARATION = "flatlab/papers/chen2026/figures.py"
FAMILY = "flatlab/metrics/geometry.py"
TRAINING = "flatlab/train/minibatches.py"
MODEL = "flatlab/networks/mlp.py"

A_FAMILY = '''
"""A family of one quantity."""
import numpy as np

from flatlab.metrics import Measured, Quantity

SETTINGS = []
QUANTITIES = {"l1_norm": Quantity("sum of absolute weights", "1", "this test")}

def measure(model, samples, settings):
    total = sum(float(p.abs().sum()) for p in model.parameters())
    return Measured({"l1_norm": np.array(total)})
'''


def test_when_nothing_changed_nothing_runs(lab):
    before = lab.results()
    lab.runs_exactly()
    assert lab.results() == before


def test_comments_docstrings_and_layout_re_run_nothing(lab):
    """In a figure, a family, the training and a model; nor does a comment in a grid."""
    for path in (FIGURE, DECLARATION, FAMILY, TRAINING, MODEL):
        text = (lab / path).read_text()
        edited = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
        assert edited.count("In other words") >= (1 if path == DECLARATION else 2)
        (lab / path).write_text(edited.replace("\n\n", "\n\n# A remark.\n\n"))
    lab.append("experiments/mlp-grid.yaml", "# A remark.")
    lab.runs_exactly()


def test_an_edited_figure_is_drawn_again(lab):
    """And nothing else. The CSV shows that the jobs run this copy's code: two quantities."""
    before = lab.results()
    header = before[f"{lab.FIGURE}.csv"].decode().splitlines()[0].split(",")
    assert len(header) == len(["row", "name", "setting"]) + 2
    lab.append(FIGURE, "label_of = str.upper")
    lab.runs_exactly("draw figH8", "all")
    after = lab.results()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {f"{lab.FIGURE}.{extension}" for extension in ("pdf", "svg", "png")}


def test_an_edited_declaration_draws_its_figure_again(lab):
    """And judges nothing again: a verdict does not depend on what a figure looks like."""
    before = lab.results()
    lab.append(
        DECLARATION,
        "FIGURES['figH8'] = Pairs('mlp-grid', quantities=('mls', 'nmls'), "
        "title='others', caption='Others.', size_inches=(4.0, 4.0))",
    )
    lab.runs_exactly("draw figH8", "all")
    header = lab.results()[f"{lab.FIGURE}.csv"].decode().splitlines()[0]
    assert header == "row,name,setting,mls,nmls"
    assert before[f"{lab.FIGURE}.csv"].decode().splitlines()[0] != header


def test_an_edited_family_is_measured_again_without_training(lab):
    before = lab.results()
    lab.append(FAMILY, "QUANTITIES.pop('samples_measured')")
    lab.runs_exactly(*(f"measure geometry {pack}" for pack in lab.PACKS), *lab.ANALYSIS)
    assert b"samples_measured" in before[lab.TABLE]
    assert b"samples_measured" not in lab.results()[lab.TABLE]


def test_an_added_family_is_measured_and_nothing_else(lab):
    (lab / "flatlab/metrics/l1_norm.py").write_text(A_FAMILY)
    lab.runs_exactly(*(f"measure l1-norm {pack}" for pack in lab.PACKS), *lab.ANALYSIS)
    assert b"l1_norm" in lab.results()[lab.TABLE]


def test_edited_training_trains_again_from_the_same_data(lab):
    """Everything follows but `prepare`."""
    before = lab.results()
    lab.append(TRAINING, "DATA_STREAM += 1")
    lab.runs_exactly(*lab.jobs_from_training(*lab.PACKS))
    after = lab.results()
    for pack in lab.PACKS:
        assert after[lab.weights(pack)] != before[lab.weights(pack)]
