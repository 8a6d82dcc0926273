"""An edit to a file of the training changes the fingerprint of the packs that use it alone."""

from __future__ import annotations

import importlib
import re
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from flatlab import plan
from flatlab.experiments._jobs import measure_roots, train_roots
from flatlab.plan import keys_of, registry
from flatlab.plan.options import options_of

fingerprints = importlib.import_module("flatlab.plan.fingerprint")
ROOT = Path(__file__).resolve().parents[3]


def forget():
    for function in (
        fingerprints.fingerprint,
        fingerprints.closure,
        fingerprints._imports,
        fingerprints._content,
        registry.keys_of,
        registry.syntax,
        registry.assignments,
        options_of,
    ):
        function.cache_clear()


@pytest.fixture(scope="module")
def packs():
    """A pack of each setting of each grid, at all scales, and one that is trained in a loop."""
    found = {}
    for scale in plan.SCALES:
        for key, experiment in plan.Plan(
            {"scale": scale}, ROOT / "experiments"
        ).experiments.items():
            for pack in experiment.packs.values() if experiment.kind == "grid" else []:
                found[f"{scale}/{key}/{pack.setting}"] = pack
    some = found["demo/vgg-grid/lr0.1-b20"]
    plain = replace(some, training=replace(some.training, mode="loop"))
    options = replace(some.network.options, normalization="batch")
    normalized = replace(some, network=replace(some.network, options=options))
    return {**found, "loop": plain, "normalized": normalized}


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """A copy of the package: edit(path, text) adds a line to a file of it."""
    shutil.copytree(ROOT / "flatlab", tmp_path / "flatlab")
    for module in (fingerprints, registry):
        monkeypatch.setattr(module, "PACKAGE", tmp_path / "flatlab")
    forget()

    def append(path, text="EDITED = True\n"):
        file = tmp_path / "flatlab" / path
        file.write_text(f"{file.read_text()}\n\n{text}")
        forget()

    yield append
    forget()


def train_code(pack):
    """The fingerprint of what trains a pack."""
    return plan.fingerprint(*train_roots(pack))


@pytest.fixture(scope="module")
def before(packs):
    """The fingerprint of each pack before any edit: a copy has the same."""
    return {name: train_code(pack) for name, pack in packs.items()}


@pytest.fixture
def changed(packs, before, edit):
    """changed(path) edits a file and gives the packs whose fingerprint that changes."""

    def names(path):
        edit(path)
        return {name for name, pack in packs.items() if train_code(pack) != before[name]}

    return names


def users(packs, wanted):
    """The packs of which something holds, and there are some, but not all."""
    found = {name for name, pack in packs.items() if wanted(pack)}
    assert 0 < len(found) < len(packs)
    return found


def network_starts(*names):
    return lambda pack: pack.training.mode != "loop" and pack.network.name.startswith(names)


def normalizes(pack):
    normalization = getattr(pack.network.options, "normalization", "")
    return pack.training.mode != "loop" and normalization == "batch"


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ("convolution", network_starts("vgg", "lenet", "resnet")),
        ("max_pool", network_starts("vgg", "lenet")),
        ("batch_norm", normalizes),
        ("residual", network_starts("resnet")),
        ("product", network_starts("diagonal")),
        ("linear", network_starts("vgg", "lenet", "resnet", "mlp", "linear")),
        ("gaussian", lambda pack: getattr(pack.network.options, "activation", "") == "gaussian"),
    ],
)
def test_a_layer_belongs_to_the_packs_that_stack_it(layer, wanted, packs, changed):
    expected = users(packs, wanted)
    assert changed(f"train/layers/{layer}.py") == expected


@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_an_optimizer_belongs_to_the_packs_that_name_it(name, packs, changed):
    """Adam also to those whose initialization fits a sine: it takes its steps."""
    fits = {"adam": "high-frequency"}
    expected = users(
        packs,
        lambda pack: (
            pack.training.optimizer == name or pack.network.initialization == fits.get(name)
        ),
    )
    assert changed(f"train/optimizers/{name}.py") == expected


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("regularizers/sam", lambda pack: "sam" in pack.training.regularizer.split("+")),
        ("augmentations/crop_flip", lambda pack: "crop-flip" in pack.data.augmentation.split("+")),
    ],
)
def test_what_changes_a_step_belongs_to_the_packs_that_name_it(path, wanted, packs, changed):
    expected = users(packs, wanted)
    assert changed(f"train/{path}.py") == expected


