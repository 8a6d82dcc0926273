"""Find out on two samples, before anything is measured, what the rules cover in a network.

Derivatives follow from rules by kind of layer, not from `torch.func`: vmap of jacrev forms the
gradient of every output of every sample in full, where a rule needs the input of a layer and the
derivative at its output (`make bench` compares both). The price is this probe: a network may use
its layers in ways that no rule covers; it must be found out, and goes another way. What was called
shows in the hooks, what was used besides in autograd's graph: a weight that appears there more
often than its layers were called is also used elsewhere.

Derivatives are with respect to the inputs, or for tokens to the output of the first embedding.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge
from torch.nn.modules import module as of_all_modules

from flatlab.core.errors import MIXES, MeasureError, first_line, is_out_of_memory
from flatlab.derivatives.checks.isolation import is_finite
from flatlab.derivatives.per_sample.hooks import Use, differentiable, recorded
from flatlab.derivatives.per_sample.layers import MATRICES, RULED, base_of

POINTWISE = (
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus),
    *(nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
)
"""Modules without parameters that are known to keep samples apart."""

MORE_THAN_ITS_TYPE = "its forward is not that of its base class, or a hook changes what it returns"
RANDOM = (
    "two passes of the network differ: it draws at random; call model.eval(), and pass "
    "training=self.training to functional dropout"
)
NOT_CONNECTED = (
    "the outputs are not connected to the inputs by gradients; remove detach and no_grad from the "
    "network's forward"
)
NO_NUMBERS = (
    "gradients of the network are not finite, and its outputs are: behind torch.where, what is not "
    "chosen has gradients, too; compute it of numbers at which it has some"
)


Call = tuple[str, tuple[int, ...], float]
"""A use of a layer: its name, the shape of a row of its input, rows for each sample."""


@dataclass(frozen=True)
class Findings:
    """What the rules cover in a network.

    layers: names of the linear and convolution layers in the order of their first use.
    modules: the modules that have rules: these layers and normalizations.
    generic: trainable parameters that no rule covers.
    unused: those the outputs do not depend on.
    frozen: parameters that do not require gradients.
    excluded: layers left out, with the reason.
    finite: whether all weights and the outputs of these samples are finite.
    direct: whether only the first layer reads the inputs, unchanged, so that J = J^1.
    outputs: N.
    numbers: of inputs and outputs of all layers for one sample.
    calls: `calls_of` the uses.
    embedding: the name of that whose output derivatives are with respect to; "": the inputs.
    checked: whether what rules give was compared with plain autograd.
    """

    layers: list[str]
    modules: dict[str, nn.Module]
    generic: list[str]
    unused: list[str]
    frozen: list[str]
    excluded: dict[str, str]
    finite: bool
    direct: bool
    outputs: int
    numbers: int
    calls: list[Call]
    embedding: str = ""
    checked: bool = False

    def without(self, model: nn.Module, names: Sequence[str], reason: str) -> "Findings":
        """The same without these modules, whose parameters no rule covers then."""
        theirs = {id(p) for n in names for p in self.modules[n].parameters(recurse=False)}
        known = {*self.unused, *self.frozen}
        generic = [
            name
            for name, parameter in model.named_parameters()
            if name in self.generic or (id(parameter) in theirs and name not in known)
        ]
        layers = [name for name in names if name in self.layers]
        return replace(
            self,
            layers=[name for name in self.layers if name not in names],
            modules={name: module for name, module in self.modules.items() if name not in names},
            generic=generic,
            excluded=self.excluded | dict.fromkeys(layers, reason),
            direct=self.direct and self.layers[0] not in names,
            calls=[call for call in self.calls if call[0] not in names],
        )


def probe(model: nn.Module, inputs: Tensor) -> Findings:
    """Run the first two samples, and refuse what cannot be measured exactly."""
    two = _two(inputs)
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, RULED) and isinstance(getattr(module, "weight", None), Tensor)
    }
    with recorded(modules) as uses, reading(model, two) as source:
        outputs = vectors(run(model, two), len(two))
    leaf = source.leaf
    parameters = dict(model.named_parameters())
    finite = is_finite(outputs, *parameters.values())
    reasons = [""] * len(uses)
    if finite and not all(map(_keeps_samples_apart, model.modules())):
        reasons = _check_samples(model, two, leaf, outputs, uses)
    type_reasons = ["" if _follows_its_rule(use) else MORE_THAN_ITS_TYPE for use in uses]
    of_uses = zip(uses, reasons, type_reasons, strict=True)
    excluded = {use.name: first or second for use, first, second in of_uses if first or second}
    kept = [use for use in uses if use.name not in excluded]
    layers = list(dict.fromkeys(use.name for use in kept if isinstance(use.module, MATRICES)))
    first = [use for use in kept if use.name in layers[:1]]
    in_graph, _ = graph_of(outputs)
    covered = covered_by_rules(kept, in_graph)
    unused = {name for name, p in parameters.items() if not in_graph[id(p)]}
    uncalled = [name for name in modules if name not in {*layers, *excluded}]
    excluded |= dict.fromkeys(uncalled, "it is not called as a module that maps tensor to tensor")
    trainable = [name for name, parameter in parameters.items() if parameter.requires_grad]
    return Findings(
        layers=layers,
        modules={name: modules[name] for name in dict.fromkeys(use.name for use in kept)},
        generic=[n for n in trainable if n not in unused and id(parameters[n]) not in covered],
        unused=[name for name in trainable if name in unused],
        frozen=[name for name in parameters if name not in trainable],
        excluded={n: r for n, r in excluded.items() if isinstance(modules[n], MATRICES)},
        finite=finite,
        direct=in_graph[id(leaf)] == 1 and len(first) == 1 and leads_to(first[0], leaf),
        outputs=outputs.shape[1],
        numbers=leaf[0].numel() + sum(use.x.numel() + use.numbers for use in kept) // 2,
        calls=calls_of(kept, len(two)),
        embedding=source.name,
    )


def calls_of(uses: Sequence[Use], samples: int) -> list[Call]:
    """What must be the same for all samples."""
    return [(use.name, tuple(use.x.shape[1:]), len(use.x) / samples) for use in uses]


def check(model: nn.Module, inputs: Tensor) -> None:
    """Refuse networks that are not a function of each sample alone; no rules are needed.

    Integers have no derivatives: of these, the values alone are compared.
    """
    two = _two(inputs)
    outputs = vectors(run(model, two), len(two))
    if all(map(_keeps_samples_apart, model.modules())) or not is_finite(outputs):
        return
    if inputs.is_floating_point():
        _check_samples(model, two, two, outputs, [])
    elif far_apart(run(model, two[:1])[0], outputs[0]):
        raise MeasureError(MIXES)


def run(model: Callable[[Tensor], Any], inputs: Tensor) -> Tensor:
    """The outputs; `MeasureError` if the inputs, which it may write to, do not fit the network."""
    try:
        return model(inputs.clone())
    except Exception as error:
        if isinstance(error, MeasureError | MemoryError) or is_out_of_memory(error):
            raise
        shape, why = tuple(inputs.shape[1:]), first_line(error)
        raise MeasureError(f"the network does not accept inputs {shape}: {why}") from error


def vectors(outputs: object, samples: int) -> Tensor:
    """The outputs of a network, if they are one vector per sample; `MeasureError` if not."""
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != samples:
        raise MeasureError(
            f"the network maps {samples} samples to {shape}, not to ({samples}, outputs); "
            "wrap it in a module that returns one vector per sample"
        )
    if not outputs.shape[1]:
        raise MeasureError("the network has no outputs: it maps each sample to no numbers")
    return outputs


def _two(inputs: Tensor) -> Tensor:
    two = inputs[:2] if len(inputs) > 1 else torch.cat([inputs, inputs.roll(1, -1)])
    return two.detach().clone().requires_grad_(inputs.is_floating_point())


def far_apart(alone: Tensor, in_batch: Tensor) -> bool:
    """Whether the outputs of a sample differ by more than rounding. What is not finite does not."""
    share = 1e-9 if alone.dtype == torch.float64 else 1e-3
    return bool((alone - in_batch).abs().max() > share * in_batch.abs().max())


def _keeps_samples_apart(module: nn.Module) -> bool:
    """Whether a module is known to treat each sample on its own, in evaluation mode."""
    if module._forward_pre_hooks or not _is_untouched(module):
        return False
    if type(module) is nn.Flatten:
        return module.start_dim == 1
    return type(module) in (nn.Sequential, *RULED, *POINTWISE)


def _is_untouched(module: nn.Module) -> bool:
    """Whether what a module returns is what its class computes."""
    hooks = of_all_modules._global_forward_hooks, of_all_modules._global_forward_pre_hooks
    return not (any(hooks) or module._forward_hooks or "forward" in vars(module))


def _check_samples(
    model: nn.Module, inputs: Tensor, leaf: Tensor, outputs: Tensor, uses: list[Use]
) -> list[str]:
    """For each use, why the first half of its rows is not the first sample's; "" if it is.

    inputs, leaf, outputs: of two samples; leaf is that of their `Source`. Refuses a network in
    which the outputs of one depend on the other, by their derivatives or by their values.
    """
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(outputs.shape[1], generator=generator).to(outputs)
    edges = [get_gradient_edge(leaf), *(use.out for use in uses)]
    with differentiable():
        (of_input, *first), (of_other, *second) = (
            torch.autograd.grad(row @ direction, edges, allow_unused=True, retain_graph=True)
            for row in outputs
        )
    if of_input is None or of_other is None:
        raise MeasureError(NOT_CONNECTED)
    mixed = torch.stack([of_input[1], of_other[0]])
    if mixed.any():
        raise MeasureError(MIXES if is_finite(mixed) else NO_NUMBERS)
    if far_apart(run(model, inputs[:1].detach())[0], outputs[0]):
        raise MeasureError(MIXES)
    return list(map(_why_not_apart, uses, first, second))


def _why_not_apart(use: Use, first: Tensor | None, second: Tensor | None) -> str:
    """first, second: derivatives of the outputs of each sample with respect to the output."""
    if first is None or second is None:
        return "the outputs do not depend on it"
    half, odd = divmod(len(first), 2)
    rows = len(use.x) == len(first) and use.x.ndim > 1 and not odd
    apart = rows and not first[half:].any() and not second[:half].any()
    return "" if apart else "its rows do not belong to one sample each"


def _follows_its_rule(use: Use) -> bool:
    """Whether a layer computes what its base class does, whatever its own class and hooks are.

    Where they are others, they are tried on what it saw and on noise, small and large: what an
    activation does need not show in a single sample.
    """
    module, base = use.module, base_of(use.module)
    if type(module).forward is base.forward and _is_untouched(module):
        return True
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(use.x.shape, generator=generator).to(use.x)
    trials = [use.x, -use.x, *(scale * noise for scale in (1e-2, 1.0, 1e2, 1e4))]
    before, module._forward_pre_hooks = module._forward_pre_hooks, OrderedDict()  # x is behind them
    try:
        with torch.no_grad():
            return all(_same(base.forward(module, x.clone()), module(x.clone())) for x in trials)
    except Exception:  # of whatever the module does with inputs that are not its own
        return False
    finally:
        module._forward_pre_hooks = before


def _same(expected: Tensor, actual: Any) -> bool:
    if not isinstance(actual, Tensor) or actual.shape != expected.shape:
        return False
    return torch.allclose(expected, actual, rtol=1e-5, atol=1e-6, equal_nan=True)


VIEWS = ("CloneBackward0", "ViewBackward0", "UnsafeViewBackward0")
"""Nodes of the graph that change neither the numbers nor their order."""


def graph_of(outputs: Tensor) -> tuple[Counter[int], dict[Node, str]]:
    """How often the outputs' computation uses each leaf, by identity; its operations, by name."""
    uses: Counter[int] = Counter()
    todo = [get_gradient_edge(outputs).node]
    seen = {todo[0]: todo[0].name()}
    while todo:
        for node, _ in todo.pop().next_functions:
            if (leaf := _leaf_at(node)) is not None:
                uses[id(leaf)] += 1
            elif node is not None and node not in seen:
                seen[node] = node.name()
                todo.append(node)
    return uses, seen


