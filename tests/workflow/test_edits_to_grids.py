"""Packs are fixed: what is added to a grid is trained, and what was there stays as it is."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.workflow


def test_a_new_block_of_seeds_is_one_new_pack_per_setting(lab):
    before = lab.results()
    lab.rewrite_grid(lambda grid: grid["seeds"].append(2))
    lab.runs_exactly(*lab.jobs_from_training("lr0.05-b20-s2", "lr0.1-b20-s2"))
    for pack in lab.PACKS:
        assert lab.results()[lab.weights(pack)] == before[lab.weights(pack)]


def test_more_seeds_for_one_setting_are_one_new_pack(lab):
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(seeds=["0-1", "2-3"]))
    lab.runs_exactly(*lab.jobs_from_training("lr0.1-b20-s2-3"))


def test_another_learning_rate_trains_only_its_setting(lab):
    lab.rewrite_grid(lambda grid: grid["settings"][1].update(lr=0.2))
    lab.runs_exactly(*lab.jobs_from_training("lr0.2-b20-s0-1"))
