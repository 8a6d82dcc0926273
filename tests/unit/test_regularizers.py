"""Regularizers: every mode does what their papers write, written out here."""

from itertools import islice

import numpy as np
import pytest
import torch
from torchvision.transforms import RandAugment, functional

from flatlab.data import DataError
from flatlab.losses import loss_of
from flatlab.networks import build
from flatlab.plan import keys_of
from flatlab.splits import prepare
from flatlab.train import TrainError, train_packs
from flatlab.train.changes import changes_of, draws
from flatlab.train.initializations import draw
from flatlab.train.modes import MODES
from flatlab.train.recorded import Recorded
from flatlab.train.stacks import Stack
from tests.packs import DATA, TRAINING, images, same, settings, small

EXACT, STEPS = 1e-10, 60
SEED, SAMPLES, CLASSES = 3, 22, 3
NETWORKS = {
    "mlp": ("mlp", {}),
    "lenet5": ("lenet5", {}),
    "vgg": ("vgg", {}),
    "vgg with batch norm": ("vgg", {"normalization": "batch"}),
    "resnet": ("resnet", {}),
    "resnet without batch norm": ("resnet", {"normalization": "none"}),
}
STRENGTHS = {"sam_radius": 0.1, "mixup_alpha": 0.5}
MIXUP = {"regularizer": "mixup", "mixup_alpha": 0.5}
SAM = {"regularizer": "sam", "sam_radius": 0.1}
RULES = {
    "sam": SAM,
    "sam with momentum, decay and cross-entropy": {
        **SAM,
        **{"momentum": 0.9, "weight_decay": 1e-3, "lr": 0.005, "loss": "cross-entropy"},
    },
    "sam with adam": {**SAM, "optimizer": "adam", "lr": 0.001},
    "sam with rates of their own": {**SAM, "lr": {"low": 0.002, "high": 0.04}},
    "mixup": MIXUP,
    "mixup, sam and adam": {
        "regularizer": "mixup+sam",
        **STRENGTHS,
        "optimizer": "adam",
        "lr": 1e-3,
    },
    "mixup with cross-entropy": {**MIXUP, "loss": "cross-entropy", "minibatches": "replacement"},
    "crops and flips": {"augmented": 1.0},
    "crops and flips of some": {"augmented": 0.4, "momentum": 0.9, "lr": 0.005},
    "everything": {"regularizer": "mixup+sam", **STRENGTHS, "augmented": 0.7},
    "sam on all samples in pieces": {**SAM, "minibatches": "full", "batch_size": 9},
}


def data_of(augmented):
    """The section `data` with crops and flips of a share of the images, or without."""
    if augmented is None:
        return DATA
    options = {"augmentation_probability": augmented, "crop_padding": 2}
    return {**DATA, "augmentation": "crop-flip", "options": options}


def pack(network, seeds=(0, SEED), augmented=None, **given):
    return settings(network, seeds, data=data_of(augmented), **given)


def trained(network, seeds=(0, SEED), **given):
    [found] = train_packs(images((8, 8)), [pack(network, seeds, **given)])
    return found


def ascend(parameters, radius):
    """The step of SAM as published: to w + rho g / |g|; returns the way back."""
    before = [p.detach().clone() for p in parameters]
    norm = sum(float(p.grad.square().sum()) for p in parameters) ** 0.5
    with torch.no_grad():
        for p in parameters:
            p += radius * p.grad / norm

    def back():
        with torch.no_grad():
            for p, value in zip(parameters, before, strict=True):
                p.copy_(value)

    return back


def mixed(inputs, targets, alpha, step):
    """Mixup as published, with the run's stream of random numbers."""
    generator, size = np.random.default_rng([SEED, 0, *b"mixup"]), len(inputs)
    share = generator.beta(alpha, alpha, size=100)[step]
    partner = generator.permuted(np.tile(np.arange(size), (100, 1)), axis=1)[step]
    return (
        (1 - share) * inputs + share * inputs[partner],
        (1 - share) * targets + share * targets[partner],
    )


