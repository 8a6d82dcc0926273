"""Every family counts what takes long: a bar moves, and a sentence says how long it will be."""

import warnings
from pathlib import Path

import pytest

import flatlab
from flatlab.core import progress
from flatlab.core.progress import ProgressBar
from flatlab.core.registry import keys_of, measures_samples
from flatlab.derivatives.per_sample import hooks
from tests.networks.small_networks import small

FORWARD_PASSES = {"prediction", "diagonal", "linear"}
"""Families that evaluate a network once, or have closed forms."""
OPTIONS = {
    "flatness": {"flatness": ["exact", "maximal"]},
    "capacity": {"capacity": ["pac-bayes"]},
    "sharpness": {"sharpness_radii": {"worst-adaptive-l2": [0.1], "average-standard-l2": [0.1]}},
    "feature-robustness": {"robustness_draws": 3},
    "representativeness": {"representativeness_draws": 3},
    "representations": {"representations": ["local"]},
    "estimates": {"representations": ["local"], "representations_accuracy": 0.05},
}
FAMILIES = [k for k in keys_of("families") if measures_samples(k) and k not in FORWARD_PASSES]
ROOT = Path(flatlab.__file__).parent


@pytest.fixture
def counted(monkeypatch):
    """What was counted while a network was measured, with the steps that were done and expected."""
    steps, close = {}, ProgressBar.__exit__

    def leave(self, *error):
        steps.setdefault(self.what, []).append((self.done, self.total))
        close(self, *error)

    monkeypatch.setattr(ProgressBar, "__exit__", leave)
    return steps


def measured(family, case=None, **options):
    name = "representations" if family == "estimates" else family
    how = {"families": name, "loss": "cross-entropy", **OPTIONS.get(family, {}), **options}
    return flatlab.measure(*(case or small("mlp-tanh")), **how)


@pytest.mark.parametrize("family", [*FAMILIES, "estimates"])
def test_every_family_counts_its_work(family, counted):
    measured(family)
    of_family = "representations" if family == "estimates" else family
    assert counted.pop(f"measuring {of_family}") == [(0, 1)]  # the time from beginning to end
    counted.pop("check of derivatives", None)
    assert counted, f"{family} shows no bar; give its longest loop a ProgressBar"
    for what, spans in counted.items():
        assert all(done > 0 and total > 0 for done, total in spans), what


STEPS = [  # of a perceptron of three layers with 6, 6 and 3 rows, on nine samples
    ("adaptive", {"trace": "exact"}, {"exact traces": [9]}),
    ("adaptive", {"trace": "random"}, {"random traces": [10]}),
    ("adaptive", {"iterations": 4}, {"norms": None}),  # which may converge before
    ("adaptive", {"ascent_steps": 3}, {"slopes": [3]}),
    ("adaptive", {"draws": 4}, {"4 weight changes": [9]}),
    # one bar counts all layers: a bar for each would forecast none that is short
    ("feature-robustness", {}, {"feature robustness": [9], "curvatures of layers": [3]}),
    ("representativeness", {}, {"representativeness": [9]}),
    # of rows as they are and normalized
    ("flatness", {}, {"curvatures of layers": [3], "eigenvalues of rows": [15, 15]}),
    ("estimates", {}, {"random directions": None, "norms of layers": None}),
    ("capacity", {}, {"noise tolerance": None}),
]


@pytest.mark.parametrize(("family", "options", "steps"), STEPS)
def test_a_bar_counts_every_part_and_all_layers(family, options, steps, counted):
    measured(family, **options)
    for what, expected in steps.items():
        if expected is None:
            [(done, total)] = counted[what]
            assert 0 < done <= total
        else:
            assert counted[what] == [(count, count) for count in expected]


def test_exact_traces_and_spectra_are_counted_in_parts_of_a_sample(counted, monkeypatch):
    monkeypatch.setattr(hooks, "GENERIC_BYTES", 1)  # one output at a time
    measured("adaptive", trace="exact")
    measured("representations")
    model, inputs, _ = small("mlp-tanh")
    outputs, layers = model(inputs[:1]).shape[1], 3
    assert counted["exact traces"] == [(len(inputs) * outputs,) * 2]
    [spectra] = [key for key in counted if key.startswith("spectra")]
    assert counted[spectra] == [(len(inputs) * layers,) * 2]


def test_landscapes_are_counted_in_batches(counted):
    model, inputs, labels = small("mlp-tanh")
    flatlab.landscape(model, inputs, labels, points=3, batch_size=2)
    assert counted["landscape"] == [(3 * -(-len(inputs) // 2),) * 2]


@pytest.mark.parametrize(
    ("family", "seconds", "said"),
    [
        ("feature-robustness", 1.0, {"feature robustness"}),  # a layer takes 33 s
        ("representativeness", 1.0, {"representativeness"}),  # or 30
        ("adaptive", 60.0, {"50 weight changes", "random traces", "slopes"}),
    ],
)
def test_what_takes_long_is_forecast_though_each_layer_is_short(family, seconds, said, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    model, *_ = case = small("mlp-tanh")

    def later(*_):
        now[0] += seconds

    model.register_forward_pre_hook(later)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        measured(family, case)
    forecast = {str(warning.message).partition(" will take about ")[0] for warning in caught}
    assert said <= forecast


def test_there_is_one_kind_of_bar_where_derivatives_are_computed():
    """`tqdm` itself counts only what is read and simulated."""
    rooms = ("api", "derivatives", "families", "inputs", "measuring")
    paths = [path for room in rooms for path in ROOT.glob(f"{room}/**/*.py")]
    assert not [path for path in paths if "tqdm" in path.read_text()]
