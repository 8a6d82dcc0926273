"""Statements about the dense, drawn and depth grids, on made-up tables, and their figures."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from flatlab.lab.tables.networks import ResultTables
from flatlab.papers.beyond import _depth, _drawn, fig10, fig11, fig12
from flatlab.papers.beyond.claims import CLAIMS
from flatlab.papers.chen2026.claims_trends import SETTINGS
from tests.synthetic.tables import table as synthetic

mpl.use("Agg")


def table(key, hyperparameters, steps, columns):
    """A table of runs at checkpoints.

    hyperparameters: name -> (runs).  columns: name -> (runs, checkpoints), or with layers behind.
    """
    names = [name for name in hyperparameters if name != "seed"]
    runs = zip(*(hyperparameters[name] for name in names), strict=True)
    settings = [dict(zip(names, run, strict=True)) for run in runs]
    rules = {name: lambda _, value=value: value for name, value in columns.items()}
    coordinates = {"steps": lambda c: np.full(len(c["seed"]), steps[-1])}
    coordinates["seed"] = lambda _: hyperparameters["seed"]
    how = {"seeds": 1, "steps": steps, "layers": list("abcd"), "coordinates": coordinates}
    return synthetic(key, settings, rules, **how)


def verdicts(figure, tables, *keys):
    """Of some claims, by default of all."""
    found, claims = ResultTables(tables), CLAIMS[figure]
    return {key: claims[key].judge(found).outcome for key in keys or claims}


def drawn(fig, frame):
    figure = Figure(figsize=(7, 3), layout="constrained")
    fig.draw(figure, frame, {})
    figure.canvas.draw()
    assert frame["value" if "value" in frame else "rho"].notna().any()


# ---- settings drawn at random
BATCHES = [8, 10, 12, 17, 19, 22, 25, 26, 28, 29]


def of_drawn_settings(noise):
    generator = np.random.default_rng(0)
    sizes = np.repeat(BATCHES, 10)
    rates = np.exp(generator.uniform(np.log(0.05), np.log(0.2), 100))
    steps = sorted({0, *(round(120000 * 8 / size) for size in BATCHES)})
    level = np.log(rates / 0.1) - 0.7 * np.log(sizes / 20)

    def column(slope):
        values = slope * level + noise * generator.standard_normal(100)
        return np.repeat(values[:, None], len(steps), 1)

    columns = {
        "train_loss": np.full((100, len(steps)), 1e-4),
        "root_sharpness": np.exp(column(-0.2)),
        "mls": np.exp(column(-0.4)),
        "generalization_gap": column(-0.1),
        "loss_gap": column(0.1),
        "test_accuracy": column(0.1),
        "test_loss": column(0.1),
    }
    for name in ("nmls", "log_volume"):
        columns[name] = columns["mls"]
    hyper = {"batch_size": sizes, "lr": rates, "seed": np.arange(100)}
    return {_drawn.GRID: table(_drawn.GRID, hyper, steps, columns)}


def test_over_drawn_settings_each_statement_can_hold_and_fail():
    close = verdicts("fig11", of_drawn_settings(0.01))
    assert close.pop("c5-epochs") == close.pop("c9-epochs") == "fails"  # the sign is made otherwise
    assert {*close.values()} == {"holds"}
    loose = verdicts("fig11", of_drawn_settings(0.5))
    assert loose["c1"] == loose["c1-epochs"] == "fails"
    between = verdicts("fig11", of_drawn_settings(0.06))
    assert between["c1"] in ("holds", "undecided")
    drawn(fig11, fig11.frame({}, ResultTables(of_drawn_settings(0.05))))


# ---- rates by depth
def of_depths(lower, upper):
    """lower, upper: what a doubling of the rates does to all logarithms."""
    generator = np.random.default_rng(4)
    rates = [(lo, up) for lo in _depth.RATES for up in _depth.RATES for _ in range(6)]
    below, above = np.array(rates).T
    change = lower * np.log2(below / 0.1) + upper * np.log2(above / 0.1)

    def column():
        return np.exp(change + 0.01 * generator.standard_normal(54))[:, None]

    columns = {"train_loss": np.full((54, 1), 1e-4), "log_volume": np.log(column())}
    columns |= {name: column() for name in ("mls", "nmls", "root_sharpness")}
    columns["sharpness_per_layer"] = np.repeat(column()[:, :, None], 4, 2)
    hyper = {"lr": below, "upper_factor": above / below, "seed": np.tile(np.arange(6), 9)}
    found = table(_depth.GRID, hyper, [120000], columns)
    for name in ("redrawn_mls", "redrawn_first_sharpness"):
        found[name] = ("run", "checkpoint", "redraw"), column()[:, :, None]
    return {_depth.GRID: found.assign_coords(redraw=["0"])}


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (-0.3, -0.1, ["holds", "holds", "fails", "fails"]),
        (-0.1, -0.3, ["fails", "fails", "holds", "holds"]),
        (-0.2, -0.2, ["undecided"] * 4),
        (-0.1, 0.3, ["fails"] * 4),
    ],
)
def test_the_half_with_the_larger_effect_is_found_by_modulus_and_sign(lower, upper, expected):
    assert [*verdicts("fig12", of_depths(lower, upper)).values()] == expected


def test_effects_are_those_of_a_doubling():
    tables = of_depths(-0.3, -0.1)
    frame = fig12.frame({}, ResultTables(tables))
    of_mls = frame[frame["quantity"] == "log mls"].set_index("line")["value"]
    assert of_mls.to_dict() == pytest.approx({"lower": -0.3, "upper": -0.1}, abs=0.02)
    drawn(fig12, frame)


# ---- checkpoints close together
def of_times(key, steps, slope):
    """slope: of log MLS, log volume and G over log sharpness after interpolation."""
    generator = np.random.default_rng(0)
    settings = [setting for setting in SETTINGS for _ in range(5)]
    steps, runs = np.array(steps), len(settings)
    course = 0.1 * np.sin(steps / 1e5) + 0.05 * steps / 750000

    def column(slope):
        noise = 0.01 * generator.standard_normal((runs, len(steps)))
        return np.exp(slope * course + noise)

    columns = {
        "train_loss": np.where(steps < 150000, 0.1, 1e-3) * np.ones((runs, 1)),
        "root_sharpness": column(1),
        **{name: column(slope) for name in ("mls", "g")},
        "nmls": column(1),
        "log_volume": np.log(column(slope)),
        **{f"bound_{k}": column(1) + place for place, k in enumerate("abcd")},
    }
    hyper = {name: np.array([s[name] for s in settings]) for name in ("lr", "batch_size")}
    return table(key, {**hyper, "seed": np.tile(np.arange(5), 5)}, steps, columns)


def test_lines_keep_their_sign_or_lose_it():
    dense, sparse = [0, *range(15000, 750001, 15000)], [0, 1000, *range(150000, 750001, 100000)]
    for slope, expected in ((-1, "holds"), (1, "fails")):
        tables = {
            fig10.GRID: of_times(fig10.GRID, dense, slope),
            fig10.SPARSE: of_times(fig10.SPARSE, sparse, slope),
        }
        signs = [f"c{k}{end}" for k in (1, 3, 4) for end in ("", "-log")]
        others = ["c2", "c2-log", "figH6-c1", "figI11-c1"]
        found = verdicts("fig10", tables, *signs, *others)
        assert {found[key] for key in signs} == {expected}
        assert found["c2"] == found["c2-log"] == "holds"  # NMLS
        assert found["figH6-c1"] == "holds"
        assert found["figI11-c1"] == ("fails" if slope < 0 else "holds")
    drawn(fig10, fig10.frame({}, ResultTables(tables)))


def test_evidence_on_dense_checkpoints_names_their_grid():
    dense = of_times(fig10.GRID, [0, *range(15000, 750001, 15000)], -1)
    entry = CLAIMS["fig10"]["figI11-c1"].entry("c", ResultTables({fig10.GRID: dense}))
    assert all(fig10.GRID in each["quantity"] for each in entry["evidence"])
    assert not any("mlp-grid" in each["quantity"] for each in entry["evidence"])
