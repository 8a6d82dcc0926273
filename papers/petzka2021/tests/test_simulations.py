"""Simulations: their data are what they say, their tables repeat."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from msgspec.structs import replace

from flatlab.core.options import options_of
from flatlab.core.schema import describe
from flatlab.lab import plan
from flatlab.lab.plan import PlanError
from flatlab.simulations import locally_constant_labels, representativeness
from flatlab.simulations._data import RANGE, Extractor, draw, rescaled
from flatlab.simulations._ridge import LOSSES, ridge

LABELS = locally_constant_labels.Options(
    separations=[0.1, 1.0, 4.0],
    batches={"exact": 2, "inverted": 1, "reversed": 1, "code": 1},
    datasets=3,
    training_size=60,
    test_size=80,
    alpha=1.0,
    flipped=0.001,
    seed=0,
)
EXPERIMENTS = Path(plan.__file__).parents[2] / "experiments"


def settings_of(name: str, scale: str = "demo") -> dict:
    """The settings of the project's experiment of a simulation."""
    experiment = plan.load_experiment(EXPERIMENTS, name, scale, find=None)
    return dict(experiment.packs["all"])


def representativeness_options(**changes: object) -> representativeness.Options:
    return representativeness.Options(**{**settings_of("representativeness"), **changes})


@pytest.mark.parametrize("name", plan.keys_of("simulations"))
def test_every_simulation_is_an_experiment_and_says_what_its_settings_mean(name: str) -> None:
    keys = describe(options_of("simulations", name))
    assert all(meaning for _, _, meaning in keys)
    for scale in plan.SCALES:
        assert settings_of(name, scale).keys() == {key for key, _, _ in keys}


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("representativeness", "alpha: 1.0", "alpha: -1.0", "settings.alpha: .* > 0"),
        ("representativeness", "alpha: 1.0", "alpah: 1.0", "unknown key 'alpah'; did you mean"),
        ("representativeness", "  seed: 0\n", "", "settings.seed is missing"),
        ("representativeness", "{repeats: 8}", "{repeats: 0}", "demo.settings.repeats: .* >= 1"),
        ("locally-constant-labels", "{exact: 3", "{exakt: 3", "batches: unknown name 'exakt'"),
    ],
)
def test_wrong_settings_are_refused_before_anything_runs(
    name: str, old: str, new: str, message: str, tmp_path: Path
) -> None:
    content = (EXPERIMENTS / f"{name}.yaml").read_text()
    assert old in content
    (tmp_path / f"{name}.yaml").write_text(content.replace(old, new))
    with pytest.raises(PlanError, match=message):
        plan.load_experiment(tmp_path, name, "demo", find=None)


def test_clusters_lie_at_vertices_and_alternate_in_class() -> None:
    """Centres from the means of many points: coordinates +-c, the smallest distance 2c."""
    features, labels = draw(np.random.default_rng(0), 50.0, 4000)
    signs, place = np.unique(np.sign(features[:, :6]), axis=0, return_inverse=True)
    assert len(signs) == 4
    for k in range(4):
        here = place.ravel() == k
        assert here.sum() == 1000
        assert features[here, :6].mean(axis=0) == pytest.approx(50 * signs[k], abs=0.5)
        assert len(set(labels[here])) == 1
    assert labels.sum() == 0


def test_redundant_features_are_combinations_of_the_others() -> None:
    features, labels = draw(np.random.default_rng(1), 1.0, 200)
    assert features.shape == (200, 8)
    assert np.linalg.matrix_rank(features) == 6
    assert set(labels) == {-1.0, 1.0}


def test_labels_are_drawn_anew_at_the_rate_that_is_asked_for() -> None:
    changed = []
    for share in (0.0, 0.2):
        features, labels = draw(np.random.default_rng(2), 50.0, 8000, flipped=share)
        _, place = np.unique(np.sign(features[:, :6]), axis=0, return_inverse=True)
        clusters = [labels[place.ravel() == k] for k in range(4)]
        changed.append(np.mean([min((part > 0).mean(), (part < 0).mean()) for part in clusters]))
    assert changed[0] == 0
    assert changed[1] == pytest.approx(0.1, abs=0.02)  # half of what is drawn anew is as before


def test_inputs_of_an_extractor_have_the_features_that_are_asked_for() -> None:
    generator = np.random.default_rng(0)
    features, _ = draw(generator, 1.0, 300)
    extractor = Extractor(generator, 8)
    found, factor = rescaled(extractor, features)
    error = np.linalg.norm(found - factor * features, axis=1)
    assert (error < 1e-3 * np.linalg.norm(factor * features, axis=1)).all()
    first = extractor.inverse((factor * features).astype(np.float32))
    assert np.abs(first).max() <= RANGE
    assert extractor.inverse((features / np.abs(features).max()).astype(np.float32)) is None


