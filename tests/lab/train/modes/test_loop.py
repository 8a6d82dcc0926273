"""The plain loop is what one writes with the framework."""

import pytest

from tests.lab.train import by_hand
from tests.lab.train.modes.rules import RULES, weights
from tests.lab.train.packs import images


@pytest.mark.first(6)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_loop_is_what_one_writes_with_the_framework(rule):
    """SGD, schedulers and losses of torch, on the data in the order of numpy's generator."""
    steps = rule.get("iterations", 20)
    arrays = weights(images((8, 8)), "resnet", mode="loop", **{"iterations": steps, **rule})
    rule = {key: value for key, value in rule.items() if key != "iterations"}
    for name, tensor in by_hand.weights("resnet", {}, steps, **rule).items():
        assert arrays[name][1, 0] == pytest.approx(tensor.numpy(), rel=0, abs=1e-9), name
