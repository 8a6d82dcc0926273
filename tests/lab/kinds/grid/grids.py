"""The papers' grid of perceptrons, changed."""

import copy

from tests.lab.kinds.experiments import content_of

GRID = content_of("mlp-grid")
GRID["scales"]["paper"] = {}  # its own blocks of seeds

DELETE = object()


def changed(path: tuple, value: object) -> dict:
    """The grid with one key changed or deleted."""
    grid = copy.deepcopy(GRID)
    place = grid
    for key in path[:-1]:
        place = place[key]
    if value is DELETE:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return grid
