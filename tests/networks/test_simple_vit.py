"""Dropout of SimpleViT: of what its blocks add, in training alone."""

import torch
from torch import nn

from flatlab.networks import build

OPTIONS = {"patch": 2, "width": 8, "depth": 2, "heads": 2, "head_width": 4, "mlp_width": 16}


def network(dropout):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        chosen = {"name": "simple-vit", "options": {**OPTIONS, "dropout": dropout}}
        return build(chosen, (1, 4, 4), 3)


def test_dropout_adds_no_parameters_and_changes_nothing_in_evaluation():
    x = torch.randn(5, 1, 4, 4)
    plain, dropping = network(0.0), network(0.5)
    assert plain.state_dict().keys() == dropping.state_dict().keys()
    assert not any(isinstance(module, nn.Dropout) for module in plain.modules())
    assert sum(isinstance(module, nn.Dropout) for module in dropping.modules()) == 4
    assert torch.equal(plain.eval()(x), dropping.eval()(x))


def test_in_training_it_drops_what_a_block_adds_and_keeps_the_rest():
    torch.manual_seed(1)
    block = network(0.5).train().attention1
    x = torch.randn(200, 4, 8)
    added = block(x) - x
    whole = block.eval()(x) - x
    dropped = added.abs() < 1e-7
    assert abs(float(dropped.float().mean()) - 0.5) < 0.05
    torch.testing.assert_close(added[~dropped], 2 * whole[~dropped], rtol=1e-3, atol=1e-5)