def _leaf_at(node: Node | None) -> Tensor | None:
    """The leaf at a node, or behind it where it copies one: `run` gives networks a copy."""
    while node is not None and node.name() == "CloneBackward0":
        node = node.next_functions[0][0]
    return getattr(node, "variable", None)


def leads_to(use: Use, inputs: Tensor) -> bool:
    """Whether a layer reads the inputs themselves, possibly flattened."""
    node: Node | None = use.into.node
    while node is not None and node.name() in VIEWS:
        node = node.next_functions[0][0]
    return getattr(node, "variable", None) is inputs


def covered_by_rules(uses: list[Use], in_graph: Counter[int]) -> set[int]:
    """Identities of the parameters that the graph uses just as often as layers with rules do."""
    roles: defaultdict[int, list[bool]] = defaultdict(list)  # of each use: is it a matrix?
    for use in uses:
        for name in ("weight", "bias"):
            if (parameter := use.module._parameters.get(name)) is not None:
                roles[id(parameter)].append(name == "weight" and isinstance(use.module, MATRICES))
    return {key for key, of in roles.items() if len(of) == in_graph[key] and len(set(of)) == 1}


NO_EMBEDDING = (
    "inputs are integers and the network calls no torch.nn.Embedding: derivatives with respect to "
    "them need real numbers; measure the part of the network behind the embedding"
)