@pytest.mark.parametrize("name", ["half-mse", "cross-entropy", "logistic", "sum-of-squares"])
def test_a_loss_belongs_to_the_packs_that_name_it(name, packs, changed):
    expected = users(packs, lambda pack: pack.training.loss == name)
    assert changed(f"losses/{name.replace('-', '_')}.py") == expected


@pytest.mark.parametrize("name", ["framework", "high-frequency", "xavier-linear"])
def test_an_initialization_belongs_to_the_packs_that_name_it(name, packs, changed):
    expected = users(packs, lambda pack: pack.network.initialization == name)
    path = f"train/initializations/{name.replace('-', '_')}.py"
    assert changed(path) == expected


@pytest.mark.parametrize("name", ["diagonal-linear", "mlp", "vgg", "timm"])
def test_an_architecture_belongs_to_the_packs_that_name_it(name, packs, changed):
    expected = users(packs, lambda pack: pack.network.name == name)
    assert changed(f"networks/{name.replace('-', '_')}.py") == expected


@pytest.mark.parametrize(
    "path",
    ["train/stacked_layers.py", "train/stacking.py", "train/schedules.py", "losses/_base.py"],
)
def test_the_engine_belongs_to_all(path, packs, changed):
    assert changed(path) == set(packs)


@pytest.mark.parametrize("path", ["metrics/geometry.py", "data/digits.py", "experiments/grid.py"])
def test_what_trains_nothing_belongs_to_none(path, changed):
    assert changed(path) == set()


FOLDERS = (
    *("train/layers", "train/optimizers", "train/regularizers", "train/augmentations"),
    *("train/initializations", "networks", "train"),
)


def test_comments_and_docstrings_belong_to_none(packs, before, edit, tmp_path):
    edited = 0
    for folder in FOLDERS:
        for path in sorted((tmp_path / "flatlab" / folder).glob("*.py")):
            text = path.read_text()
            other = re.sub(r'^( *)"""(?=\S)', r'\1"""In other words: ', text, flags=re.MULTILINE)
            edited += other != text
            path.write_text(other.replace("\n\n", "\n\n# A remark.\n\n"))
    forget()
    assert edited > 30
    assert {name: train_code(pack) for name, pack in packs.items()} == before


def test_every_file_that_a_pack_needs_is_among_what_it_names(packs):
    """Engine, architecture, optimizer and initialization; rules of layers but in a loop."""
    for name, pack in packs.items():
        roots = train_roots(pack)
        assert len(set(roots)) == len(roots)
        rules = [root for root in roots if ".layers." in root]
        assert bool(rules) == (pack.training.mode != "loop"), name


@pytest.fixture(scope="module")
def options():
    """The options of each family of a grid."""
    return plan.Plan({}, ROOT / "experiments").experiments["mlp-grid"].options


def test_measuring_a_pack_has_its_architecture_and_nothing_of_the_training(packs, options, edit):
    pack = packs["demo/mlp-grid/lr0.1-b20"]

    def measure_code():
        return plan.fingerprint(*measure_roots(pack, "geometry", options))

    before = measure_code()
    for folder in FOLDERS:
        if folder != "networks":
            for key in ["__init__", *(key.replace("-", "_") for key in keys_of(folder))]:
                edit(f"{folder}/{key}.py")
    assert measure_code() == before
    edit("networks/mlp.py")
    assert measure_code() != before


def test_an_added_rule_is_known_and_a_rule_that_is_not_there_is_refused(edit, tmp_path, packs):
    """To add an optimizer, an initialization or a layer is to add a file."""
    for folder in ("optimizers", "regularizers", "augmentations", "initializations", "layers"):
        (tmp_path / f"flatlab/train/{folder}/new_one.py").write_text("")
        forget()
        assert "new-one" in keys_of(f"train/{folder}")
    pack = packs["demo/mlp-grid/lr0.1-b20"]
    (tmp_path / "flatlab/train/layers/relu.py").rename(tmp_path / "flatlab/train/layers/relux.py")
    forget()
    with pytest.raises(plan.PlanError, match=r"mlp: layers: .* did you mean 'relux'"):
        train_code(pack)