def cropped(batch, probability, step):
    """The images as torchvision crops and flips them, then scaled by their moments."""
    raw = images((8, 8))["train_inputs"].values
    generator, size = np.random.default_rng([SEED, 0, *b"crop-flip"]), len(batch)
    corners = generator.integers(5, size=(100, size, 2))[step].tolist()
    flips = generator.integers(2, size=(100, size, 1))[step]
    augmented = generator.random((100, size, 1))[step] < probability
    found = []
    for image, (top, left), flip, change in zip(raw[batch], corners, flips, augmented, strict=True):
        x = torch.from_numpy(image).to(torch.uint8)[None]
        if change:
            x = functional.crop(functional.pad(x, [2]), top, left, 8, 8)
            x = functional.hflip(x) if flip else x
        found.append((x.double() - raw.mean()) / raw.std())
    return torch.stack(found)


def batches(training, steps):
    """The samples of each step, from numpy's generator of (seed, 1)."""
    if training["minibatches"] == "replacement":
        generator = np.random.default_rng([SEED, 1])
        epochs = (generator.integers(SAMPLES, size=(5, 4)) for _ in range(steps))
        return [part for part, _ in zip((b for e in epochs for b in e), range(steps), strict=False)]
    if training["minibatches"] == "full":
        return [np.arange(SAMPLES)] * steps
    generator, size = np.random.default_rng([SEED, 1]), training["batch_size"]
    epochs = (generator.permutation(SAMPLES) for _ in range(steps))
    parts = (epoch[start : start + size] for epoch in epochs for start in range(0, 20, size))
    return [part for part, _ in zip(parts, range(steps), strict=False)]


def by_hand(network, options, training, steps):
    """The weights of a run that is trained by torch and the formulas of the papers."""
    training = {**TRAINING, **training}
    if isinstance(lr := training["lr"], dict):
        share = np.random.default_rng([SEED, 2]).uniform()
        training["lr"] = lr["low"] * (lr["high"] / lr["low"]) ** share
    split = prepare(images((8, 8)), DATA).train
    model = build(small(network, **options), (1, 8, 8), CLASSES)
    draw(model, "framework", SEED)
    model = model.double().train()
    parameters = list(model.parameters())
    given = {"lr": training["lr"], "weight_decay": training["weight_decay"]}
    update = (
        torch.optim.Adam(parameters, **given)
        if training["optimizer"] == "adam"
        else torch.optim.SGD(parameters, momentum=training["momentum"], **given)
    )
    loss = loss_of(training)

    def differentiate(batch, step):
        update.zero_grad()
        for piece in np.split(
            batch, range(training["batch_size"], len(batch), training["batch_size"])
        ):
            inputs, targets = split.inputs[piece], split.targets[piece]
            if probability := training.get("augmented"):
                inputs = cropped(piece, probability, step)
            if alpha := training.get("mixup_alpha"):
                inputs, targets = mixed(inputs, targets, alpha, step)
            value = loss.reference(model(inputs), targets)
            (value * len(piece) / len(batch)).backward()

    for step, batch in enumerate(batches(training, steps)):
        differentiate(batch, step)
        if radius := training.get("sam_radius"):
            averages = [tensor.clone() for tensor in model.buffers()]
            back = ascend(parameters, radius)
            differentiate(batch, step)
            back()
            for tensor, value in zip(model.buffers(), averages, strict=True):
                tensor.copy_(value)
        update.step()
    return model.state_dict()