def test_an_extractor_that_no_factor_suits_is_drawn_anew_and_counted() -> None:
    """Its biases alone lead out of the range: a ladder of factors would have no end."""
    paper = settings_of("locally-constant-labels", "paper")
    options = locally_constant_labels.Options(**paper)
    generator = np.random.default_rng([options.seed, 6, 1, 0])
    sample = locally_constant_labels.make("inverted", generator, 3.0, options)
    assert sample.redrawn == 1
    assert np.isfinite(sample.features).all()
    assert np.abs(sample.features).max() > 0.01
    small = replace(LABELS, separations=[3.0], batches={"inverted": 1}, datasets=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locally_constant_labels, "invertible", lambda *given: (Extractor(*given), 2))
        table = locally_constant_labels.table(small)
    assert table.attrs["extent"].endswith("cannot be inverted, drawn anew: 2")


def test_without_the_tanh_in_the_inverse_the_features_are_others() -> None:
    """And they are the ones of a network of linear layers."""
    generator = np.random.default_rng(0)
    features = draw(generator, 1.0, 100)[0].astype(np.float32)
    extractor = Extractor(generator, 8)
    values = extractor.linear_inverse(features)
    linear = values
    for weight, _, bias in extractor.layers:
        linear = linear @ weight.T + bias
    assert linear == pytest.approx(features, abs=1e-3)
    seen = extractor(np.tanh(values))
    assert np.abs(seen - features).mean() > 0.1


def test_the_table_of_labels_has_what_a_loop_over_its_data_finds() -> None:
    table = locally_constant_labels.table(LABELS)
    for part in ("3 class separations", "60 training and 80 test", "2 (exact)"):
        assert part in table.attrs["extent"]
    for variant, drawn in (("exact", 4.0), ("reversed", 0.1)):
        features, labels = draw(np.random.default_rng([0, 2, 0, 1]), drawn, 140)
        model = ridge(features[:60], labels[:60], 1.0)
        place = {"variant": variant, "separation": 4.0, "batch": 0, "dataset": 1}
        here = table.sel(variant=variant, separation=4.0).isel(batch=0, dataset=1)
        square = (model(features) - labels) ** 2
        kappa = 2 * (features[:60] ** 2).sum(1).mean() * (model.weight**2).sum()
        values = here.sel(loss="squared")
        assert float(values["risk"]) == pytest.approx(square[60:].mean()), place
        assert float(values["gap"]) == pytest.approx(square[60:].mean() - square[:60].mean())
        found = values["relative_flatness"].sel(normalization="none")
        assert float(found) == pytest.approx(kappa)
        wrong = np.sign(model(features)) != labels
        assert float(here["risk"].sel(loss="zero-one")) == pytest.approx(wrong[60:].mean())
    assert table["drawn_at"].sel(variant="code").values.tolist() == [4.0, 1.0, 0.1]
    assert np.isnan(table["gap"].sel(variant="code").isel(batch=1)).all()
    assert np.isfinite(table["gap"].sel(variant="exact")).all()


def test_the_authors_code_scales_weights_and_not_features() -> None:
    sample = locally_constant_labels.make("code", np.random.default_rng(4), 1.0, LABELS)
    flatness, risks = locally_constant_labels.measure(sample, 60, "code")
    inside = sample.features[:60]
    weight = sample.model.weight * inside.var(axis=0)
    expected = 2 * (inside**2).sum(axis=1).mean() * (weight**2).sum()
    assert flatness[0, 2] == pytest.approx(expected)
    assert set(sample.targets) == {0.0, 1.0}
    square = (sample.model(sample.features) - sample.targets) ** 2
    assert risks[0].tolist() == pytest.approx([square[:60].mean(), square[60:].mean()])


def test_the_table_of_representativeness_has_bounds_made_of_its_parts() -> None:
    options = representativeness_options(separations=[0.5, 4.0], repeats=2, size=180, inner_folds=4)
    table = representativeness.table(options)
    paper, code = (table.sel(variant=variant) for variant in ("paper", "code"))
    flatness = 0.1**2 / 16 * paper["relative_flatness"]
    xr.testing.assert_allclose(paper["bound"], flatness + paper["representativeness"])
    flatness = 0.1**2 / 10 * code["relative_flatness"]
    xr.testing.assert_allclose(code["bound"], flatness + code["representativeness"])
    assert ((code["representativeness"] <= 1) & (code["representativeness"] > -0.1)).all()
    again = representativeness.table(options)
    xr.testing.assert_identical(table, again)


def test_folds_are_a_partition() -> None:
    parts = representativeness.partition(np.random.default_rng(0), 10, 3)
    assert sorted(np.concatenate(parts)) == list(range(10))
    assert [len(part) for part in parts] == [4, 3, 3]


def test_the_gap_of_representativeness_is_that_of_a_model_of_the_other_folds() -> None:
    options = representativeness_options()
    generator = np.random.default_rng(0)
    features, labels = draw(generator, 1.0, 90)
    test, rest = np.arange(30), np.arange(30, 90)
    gap, *_ = representativeness.in_paper(
        generator, representativeness.Sample(features, labels, test, rest), options
    )
    model = ridge(features[30:], labels[30:], 1.0)
    square = LOSSES["squared"].value(model(features), labels)
    assert gap == pytest.approx(square[:30].mean() - square[30:].mean())
