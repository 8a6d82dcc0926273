"""Regressions: eight points, networks from the line to the line, and where they start."""

import math

import numpy as np
import pytest
import torch

from flatlab.core.errors import MeasureError
from flatlab.core.registry import imported
from flatlab.data import DataError, load
from flatlab.data._tensors import prepare
from flatlab.lab.tables.networks import Networks
from flatlab.lab.tables.runs import of_grid
from flatlab.lab.train import TrainError, train_packs
from flatlab.lab.train.initializations import draw
from flatlab.measuring.grid import measure_pack
from flatlab.networks import Gaussian, build
from flatlab.papers.macdonald2023.norms import FIRST_LAYER, GAUSSIAN
from tests.lab.train.packs import DATA, GIVEN, images, settings, small

NETWORK = small("mlp", "gaussian")
RULE = {"loss": "sum-of-squares", "lr": 1e-4, "batch_size": 8, "momentum": 0.9, "mode": "batched"}
FULL = {**RULE, "minibatches": "full", "iterations": 60}


@pytest.fixture(scope="module")
def points():
    return load("eight-points")


def model(initialization, seed=0, inputs=1, steps=20, **options):
    made = build(small("mlp", **{"activation": "gaussian", **options}), (inputs,), 1)
    draw(made, initialization, seed)
    if fit_of := getattr(imported("train/initializations", initialization), "Fit", None):
        fit = fit_of(made, steps)
        while fit.left:
            fit.step()
    return made


class TestData:
    def test_eight_points_lie_in_the_square_and_are_the_same_every_time(self, points):
        x, y = points["train_inputs"].values[:, 0], points["train_targets"].values[:, 0]
        assert np.allclose(np.diff(x), 2 / 7)
        assert (x[0], x[-1], len(x), len(y)) == (-1, 1, 8, 8)
        assert np.abs(y).max() <= 1
        assert load("eight-points").identical(points)

    def test_the_line_between_them_has_no_targets_and_goes_through_their_places(self, points):
        line = points["test_inputs"].values[:, 0]
        assert np.isnan(points["test_targets"].values).all()
        assert np.abs(line[:, None] - points["train_inputs"].values[:, 0]).min(0).max() < 1e-12
        assert np.allclose(np.diff(line), 2 / 560)

    def test_numbers_come_as_they_are(self, points):
        split = prepare(points, GIVEN).train
        assert np.array_equal(split.inputs.numpy(), points["train_inputs"].values)
        assert np.array_equal(split.targets.numpy(), points["train_targets"].values)
        assert split.labels is None
        assert len(split) == 8

    @pytest.mark.parametrize(
        ("known", "changes", "outputs", "remedy"),
        [
            (GIVEN, {"targets": "one-hot"}, None, "data.targets must be given"),
            (GIVEN, {"scaling": "unit"}, None, "data.scaling must be none"),
            (GIVEN, {"classes": [0, 1]}, None, "data.classes must be all"),
            (GIVEN, {"scale": 2.0}, None, "data.scale must be 1.0"),
            (GIVEN, {"samples": 4}, None, "data.samples must be all"),
            (GIVEN, {}, 3, "network.outputs is 3"),
            (DATA, {"targets": "given"}, None, "targets must be one-hot"),
            (DATA, {"scaling": "none"}, None, "is for regressions"),
        ],
    )
    def test_what_a_regression_or_images_do_not_have_is_refused(
        self, points, stripes, known, changes, outputs, remedy
    ):
        with pytest.raises(DataError, match=remedy):
            prepare(points if known is GIVEN else stripes, {**known, **changes}, outputs)

    def test_without_labels_nothing_is_misclassified_and_no_accuracy_is_reached(self, points):
        with pytest.raises(DataError, match="cannot be misclassified"):
            prepare(points, GIVEN).train.misclassified(model("framework").double(), 2, 0)
        stop = {"every": 1, "loss": None, "mean_of": 1, "accuracy": 99.0}
        pack = settings("mlp", data=GIVEN, **{**FULL, "stop": stop})
        with pytest.raises(TrainError, match="stop at a loss"):
            train_packs(points, [pack])


class TestInitialization:
    def test_the_activation_is_a_bump_whose_slope_is_steepest_at_its_width(self):
        x = torch.linspace(-0.3, 0.3, 6001, dtype=torch.float64, requires_grad=True)
        y = Gaussian()(x)
        (slope,) = torch.autograd.grad(y.sum(), x)
        x, y = x.detach(), y.detach()
        assert y.max() == 1
        assert float(x[slope.argmax()]) == pytest.approx(-0.05, abs=1e-4)
        assert float(slope.max()) == pytest.approx(math.exp(-0.5) / 0.05, rel=1e-6)

    def test_low_frequency_has_a_narrow_first_layer_and_the_frameworks_others(self):
        low, default = (
            model(scheme, seed=4).state_dict() for scheme in ("low-frequency", "framework")
        )
        wide = model("low-frequency", width=256)
        norm = float(wide.fc1.weight.detach().norm())
        assert norm == pytest.approx(0.035 * 16, rel=0.2)  # 256 weights, 4 standard deviations
        for name, tensor in default.items():
            assert torch.equal(low[name], tensor) == (name != "fc1.weight"), name

    def test_the_frameworks_first_layer_has_the_norm_that_the_paper_prints(self):
        norms = [model("framework", s, width=256).fc1.weight.norm().item() for s in range(10)]
        assert np.mean(norms) == pytest.approx(math.sqrt(256 / 3), rel=0.05)

    def test_high_frequency_is_what_adam_makes_of_the_frameworks_weights(self):
        found = model("high-frequency", seed=2, activation="relu")
        expected = model("framework", seed=2, activation="relu")
        x = torch.tensor(np.linspace(-1, 1, 256), dtype=torch.float32)[:, None]
        update = torch.optim.Adam(expected.parameters(), lr=1e-4, foreach=False)
        for _ in range(20):
            update.zero_grad()
            (expected(x) - torch.sin(6 * torch.pi * x)).square().mean().backward()
            update.step()
        for (name, mine), theirs in zip(
            found.named_parameters(), expected.parameters(), strict=True
        ):
            assert torch.allclose(mine, theirs, rtol=0, atol=1e-6), name
            assert mine.grad is None

    @pytest.mark.parametrize("scheme", ["low-frequency", "high-frequency"])
    def test_weights_depend_on_the_seed_alone(self, scheme):
        def weights(seed):
            torch.rand(3)
            return [p.detach().numpy().tobytes() for p in model(scheme, seed).parameters()]

        assert weights(1) == weights(1)
        assert weights(1) != weights(2)

    def test_images_are_not_fitted_to_a_sine(self):
        with pytest.raises(ValueError, match="one input"):
            model("high-frequency", inputs=4)
        pack = settings("mlp")
        pack["network"] |= {"initialization": "high-frequency"}
        with pytest.raises(TrainError, match=r"network\.initialization: .* one input"):
            train_packs(images((8, 8)), [pack])


