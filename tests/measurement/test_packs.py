"""Many networks at once, at several checkpoints, on several sets of samples."""

from unittest.mock import Mock

import numpy as np
import pytest
import torch
import xarray as xr

import flatlab
from flatlab.data._tensors import Split, prepare
from flatlab.families import geometry
from flatlab.measuring.grid import GridMeasurer, measure_pack
from tests.lab.train.packs import small
from tests.measurement.comparing import ALL_COSTLY, close
from tests.synthetic.packs import about, asked, networks, of_split, weights_of

SAMPLE_SETS = {"train": of_split("train", 10), "test": of_split("test", 7, seed=1)}
WRONG = {"wrong": of_split("test", 7, seed=1, only="misclassified"), **SAMPLE_SETS}
NETWORK = {**small("mlp"), "initialization": "framework"}
GEOMETRY = {"geometry": {"costly": [*ALL_COSTLY]}}


def packed(stripes, samples=SAMPLE_SETS, change=None, families=GEOMETRY):
    """What is measured of two networks of one pack at two checkpoints.

    The dataset, each network with its part of it, and the training and test samples.
    """
    models = networks(NETWORK, (4, 4), 3)
    if change:
        change(models)
    settings = asked("+".join(families), NETWORK, samples=samples, options=families)
    found = measure_pack([(weights_of(models), about([0, 7]))], stripes, settings)
    parts = [found.isel(run=number // 2, checkpoint=number % 2) for number in range(4)]
    each = [*zip([model.eval() for model in models], parts, strict=True)]
    return found, each, prepare(stripes, settings["data"], None, torch.float64)


def test_a_pack_has_the_dimensions_of_runs_checkpoints_and_sample_sets(stripes):
    found, *_ = packed(stripes)
    kept = {name for name, q in geometry.QUANTITIES.items() if "sample" not in q.dims}
    assert set(found.data_vars) == kept
    assert "sample" not in found.dims
    for name, variable in found.data_vars.items():
        quantity = geometry.QUANTITIES[name]
        assert variable.dims == ("run", "checkpoint", "samples", *quantity.dims), name
        assert variable.attrs["long_name"] == quantity.long_name
        assert variable.attrs["precision"] == "float64"
    assert found.run.values.tolist() == ["lr0.1-s0", "lr0.1-s1"]
    assert found.checkpoint.values.tolist() == [0, 7]
    assert found.samples.values.tolist() == ["train", "test"]
    assert found.lr.values.tolist() == [0.1, 0.1]
    assert found.samples_measured.isel(run=0, checkpoint=0).values.tolist() == [10, 7]


def test_families_that_are_joined_measure_what_each_measures_alone(stripes):
    families = {"accuracy": {}, **GEOMETRY, "jacobian": {}}
    together, *_ = packed(stripes, families=families)
    apart = [packed(stripes, families={name: how})[0] for name, how in families.items()]
    assert sum(len(part.data_vars) for part in apart) == len(together.data_vars)
    for part in apart:
        assert part.data_vars
        xr.testing.assert_identical(together[list(part.data_vars)], part)


def test_accuracy_needs_no_sample_sets(stripes):
    settings = asked("accuracy", NETWORK)
    del settings["samples"]
    models = networks(NETWORK, (4, 4), 3)
    found = measure_pack([(weights_of(models), about([0, 7]))], stripes, settings)
    assert found.train_loss.notnull().all()


def test_a_pack_has_the_numbers_of_each_of_its_networks(stripes):
    _, each, splits = packed(stripes)
    for model, found in each:
        for name, chosen in SAMPLE_SETS.items():
            subset = getattr(splits, name).subset(chosen["size"], chosen["seed"])
            alone = flatlab.measure(model, subset.inputs, costly=ALL_COSTLY)
            here = found.sel(samples=name)
            assert here.layer.values.tolist() == alone.layer.values.tolist()
            assert close(here, alone, rel=1e-12)


class Restless(torch.nn.Module):
    """Two pixels are tokens, of which one is padding; what it returns doubles with each call."""

    def __init__(self):
        super().__init__()
        self.embedding, self.scale = torch.nn.Embedding(2, 3, padding_idx=0).double(), 1.0

    def forward(self, x):
        self.scale *= 2
        return self.scale * self.embedding((x.flatten(1)[:, 5:7] > 0.5).long()).sum(1)


def test_what_a_network_of_a_pack_changes_in_itself_does_not_reach_the_next(stripes):
    settings = asked("accuracy", NETWORK, options={"accuracy": {}})
    splits = prepare(stripes, settings["data"], None, torch.float64)
    states = {step: {"embedding.weight": torch.rand(2, 3).double()} for step in (0, 7)}
    measurer = GridMeasurer(Restless(), splits, settings)
    for _ in range(2):
        found = measurer.on([states], ["accuracy"])
        for step, state in states.items():
            fresh = Restless()
            fresh.load_state_dict(state)
            outputs = splits.train.outputs(fresh)
            assert outputs.std() > 0
            loss = (outputs - splits.train.targets).square().sum(1).mean() / 2
            assert found.train_loss.sel(checkpoint=step).item() == pytest.approx(loss.item())


def test_misclassified_samples_are_those_of_each_network_at_each_checkpoint(stripes):
    def only_the_first_class(models):
        torch.nn.init.zeros_(models[0].fc4.weight)
        models[0].fc4.bias.data.copy_(torch.tensor([1.0, 0.0, 0.0]))

    _, each, splits = packed(stripes, WRONG, only_the_first_class)
    split = splits.test
    order = np.random.default_rng(1).permutation(len(split.labels))
    for model, found in each:
        wrongly = (model(split.inputs).argmax(1) != split.labels).numpy()
        chosen = [index for index in order if wrongly[index]][:7]
        assert len(chosen) == 7
        alone = flatlab.measure(model, split.inputs[chosen], costly=ALL_COSTLY)
        assert close(found.sel(samples="wrong"), alone, rel=1e-12)
        subset = split.misclassified(model, 3, 1)
        assert torch.equal(subset.inputs, split.inputs[chosen[:3]])
        assert torch.equal(subset.labels, split.labels[chosen[:3]])


def test_a_network_that_gets_nothing_wrong_has_no_numbers_of_it(stripes, monkeypatch):
    monkeypatch.setattr(Split, "misclassified", lambda self, *given: self._chosen(torch.arange(0)))
    found, *_ = packed(stripes, WRONG)
    assert found.sel(samples="wrong")["sharpness"].isnull().all()
    assert found.sel(samples=["train", "test"])["sharpness"].notnull().all()


def test_the_finite_networks_of_a_pack_are_measured_at_once(stripes, monkeypatch):
    several = Mock(wraps=geometry.measure_several)
    monkeypatch.setattr(geometry, "measure_several", several)
    found, *_ = packed(stripes, change=lambda models: models[2].fc1.weight.data.fill_(np.nan))
    assert found.sharpness.isel(samples=0).isnull().values.tolist() == [[False] * 2, [True, False]]
    counted = [len(states) for (_, states, *_), _ in several.call_args_list]
    assert counted == [2, 2]  # the other finite ones, for two sample sets


def test_representations_and_feature_robustness_of_a_pack(stripes):
    """As of each network alone; a set of one class, or of a network without numbers, has NaN."""
    samples = {"train": of_split("train", 10), "two": of_split("train", 2)}
    families = {"representations": {}, "feature-robustness": {"robustness_draws": 3}}
    spoil = lambda models: models[1].fc1.weight.data.fill_(np.nan)  # noqa: E731
    found, [(model, here), (_, spoilt_one), *_], splits = packed(stripes, samples, spoil, families)
    assert {"sample", "run"} & {*found.dims} == {"run"}
    subset = splits.train.subset(10, 0)
    how = {"families": [*families], "robustness_draws": 3}
    alone = flatlab.measure(model, subset.inputs, subset.labels, **how)
    names = ["feature_sensitivity", "head_share", "collapse_within", "linear_share"]
    names += ["feature_robustness"]
    assert close(here.sel(samples="train")[names], alone[names], rel=1e-12)
    assert all(spoilt_one[name].isnull().all() for name in ("feature_mls", "collapse_within"))


def test_collapse_is_of_the_whole_split_and_representativeness_of_held_out_data(stripes):
    """Where it says so; the test samples are what training samples are compared with."""
    samples = {"train": of_split("train", 10), "test": of_split("test", 8)}
    families = {
        "representations": {"collapse_samples": "split"},
        "representativeness": {"robustness_deltas": [0.1], "representativeness_draws": 3},
    }
    _, each, splits = packed(stripes, samples, families=families)
    for model, here in each:
        for name, split in (("train", splits.train), ("test", splits.test)):
            parts = {"families": "representations", "representations": ["collapse", "linear-share"]}
            alone = flatlab.measure(model, split.inputs, split.labels, **parts)
            assert close(here.sel(samples=name)[[*alone.data_vars]], alone, rel=1e-9), name
            subset = split.subset(samples[name]["size"], 0)
            parts["representations"] = ["local"]
            of_subset = flatlab.measure(model, subset.inputs, **parts)[["feature_sensitivity"]]
            assert close(here.sel(samples=name)[[*of_subset]], of_subset, rel=1e-12)
        risk = (model(splits.test.inputs).detach() - splits.test.targets).square().sum(1).mean() / 2
        rest = risk.item() - here.nearby_loss.sel(samples="train")
        assert here.representativeness.sel(samples="train").values == pytest.approx(rest.values)
        assert here.representativeness.sel(samples="test").isnull().all()
