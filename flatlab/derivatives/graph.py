"""What autograd's graph says of a computation."""

from collections import Counter

from torch import Tensor
from torch.autograd.graph import Node, get_gradient_edge

from flatlab.derivatives.hooks import Use

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