@pytest.mark.parametrize(
    ("network", "rule"),
    [
        *((network, "sam") for network in NETWORKS),
        *(("mlp", rule) for rule in RULES if rule != "sam"),
        ("resnet", "sam with momentum, decay and cross-entropy"),
        *((network, "everything") for network in ("lenet5", "vgg with batch norm", "resnet")),
    ],
)
def test_every_mode_does_what_the_papers_write(network, rule):
    (name, options), training = NETWORKS[network], RULES[rule]
    expected = by_hand(name, options, training, STEPS)
    for mode in MODES:
        found = trained(name, options=options, mode=mode, iterations=STEPS, **training)
        for key, tensor in expected.items():
            array = found.weights[0][key][1, 0]
            assert array == pytest.approx(tensor.numpy(), rel=0, abs=EXACT), (mode, key)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_step_that_a_gpu_records_is_the_step_of_the_cpu(rule):
    """The recorded step reads all that changes from the device; here it is called."""
    given = pack("resnet", mode="batched", **rule)
    split = prepare(images((8, 8)), DATA).train
    changes = changes_of(given, split)
    model = build(given["network"], (1, 8, 8), CLASSES).double()
    plain, recorded = (
        Stack([model] * 2, split, given["training"], keys_of("train/layers"), changes) for _ in "ab"
    )
    record = Recorded(recorded, torch.device("cpu"))
    size = (
        SAMPLES if given["training"]["minibatches"] == "full" else given["training"]["batch_size"]
    )
    order = torch.randint(SAMPLES, (7, 2, size), generator=torch.Generator().manual_seed(0))
    chunk = {"order": order, "rates": torch.linspace(0.01, 0.02, 7)[:, None].expand(7, 2).double()}
    numbers = [*islice(draws(changes, (0, SEED), size, 3), 7)]
    drawn = {name: np.stack([step[name] for step in numbers]) for name in numbers[0]}
    chunk |= {name: torch.from_numpy(array) for name, array in drawn.items()}
    plain.load(chunk)
    each = isinstance(given["training"]["lr"], dict)
    record.load({**chunk, "rates": chunk["rates"] if each else chunk["rates"][:, 0]})
    for _ in order:
        plain.step()
        record.advance()
    for name, tensor in plain.views().items():
        assert torch.allclose(tensor, recorded.views()[name], rtol=0, atol=EXACT), name


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "rule", [{**SAM, "sam_radius": 0.0}, {**MIXUP, "mixup_alpha": 0.0}, {"augmented": 0.0}]
)
def test_a_regularizer_of_strength_zero_changes_no_bit(rule, mode):
    plain, off = (trained("resnet", mode=mode, iterations=20, **r) for r in ({}, rule))
    same(off, plain)


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_diverges_uphill_leaves_its_companions_alone(mode):
    """Its norm is not finite; theirs are their own."""
    rule = {**SAM, "lr": {"low": 0.02, "high": 30.0}, "precision": "float32", "iterations": 60}
    seeds = (0, 1, 2, 3, 4, 5)
    found = trained("mlp", seeds, mode=mode, **rule)
    ended = found.weights[1]["ended"]
    assert {*ended} == {"diverged", "finished"}
    if mode != "batched":  # which rounds differently at another width
        [alone] = [run for run, end in enumerate(ended) if end == "finished"][:1]
        other = trained("mlp", (seeds[alone],), mode=mode, **rule)
        for name, array in other.weights[0].items():
            assert array[0].tobytes() == found.weights[0][name][alone].tobytes(), name


@pytest.mark.parametrize("start", [0, 1, 99, 100, 250])
def test_random_numbers_depend_on_seed_and_step_alone(start):
    """They can be entered anywhere, in whichever pack the run is."""
    changes = changes_of(pack("mlp", **RULES["everything"]), prepare(images((8, 8)), DATA).train)
    whole = [*islice(draws(changes, (2, 7), 4, 0), 300)]
    rest = [*islice(draws(changes, (7,), 4, start), 300 - start)]
    for one, other in zip(whole[start:], rest, strict=True):
        for name, numbers in one.items():
            assert np.array_equal(numbers[1], other[name][0])
    shares = np.array([step["mixup.share"] for step in whole])
    assert len(np.unique(shares)) == shares.size
    assert 0.3 < shares.mean() < 0.7
    places = np.stack([step["crop-flip.place"] for step in whole]).reshape(-1, 3)
    changed = (places != [2, 2, 0]).any(1)
    assert abs(changed.mean() - 0.7 * (1 - 1 / 50)) < 0.03
    assert {*places[:, 0], *places[:, 1]} == {0, 1, 2, 3, 4}
    assert abs(places[:, 2].mean() - 0.7 / 2) < 0.03


