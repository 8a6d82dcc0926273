"""The inputs of layers as functions of the network's input, with derivatives through all paths.

x^l is the input of layer l, flattened, of several uses concatenated; A^l = dx^l/dx (M_l x M), and
J^l = df/dx^l through all that reads x^l. One forward derivative gives A^l v of all layers at once.
Where an operation has none, A^l v is the derivative of the linear map u -> A^l^T u.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn.attention import SDPBackend, sdpa_kernel

from flatlab.core.errors import is_out_of_memory
from flatlab.derivatives.checks.isolation import is_finite
from flatlab.derivatives.per_sample.hooks import differentiable, recorded, rows_of_jacobian
from flatlab.derivatives.per_sample.probe import leads_to, run


@contextmanager
def inputs_read(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, list[Tensor]]]:
    """What each of these modules is given while the context lasts, in the order of its uses."""
    read: dict[str, list[Tensor]] = {name: [] for name in modules}

    def before(name: str, module: nn.Module, arguments: Any, named: dict[str, Any]) -> None:
        x: Tensor = arguments[0] if arguments else named["input"]
        read[name].append(x.clone())  # what reads it next may change it in place

    with ExitStack() as handles:
        for name, module in modules.items():
            handles.enter_context(
                module.register_forward_pre_hook(partial(before, name), with_kwargs=True)
            )
        yield read


def inputs_of_layers(
    model: nn.Module, inputs: Tensor, names: Iterable[str], size: int
) -> tuple[dict[str, Tensor], bool]:
    """The input of each of these layers, (samples, numbers), and whether the outputs are finite.

    size: samples at a time.

    Inputs of several uses of a layer are side by side.
    """
    modules, parts, finite = {name: model.get_submodule(name) for name in names}, [], True
    for chunk in inputs.split(size):
        with inputs_read(modules) as read:
            finite = is_finite(run(model, chunk)) and finite
        rows = ([x.detach().reshape(len(chunk), -1) for x in uses] for uses in read.values())
        parts.append([torch.cat(of_uses, 1) for of_uses in rows])
    whole = map(torch.cat, zip(*parts, strict=True))
    return dict(zip(modules, whole, strict=True)), finite


class FeatureMaps:
    """The inputs x^l of some layers, and the outputs, as functions of the inputs of a network.

    model: the network, each sample on its own.
    modules: the layers by name, in the order in which x^l is returned.
    unchanged: of these, layers whose input is x itself, so that A^l v = v.
    """

    def __init__(
        self, model: nn.Module, modules: Mapping[str, nn.Module], unchanged: Iterable[str] = ()
    ) -> None:
        self.model, self.modules, self.unchanged = model, modules, {*unchanged}
        self._forward = True  # until an operation turns out to have no forward derivative

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """x^l of each layer, (samples, M_l), and behind them the outputs (samples, N)."""
        with sdpa_kernel(SDPBackend.MATH), inputs_read(self.modules) as read:
            outputs = run(self.model, x)
        features = (
            torch.cat([each.reshape(len(x), -1) for each in uses], 1) for uses in read.values()
        )
        return (*features, outputs)

    def along(self, x: Tensor, tangents: Tensor) -> tuple[Tensor, ...]:
        """A^l v of each layer and J v: (directions, samples, M_l) each.

        x: (samples, ...).
        tangents: v, (directions, samples, ...); one for all samples where it has size 1 there.
        """
        if self.unchanged:
            others = {n: layer for n, layer in self.modules.items() if n not in self.unchanged}
            *moved, change = FeatureMaps(self.model, others).along(x, tangents)
            found = dict(zip(others, moved, strict=True))
            same = tangents.expand(-1, *x.shape).flatten(2)
            return (*(found.get(name, same) for name in self.modules), change)
        if self._forward:

            def derivative(tangent: Tensor) -> tuple[Tensor, ...]:
                return torch.func.jvp(self.__call__, (x,), (tangent.expand_as(x).contiguous(),))[1]

            try:
                with torch.no_grad(), warnings.catch_warnings():
                    # of operations that torch loops over, and of its own first use
                    warnings.filterwarnings("ignore", message="There is a performance drop")
                    warnings.filterwarnings("ignore", message=".torch.jit.script. is deprecated")
                    return torch.func.vmap(derivative, randomness="same")(tangents)
            except (RuntimeError, NotImplementedError) as error:
                if is_out_of_memory(error):
                    raise
                self._forward = False
        return self._twice_back(x, tangents)

    def _twice_back(self, x: Tensor, tangents: Tensor) -> tuple[Tensor, ...]:
        """The same by two backward passes: the second is that of u -> A^l^T u."""
        x = x.detach().requires_grad_()
        features = self(x)
        reached = [k for k, each in enumerate(features) if each.requires_grad]
        duals = [torch.zeros_like(features[k], requires_grad=True) for k in reached]
        kept: dict[str, Any] = {"retain_graph": True, "materialize_grads": True}
        with differentiable():
            (pulled,) = torch.autograd.grad(
                [features[k] for k in reached], x, duals, create_graph=True, materialize_grads=True
            )
            rows = [
                torch.autograd.grad(pulled, duals, tangent.expand_as(x), **kept)
                for tangent in tangents
            ]
        found = dict(zip(reached, zip(*rows, strict=True), strict=True))
        zeros = [each.detach().new_zeros(len(tangents), *each.shape) for each in features]
        return tuple(
            torch.stack(found[k]).detach() if k in found else zeros[k] for k in range(len(features))
        )

    def rows(self, x: Tensor) -> tuple[Tensor, ...]:
        """A^l of each layer by one backward pass for each of its rows: (samples, M_l, M)."""
        x = x.detach().requires_grad_()
        *features, _ = self(x)
        edges = [get_gradient_edge(x)]
        return tuple(
            rows_of_jacobian(each, edges)[0].transpose(0, 1).flatten(2)
            if each.requires_grad
            else x.detach().new_zeros(*each.shape, x[0].numel())
            for each in features
        )


def jacobians_of_outputs(
    model: nn.Module, x: Tensor, modules: Mapping[str, nn.Module]
) -> tuple[dict[str, Tensor], set[str]]:
    """J^l of each layer, (samples, N, M_l), and the layers whose input is x itself.

    x: (samples, ...).
    modules: the layers, by name.
    """
    x = x.detach().clone().requires_grad_()
    with recorded(modules, fast_input_gradient=True) as uses:
        outputs = run(model, x)
    # what a layer reads is copied for it: before the copy, derivatives through all readers arrive
    before = [use.into.node.next_functions[0] for use in uses]
    rows = rows_of_jacobian(
        outputs, [GradientEdge(node, k) for node, k in before if node is not None]
    )
    by_layer: dict[str, list[Tensor]] = {name: [] for name in modules}
    for use, row in zip(uses, rows, strict=True):
        by_layer[use.name].append(row.reshape(len(row), len(x), -1).transpose(0, 1))
    once = [use for use in uses if len(by_layer[use.name]) == 1]
    unchanged = {use.name for use in once if leads_to(use, x)}
    return {name: torch.cat(parts, 2) for name, parts in by_layer.items()}, unchanged