@pytest.fixture(scope="module")
def trained(points):
    """The weights of a pack on the eight points, and its settings."""
    pack = settings("mlp", data=GIVEN, options={"activation": "gaussian"}, **FULL)
    [found] = train_packs(points, [pack])
    return found, pack


def measured(trained, raw, family, data=GIVEN):
    found, pack = trained
    chosen = {
        **{key: pack[key] for key in ("network", "outputs", "seeds")},
        "data": data,
        "family": family,
        "setting": "framework",
        "hyperparameters": {"initialization": "framework"},
        "precision": "float64",
        "samples": {"train": {"split": "train", "size": 8, "seed": 0, "only": "all"}},
        "loss": {"loss": "sum-of-squares"},
        "options": {
            "accuracy": {"generalization_gap": "loss"},
            "geometry": {"relative_flatness_loss": "half-mse", "costly": []},
            **{name: {} for name in ("hessian", "jacobian", "prediction")},
        },
    }
    return measure_pack([found.weights], raw, chosen)


def network(trained, run):
    found, _ = trained
    made = build(NETWORK, (1,), 1).double()
    arrays = {name: torch.from_numpy(a[run, 0]) for name, a in found.weights[0].items()}
    made.load_state_dict(arrays)
    return made


ABOUT = {"network": "made-up", "data": "points", "length": "9 iterations", "left_out": 0}
ABOUT["hyperparameters"] = []


class TestMeasured:
    def test_the_curve_of_losses_is_the_sum_of_squares_and_accuracy_is_not_defined(
        self, trained, points
    ):
        curves = trained[0].curves
        x, y = (torch.tensor(points[f"train_{part}"].values) for part in ("inputs", "targets"))
        for run in range(2):
            with torch.no_grad():
                expected = float((network(trained, run)(x) - y).square().sum())
            assert curves["train_loss"].values[run, -1] == pytest.approx(expected, rel=1e-12)
        assert curves["train_accuracy"].isnull().all()
        assert (curves["train_loss"][:, -1] < curves["train_loss"][:, 0]).all()

    def test_the_prediction_is_the_function_and_the_points_are_the_data(self, trained, points):
        found = measured(trained, points, "prediction")
        for run in range(2):
            x = torch.tensor(points["test_inputs"].values)
            expected = network(trained, run)(x).detach().numpy()[:, 0]
            assert np.allclose(found["curve_output"][run, 0], expected, rtol=0, atol=1e-14)
            assert np.array_equal(found["curve_input"][run, 0], x[:, 0])
            for part in ("input", "target"):
                assert np.array_equal(
                    found[f"fitted_{part}"][run, 0], points[f"train_{part}s"].values[:, 0]
                )

    def test_networks_of_images_have_no_such_curve(self):
        raw = images((8, 8))
        pack = settings("mlp", mode="batched", iterations=2)
        [found] = train_packs(raw, [pack])
        with pytest.raises(MeasureError, match="one input and one output"):
            measured((found, pack), raw, "prediction", DATA)

    def test_what_has_no_labels_or_no_targets_is_nan_and_the_training_loss_is_not(
        self, trained, points
    ):
        found = measured(trained, points, "accuracy")
        for name in ("train_accuracy", "test_accuracy", "test_loss", "generalization_gap"):
            assert found[name].isnull().all(), name
        curves = trained[0].curves["train_loss"].values
        assert found["train_loss"].values[:, 0] == pytest.approx(curves[:, -1] / 8, rel=1e-12)

    def test_without_an_accuracy_a_run_diverges_where_its_loss_is_not_finite(self, trained, points):
        """And the first layer has its norm."""
        parts = [measured(trained, points, name) for name in ("accuracy", "geometry", "prediction")]
        about = {"runs": ["s0", "s3"], "diverged_below": None, "about": ABOUT}
        table = of_grid(parts, about)
        assert not table["diverged"].any()
        norms = [float(network(trained, run).fc1.weight.detach().norm()) for run in range(2)]
        assert Networks.of(GAUSSIAN, table).column(FIRST_LAYER) == pytest.approx(norms, rel=1e-12)
        parts[0]["train_loss"][1] = np.nan
        assert of_grid(parts, about)["diverged"].values.tolist() == [False, True]
