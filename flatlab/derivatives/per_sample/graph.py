"""What autograd's graph says of a computation."""

from collections import Counter, defaultdict

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from flatlab.derivatives.per_sample.hooks import Use
from flatlab.derivatives.per_sample.layers import MATRICES

VIEWS = ("CloneBackward0", "ViewBackward0", "UnsafeViewBackward0")
"""Nodes of the graph that change neither the numbers nor their order."""


def graph_of(outputs: Tensor) -> tuple[Counter[int], set[str]]:
    """How often the outputs' computation uses each leaf, by identity; names of its operations."""
    uses: Counter[int] = Counter()
    todo = [get_gradient_edge(outputs).node]
    seen: set[Node] = set(todo)
    while todo:
        for node, _ in todo.pop().next_functions:
            if (leaf := getattr(node, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif node is not None and node not in seen:
                seen.add(node)
                todo.append(node)
    return uses, {node.name() for node in seen}


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
