"""Finds out on two samples, before anything is measured, what the rules cover in a network."""

from collections import Counter, defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node, get_gradient_edge

from flatlab.derivatives.guard import MeasureError, check_mode
from flatlab.derivatives.layers import MATRICES, RULED, base_of
from flatlab.derivatives.record import Use, recorded

VIEWS = ("CloneBackward0", "ViewBackward0", "UnsafeViewBackward0")
"""Nodes of the graph that change neither the numbers nor their order."""

POINTWISE = (
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus),
    *(nn.Dropout, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
)
"""Modules without parameters that are known to keep samples apart."""

NOT_CONNECTED = (
    "the outputs are not connected to the inputs by gradients; remove detach and no_grad from the "
    "network's forward"
)


@dataclass(frozen=True)
class Findings:
    """layers: names of the linear and convolution layers in the order of their first use.
    modules: the modules that have rules: these layers and normalizations.
    generic: trainable parameters that no rule covers.  unused: those the outputs do not depend on.
    frozen: parameters that do not require gradients.  excluded: layers left out, with the reason.
    finite: whether all weights and the outputs of these samples are finite.
    direct: whether only the first layer reads the inputs, unchanged, so that J = J^1.
    outputs: N.  input_numbers: M.  numbers: of inputs and outputs of all layers for one sample.
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
    input_numbers: int
    numbers: int


def probe(model: nn.Module, inputs: Tensor) -> Findings:
    """Run the first two samples, and refuse what cannot be measured exactly."""
    two = _two(inputs)
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, RULED) and isinstance(getattr(module, "weight", None), Tensor)
    }
    with recorded(modules, check=_follows_its_rule) as uses:
        outputs = run(model, two)
    known = _checked(model, two, outputs)
    parameters = dict(model.named_parameters())
    finite = all(is_finite(tensor) for tensor in (outputs, *parameters.values()))
    reasons = [""] * len(uses) if known or not finite else _first_sample_alone(outputs, two, uses)
    own = ["" if use.plain else "its forward is not that of its base class" for use in uses]
    found = zip(uses, reasons, own, strict=True)
    excluded = {use.name: first or second for use, first, second in found if first or second}
    kept = [use for use in uses if use.name not in excluded]
    layers = list(dict.fromkeys(use.name for use in kept if isinstance(use.module, MATRICES)))
    if not layers:
        raise MeasureError("the network has no linear or convolution layer that could be measured")
    first, *again = (use for use in kept if use.name == layers[0])
    in_graph = _uses_in_graph(outputs)
    covered = _covered(kept, in_graph)
    unused = {name for name, p in parameters.items() if not in_graph[id(p)]}
    uncalled = [name for name in modules if name not in {*layers, *excluded}]
    excluded |= dict.fromkeys(uncalled, "it is not called as a module")
    trainable = [name for name, parameter in parameters.items() if parameter.requires_grad]
    return Findings(
        layers=layers,
        modules={name: modules[name] for name in dict.fromkeys(use.name for use in kept)},
        generic=[n for n in trainable if n not in unused and id(parameters[n]) not in covered],
        unused=[name for name in trainable if name in unused],
        frozen=[name for name in parameters if name not in trainable],
        excluded={n: r for n, r in excluded.items() if isinstance(modules[n], MATRICES)},
        finite=finite,
        direct=in_graph[id(two)] == 1 and not again and _leads_to(first, two),
        outputs=outputs.shape[1],
        input_numbers=two[0].numel(),
        numbers=two[0].numel() + sum(use.x.numel() + use.numbers for use in kept) // 2,
    )


def check(model: nn.Module, inputs: Tensor) -> None:
    """Refuse networks that are not a function of each sample alone; no rules are needed."""
    check_mode(model)
    two = _two(inputs)
    outputs = run(model, two.clone())
    if not _checked(model, two.clone(), outputs) and is_finite(outputs):
        _first_sample_alone(outputs, two, [])


def is_finite(tensor: Tensor) -> bool:
    """Whether all numbers are finite, in one pass and without a copy."""
    return bool(torch.linalg.vector_norm(tensor.detach(), float("inf")).isfinite())


def run(model: nn.Module, inputs: Tensor) -> Tensor:
    """The outputs; a `MeasureError` if the inputs do not fit the network."""
    try:
        return model(inputs)
    except (RuntimeError, ValueError, TypeError) as error:
        if "out of memory" in str(error) or "DefaultCPUAllocator" in str(error):
            raise
        shape = tuple(inputs.shape[1:])
        raise MeasureError(f"the network does not accept inputs {shape}: {error}") from error


def _two(inputs: Tensor) -> Tensor:
    two = inputs[:2] if len(inputs) > 1 else torch.cat([inputs, inputs])
    return two.detach().clone().requires_grad_()


def _checked(model: nn.Module, inputs: Tensor, outputs: object) -> bool:
    """Whether all modules are known to keep samples apart; refuses outputs of no use."""
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != len(inputs):
        raise MeasureError(
            f"the network maps {len(inputs)} samples to {shape}, not to ({len(inputs)}, outputs); "
            "wrap it in a module that returns one vector per sample"
        )
    if not outputs.requires_grad:
        raise MeasureError(NOT_CONNECTED)
    known = all(map(_keeps_samples_apart, model.modules()))
    if not known and not _equal(outputs, run(model, inputs)):
        raise MeasureError(
            "two passes of the network differ: it draws at random; call model.eval(), and pass "
            "training=self.training to functional dropout"
        )
    return known


def _equal(first: Tensor, second: Tensor) -> bool:
    return bool(torch.isclose(first, second, rtol=1e-5, atol=1e-6, equal_nan=True).all())


def _keeps_samples_apart(module: nn.Module) -> bool:
    """Whether a module is known to treat each sample on its own, in evaluation mode."""
    if type(module) is nn.Flatten:
        return module.start_dim == 1
    return type(module) in (nn.Sequential, *RULED, *POINTWISE)


def _first_sample_alone(outputs: Tensor, inputs: Tensor, uses: list[Use]) -> list[str]:
    """For each use, why the first half of its rows is not the first sample's; "" if it is.

    Refuses a network in which the outputs of one sample depend on the other sample.
    """
    generator = torch.Generator().manual_seed(0)
    direction = torch.randn(outputs.shape[1], generator=generator).to(outputs)
    edges = [get_gradient_edge(inputs), *(use.out for use in uses)]
    of_input, *of_uses = torch.autograd.grad(
        outputs[0] @ direction, edges, allow_unused=True, retain_graph=True
    )
    if of_input is None:
        raise MeasureError(NOT_CONNECTED)
    (of_other,) = torch.autograd.grad(outputs[1] @ direction, edges[:1], retain_graph=True)
    if of_input[1].any() or of_other[0].any():
        raise MeasureError(
            "the outputs of one sample depend on another sample of the batch; nothing per sample "
            "is defined. If a layer uses statistics of the batch, call model.eval()"
        )
    return [_why_not_apart(use, gradient) for use, gradient in zip(uses, of_uses, strict=True)]


def _why_not_apart(use: Use, gradient: Tensor | None) -> str:
    if gradient is None:
        return "the outputs do not depend on it"
    half, odd = divmod(len(gradient), 2)
    rows = len(use.x) == len(gradient) and use.x.ndim > 1 and not odd
    return "" if rows and not gradient[half:].any() else "its rows do not belong to one sample each"


def _follows_its_rule(module: nn.Module, x: Tensor, output: Tensor) -> bool:
    base = base_of(module)
    if type(module).forward is base.forward:
        return True
    with torch.no_grad():
        expected = base.forward(module, x)
    return expected.shape == output.shape and _equal(expected, output)


def _uses_in_graph(outputs: Tensor) -> Counter[int]:
    """How often the computation of the outputs uses each leaf, by identity."""
    uses: Counter[int] = Counter()
    seen: set[Node] = set()
    todo = [get_gradient_edge(outputs).node]
    while todo:
        for node, _ in todo.pop().next_functions:
            if (leaf := getattr(node, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif node is not None and node not in seen:
                seen.add(node)
                todo.append(node)
    return uses


def _covered(uses: list[Use], in_graph: Counter[int]) -> set[int]:
    """Identities of the parameters that the graph uses just as often as layers with rules do."""
    roles: defaultdict[int, list[bool]] = defaultdict(list)  # of each use: is it a matrix?
    for use in uses:
        for name, parameter in use.module.named_parameters(recurse=False):
            roles[id(parameter)].append(name == "weight" and isinstance(use.module, MATRICES))
    return {key for key, of in roles.items() if len(of) == in_graph[key] and len(set(of)) == 1}


def _leads_to(use: Use, inputs: Tensor) -> bool:
    """Whether a layer reads the inputs themselves, possibly flattened."""
    node: Node | None = use.into.node
    while node is not None and node.name() in VIEWS:
        node = node.next_functions[0][0]
    return getattr(node, "variable", None) is inputs