@dataclass
class Source:
    """Of one forward pass, when it is done.

    leaf: the tensor that derivatives arrive at, (samples, ...).
    values: its numbers: those of the inputs, or of the embedding; 0 for masks and padding.
    name: of the embedding; "" for real inputs.
    """

    leaf: Any = None
    values: Any = None
    name: str = ""


@contextmanager
def reading(model: nn.Module, inputs: Tensor) -> Iterator[Source]:
    """The source of a forward pass of these inputs, which is run while the context lasts.

    Real inputs must require gradients. To the output of the first embedding that tokens reach a
    tensor of zeros is added, which changes no number; the embedding keeps its own derivatives.
    Raises `MeasureError` at the end for tokens that reach none.
    """
    seen = getattr(model, "flatlab_seen", None)  # of a network that takes masks

    def unmasked(values: Tensor) -> Tensor:
        return values if seen is None else seen(inputs.detach(), values.detach())

    if inputs.is_floating_point():
        yield Source(inputs, unmasked(inputs).detach())
        return
    source = Source()

    def hook(name: str, module: nn.Module, arguments: Any, output: Tensor) -> Tensor | None:
        if source.leaf is not None:
            return None
        source.leaf = torch.zeros_like(output, requires_grad=True)
        source.values, source.name = unmasked(output).detach(), name
        return output + source.leaf

    with ExitStack() as handles:
        for name, module in model.named_modules():
            if isinstance(module, nn.Embedding):
                handles.enter_context(module.register_forward_hook(partial(hook, name)))
        yield source
    if source.leaf is None:
        raise MeasureError(NO_EMBEDDING)
