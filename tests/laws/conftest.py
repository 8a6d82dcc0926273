"""Random networks for the laws."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from tests.laws.relations import Network

ACTIVATIONS = ("relu", "tanh")


@pytest.fixture(scope="session")
def draw_network(mlp, normal):
    """Draw a network of linear layers: draw_network(data), data from hypothesis."""

    def draw(data, activations=ACTIVATIONS, hidden=(0, 3)):
        lengths = {"min_size": hidden[0], "max_size": hidden[1]}
        inputs, outputs = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4))
        inner = data.draw(st.lists(st.integers(2, 8), **lengths))
        bias, seed = data.draw(st.booleans()), data.draw(st.integers(0, 10**6))
        activation = data.draw(st.sampled_from(activations))
        model = mlp((inputs, *inner, outputs), seed=seed, activation=activation, bias=bias)
        return Network(model, normal(6, inputs, seed=seed), inputs, outputs, bias)

    return draw


@pytest.fixture(scope="session")
def randomized():
    """A network in float64 and evaluation mode, with random weights, biases and statistics."""

    def fill(model, seed):
        generator = torch.Generator().manual_seed(seed)
        model = model.double().eval()
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(generator=generator)
                module.running_var.uniform_(0.5, 2, generator=generator)
                module.eps = 0.0
            if (weight := getattr(module, "weight", None)) is not None:
                deviation = 1.5 / weight[0].numel() ** 0.5
                nn.init.normal_(weight, std=deviation, generator=generator)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, std=0.5, generator=generator)
        return model

    return fill


@pytest.fixture(scope="session")
def draw_convolutional(randomized, normal):
    """Draw a network of one or two convolutions and a linear layer, on images up to 6 x 6.

    norm: batch norm in evaluation mode may be drawn.
    """
    kinds = {"relu": nn.ReLU, "tanh": nn.Tanh}
    pools = {"none": nn.Identity, "max": nn.MaxPool2d, "average": nn.AvgPool2d}

    def draw(data, activations=ACTIVATIONS, norm=True):
        channels, outputs = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        size = data.draw(st.tuples(st.integers(4, 6), st.integers(4, 6)))
        bias, seed = data.draw(st.booleans()), data.draw(st.integers(0, 10**6))
        x = normal(4, channels, *size, seed=seed)
        modules = []
        image = x[:1].float()
        for _ in range(data.draw(st.integers(1, 2))):
            most = [min(3, width) for width in image.shape[2:]]
            kernel = tuple(data.draw(st.integers(1, width)) for width in most)
            outer, stride = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
            how = {"stride": stride, "bias": bias}
            how["padding"] = tuple(data.draw(st.integers(0, width - 1)) for width in kernel)
            here = [nn.Conv2d(image.shape[1], outer, kernel, **how)]
            if norm and data.draw(st.booleans()):
                here.append(nn.BatchNorm2d(here[0].out_channels))
            here.append(kinds[data.draw(st.sampled_from(activations))]())
            image = nn.Sequential(*here).eval()(image)
            if min(image.shape[2:]) > 1:
                here.append(pools[data.draw(st.sampled_from(sorted(pools)))](2))
                image = here[-1](image)
            modules += here
        modules += [nn.Flatten(), nn.Linear(image[0].numel(), outputs, bias=bias)]
        model = randomized(nn.Sequential(*modules), seed)
        return Network(model, x, x[0].numel(), outputs, bias)

    return draw


@pytest.fixture(scope="session")
def draw_sequential(randomized, normal):
    """Draw a network whose linear layers see a few tokens each, with a linear layer at the end."""

    def draw(data):
        tokens, width = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
        inner, outputs = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 3))
        bias, seed = data.draw(st.booleans()), data.draw(st.integers(0, 10**6))
        model = nn.Sequential(
            nn.Linear(width, inner, bias=bias),
            data.draw(st.sampled_from([nn.ReLU, nn.Tanh]))(),
            nn.Linear(inner, 3, bias=bias),
            nn.Flatten(),
            nn.Linear(3 * tokens, outputs, bias=bias),
        )
        x = normal(4, tokens, width, seed=seed)
        return Network(randomized(model, seed), x, tokens * width, outputs, bias)

    return draw


@pytest.fixture(scope="session")
def draw_any(draw_network, draw_convolutional, draw_sequential):
    """Draw a network of any of the three kinds."""

    def draw(data):
        kinds = [draw_network, draw_convolutional, draw_sequential]
        return kinds[data.draw(st.integers(0, 2))](data)

    return draw


def drawn_by(name):
    """A fixture: sixty networks as hypothesis draws them, or as many as its profile says."""

    @pytest.fixture(scope="session")
    def drawn(request):
        draw, networks = request.getfixturevalue(name), []
        count = min(60, settings.default.max_examples)

        @settings(max_examples=count, deadline=None, derandomize=True, database=None)
        @given(data=st.data())
        def collect(data):
            networks.append(draw(data))

        collect()
        return networks

    return drawn


linear_networks = drawn_by("draw_network")
convolutional_networks = drawn_by("draw_convolutional")
sequential_networks = drawn_by("draw_sequential")
"""Drawn and measured once for all laws."""


@pytest.fixture(scope="session")
def networks(linear_networks, convolutional_networks, sequential_networks):
    """Those of the three kinds."""
    return [*linear_networks, *convolutional_networks, *sequential_networks]
