"""A bad file of a zoo is one sentence that names the key."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from flatlab import plan

EXPERIMENTS = Path(__file__).resolve().parents[3] / "experiments"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": None}, "vision-zoo.yaml: title"),
        ({"jobs": 0}, "jobs: .*found 0"),
        ({"adaptive": {"roh": 1}}, "adaptive: unknown key 'roh'; did you mean 'rho'"),
        ({"scales": {"dmo": {}}}, "scales: unknown key 'dmo'; did you mean 'demo'"),
        ({"pretrained": None}, "paper: give either grid or pretrained"),
        (
            {"grid": "vision-gird"},
            "scales.paper.grid: unknown experiment 'vision-gird'; did you mean 'vision-grid'",
        ),
        ({"grid": "representativeness"}, "grid: representativeness is no grid"),
    ],
)
def test_a_bad_file_names_the_key(change, message, tmp_path):
    content = yaml.safe_load((EXPERIMENTS / "vision-zoo.yaml").read_text())
    if "grid" in change:
        del content["scales"]["paper"]["pretrained"]
    for key, value in change.items():
        (content if key in content else content["scales"]["paper"])[key] = value
    (tmp_path / "vision-zoo.yaml").write_text(yaml.safe_dump(content))

    def find(other, where):
        return plan.load_experiment(EXPERIMENTS, other, "paper", find, where)

    with pytest.raises(plan.PlanError, match=message):
        plan.load_experiment(tmp_path, "vision-zoo", "paper", find)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_sets": {}}, "test_sets: accuracy needs the clean one, test"),
        ({"test_sets": {"test": {}}}, "test_sets.test: give one of corrupted, part or files"),
        ({"test_sets": {"test": {"part": "a"}}}, "part is not for networks from elsewhere"),
        ({"settings": ["a"]}, "settings: are those of a grid; leave it out"),
        ({"pretrained": {"layout": "timm"}}, "architecture: layout timm needs it"),
        ({"pretrained": {"layout": "bert"}}, "labels: layout bert needs one for each"),
        ({"sharpness": {"sharpness_stepz": 1}}, "unknown key 'sharpness_stepz'; did you mean"),
        ({"familes": 1}, "unknown key 'familes'"),
    ],
)
def test_a_bad_file_of_published_networks_names_the_key(change, message, tmp_path):
    content = yaml.safe_load((EXPERIMENTS / "released-clip-zoo.yaml").read_text())
    for key, value in change.items():
        if key == "pretrained":
            content["scales"]["paper"][key] |= value
        else:
            content[key] = value
    (tmp_path / "released-clip-zoo.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(plan.PlanError, match=re.escape(message)):
        plan.load_experiment(tmp_path, "released-clip-zoo", "paper", None)
