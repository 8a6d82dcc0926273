"""Networks of timm, trained by the engine as one trains them with torch alone, to the bit."""

import numpy as np
import pytest
import torch
from torch import nn

from flatlab.data._tensors import prepare
from flatlab.lab.train import TrainError, train_packs
from tests.lab.train.packs import DATA, images, interrupted, only, same, settings

STEPS, SEEDS = 12, (0, 3)
SWIN = "swin_tiny_patch4_window7_224"
ARGUMENTS = {
    "patch_size": 2,
    "window_size": 2,
    "embed_dim": 8,
    "depths": [1, 1],
    "num_heads": [1, 2],
    "drop_path_rate": 0.5,  # it draws in each step
}
RULE = {
    "lr": 0.005,
    "loss": "cross-entropy",
    "optimizer": "adam",
    "schedule": "cosine",
    "minibatches": "torch-replacement",
    "iterations": STEPS,
    "precision": "float32",
}


def pack(initialization="as-built", model=SWIN, arguments=ARGUMENTS, pixels=8, **training):
    options = {"model": model, "arguments": arguments}
    data, rule = {**DATA, "pixels": pixels}, {**RULE, **training}
    given = settings("timm", SEEDS, data=data, options=options, **rule)
    return {**given, "network": {**given["network"], "initialization": initialization}}


def plainly(seed, initialization):
    """The weights after the same training in plain torch."""
    import timm

    torch.manual_seed(seed)
    model = timm.create_model(SWIN, num_classes=3, in_chans=1, img_size=8, **ARGUMENTS)
    if initialization == "xavier-linear":
        torch.manual_seed(seed)
        for module in model.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
    split = prepare(images((4, 4)), {**DATA, "pixels": 8}, None, torch.float32).train
    update = torch.optim.Adam(model.parameters(), lr=RULE["lr"], foreach=False)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(update, STEPS)
    drawing = torch.Generator().manual_seed(seed)
    model.train()
    torch.manual_seed(seed)
    for _ in range(STEPS):
        chosen = torch.randint(len(split), (4,), generator=drawing)
        update.zero_grad()
        loss = nn.functional.cross_entropy(model(split.inputs[chosen]), split.labels[chosen])
        loss.backward()
        update.step()
        schedule.step()
    return {name: tensor.numpy() for name, tensor in model.state_dict().items()}


@pytest.mark.first(1)
@pytest.mark.parametrize("initialization", ["as-built", "xavier-linear"])
def test_the_weights_are_those_of_plain_torch_to_the_bit(initialization):
    """Also of what the network draws by itself, whatever is trained beside it."""
    before = torch.get_rng_state()
    trained = only(images((4, 4)), pack(initialization))
    assert torch.equal(torch.get_rng_state(), before)
    for run, seed in enumerate(SEEDS):
        with torch.random.fork_rng(devices=[]):
            expected = plainly(seed, initialization)
        assert set(expected) == set(trained.weights[0])
        for name, array in expected.items():
            assert trained.weights[0][name][run, 0].tobytes() == array.tobytes(), name


@pytest.mark.more
def test_a_network_that_draws_ends_with_the_same_bytes_when_interrupted(tmp_path):
    raw = images((4, 4))
    torch.manual_seed(5)  # the state of the process has no part in it
    expected = only(raw, pack())
    interrupted(5, raw, [pack()], folders=[tmp_path])
    same(only(raw, pack(), folders=[tmp_path]), expected)
    without = only(raw, pack(arguments={**ARGUMENTS, "drop_path_rate": 0.0}))
    name = "head.fc.weight"  # where what is drawn is seen
    assert not np.array_equal(expected.weights[0][name], without.weights[0][name])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (pack(model=3), r"network\.name timm: options\.model: expected `str`"),
        (pack(model="vit_nothing"), "vit_nothing cannot be built: Unknown"),
        (pack(arguments={**ARGUMENTS, "depth_s": 1}), "cannot be built: .*depth_s"),
        (pack(mode="batched"), "has no stacked form .* set training.mode to loop"),
    ],
    ids=["no model", "unknown model", "unknown argument", "stacked"],
)
def test_what_cannot_be_built_or_stacked_is_one_sentence(given, sentence):
    with pytest.raises(TrainError, match=sentence) as error:
        train_packs(images((8, 8)), [given])
    assert "\n" not in str(error.value)