def test_what_changes_minibatches_needs_minibatches():
    with pytest.raises(TrainError, match=r"training\.minibatches: full .* without mixup"):
        trained("mlp", **MIXUP, minibatches="full")


def test_what_is_cropped_is_an_image_with_one_black():
    given = pack("mlp", augmented=1.0)
    given["data"] = {**given["data"], "scaling": "components"}
    with pytest.raises(DataError, match=r"data\.scaling must not be components"):
        train_packs(images((8, 8)), [given])
    given["data"]["scaling"] = "unit"
    with pytest.raises(DataError, match="these data are not images"):
        train_packs(images((64,)), [given])


@pytest.mark.parametrize("mode", MODES)
def test_curves_are_those_of_the_samples_themselves(mode):
    """At the start nothing has been trained: what changes minibatches leaves no trace."""
    plain = trained("mlp", mode=mode, iterations=1)
    other = trained("mlp", mode=mode, iterations=1, **RULES["everything"])
    start = {"iteration": 0}
    assert plain.curves.isel(start).equals(other.curves.isel(start))


AUGMENTED = {
    **DATA,
    "augmentation": "rand-augment+crop-flip",
    "options": {
        **{"randaugment_operations": 2, "randaugment_magnitude": 14},
        **{"augmentation_probability": 1.0, "crop_padding": 2},
    },
}


@pytest.mark.parametrize("scaling", ["unit", "standardized"])
def test_randaugment_is_that_of_torchvision(scaling):
    """On the images of 8 bits, image by image, with the seed of the step."""
    raw = images((3, 8, 8))
    data = {**AUGMENTED, "scaling": scaling}
    split = prepare(raw, data).train
    changes = changes_of(settings("mlp", data=data), split)
    numbers = next(draws(changes, (SEED,), 5, 7))
    seed = np.random.default_rng([SEED, 0, *b"rand-augment"]).integers(2**62, size=100)[7]
    assert numbers["rand-augment.seed"] == [seed]
    before = torch.get_rng_state()
    found, _ = changes["rand-augment"].apply(
        split.inputs[None, :5], split.targets[None, :5], torch.tensor([seed])
    )
    assert torch.equal(torch.get_rng_state(), before)
    pixels = raw["train_inputs"].values
    expected = []
    torch.manual_seed(seed)
    for image in pixels[:5]:
        expected.append(RandAugment(2, 14)(torch.from_numpy(image).to(torch.uint8)).double())
    moments = (0, 255) if scaling == "unit" else (pixels.mean(), pixels.std())
    scaled = (torch.stack(expected) - moments[0]) / moments[1]
    assert torch.allclose(found[0], scaled, rtol=0, atol=1e-13)
    assert not torch.allclose(found[0], split.inputs[:5], rtol=0, atol=0.1)


def test_every_mode_augments_at_random_as_the_loop_does():
    rule = {"data": AUGMENTED, "regularizer": "mixup+sam", **STRENGTHS, "iterations": STEPS}
    raw = images((3, 8, 8))
    [loop], *others = (
        train_packs(raw, [settings("lenet5", mode=mode, **rule)])
        for mode in ("loop", "batched", "graphs")
    )
    for [other] in others:
        for name, array in loop.weights[0].items():
            assert other.weights[0][name] == pytest.approx(array, rel=0, abs=EXACT), name


@pytest.mark.parametrize(
    ("shape", "data", "sentence"),
    [((64,), {}, "are not images"), ((8, 8), {"pixels": 4}, "no images of 8 bits; data.pixels")],
)
def test_randaugment_needs_images_of_eight_bits(shape, data, sentence):
    with pytest.raises(DataError, match=sentence):
        train_packs(images(shape), [settings("mlp", data={**AUGMENTED, **data})])
