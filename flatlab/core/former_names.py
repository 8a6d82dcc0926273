"""The names that modules had before, by which fingerprints and the imports of studies know them.

A module that only moves computes what it computed: fingerprints hash it, and what it imports, under
its former name, so that nothing runs again. A study that imports a former name gets the module of
today, and one sentence with its name.
"""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOMS = {
    "core": "plan.options plan.paths plan.registry plan.run_records plan.schema plan.studies store "
    "execution.own_code:user_code derivatives.forecast:progress jobs.progress jobs.resume_state "
    "derivatives.errors",
    "lab.figures": "plotting.axes:style plotting.quantities:labels",
    "lab.tables": "claims.result_tables:networks",
    "lab": "claims.claim:claims claims.registry:claims claims.verify:claims claims jobs plan "
    "tables train experiments:kinds plotting:figures publication:publish",
    "api": "metrics._directions:landscape metrics._landscape metrics._measure metrics._tracker",
    "inputs": "execution.own_samples:files metrics._adapted metrics._batches metrics._losses "
    "metrics._prepared:prepare losses._function:loss_forms",
    "measuring": "metrics._checked:preflight metrics._loss_values:evaluate "
    "metrics._measure_pack:grid metrics._measure_transformed:transformed "
    "metrics._measure_zoo:networks metrics._quantity metrics._stacked:dataset",
    "derivatives.checks": "derivatives.comparisons:derivative_check "
    "derivatives.derivative_check derivatives.differences "
    "derivatives.isolation",
    "derivatives.estimates": "derivatives.random_directions derivatives.random_perturbations "
    "derivatives.random_traces",
    "derivatives.jacobians": "derivatives.feature_maps derivatives.golub_kahan "
    "derivatives.layer_norms:norms derivatives.norms",
    "derivatives.per_sample": "derivatives.autograd_check:forward_pass derivatives.convolution "
    "derivatives.engine derivatives.forward_pass derivatives.graph:probe derivatives.hooks "
    "derivatives.layers derivatives.memory derivatives.output_blocks:engine "
    "derivatives.parameters:values derivatives.per_sample:values derivatives.probe "
    "derivatives.singular_values derivatives.source:probe",
    "derivatives.second_order": "derivatives.hessian_products derivatives.krylov:lanczos "
    "derivatives.lanczos derivatives.layer_curvature derivatives.matrices "
    "derivatives.piecewise:second_pass derivatives.quadrature:lanczos "
    "derivatives.recomposed:second_pass derivatives.sample_gradients:matrices "
    "derivatives.second_pass derivatives.traces",
}
"""Former names, without `flatlab.`, by the room where they lie; behind a colon: the name there."""


def _moves() -> dict[str, str]:
    moves = {"flatlab.metrics": "flatlab.families", "flatlab.execution": "flatlab.lab.kinds"}
    for name in ("measurement", "networks"):
        moves[f"flatlab.execution.own_{name}"] = "flatlab.lab.kinds._user_networks"
    for name in ("own_networks", "zoo"):
        moves[f"flatlab.tables.{name}"] = "flatlab.lab.tables.runs"
    for name in ("auto_pgd", "batch_loss"):
        moves[f"flatlab.derivatives.{name}"] = "flatlab.families.sharpness.auto_pgd"
    for room, names in ROOMS.items():
        for name in names.split():
            before, _, after = name.partition(":")
            after = after or before.rpartition(".")[2].lstrip("_")
            moves[f"flatlab.{before}"] = f"flatlab.{room}.{after}"
    return moves


CURRENT = _moves()
"""Today's names by former ones; what lies below a module or a package moved with it."""
FORMER = {name: former for former, name in CURRENT.items()}


def _mapped(name: str, names: dict[str, str]) -> str:
    start, rest = name, ""
    while start:
        if start in names:
            return names[start] + rest
        start, dot, last = start.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return name


def former(module: str) -> str:
    """The name by which fingerprints know a module."""
    return _mapped(module, FORMER)


def current(module: str) -> str:
    """Where a module lies today that a study imports by its former name, or by today's."""
    if any(f"{module}.".startswith(f"flatlab.{room}.") for room in ROOMS):
        return module  # one of today's, although it may begin like a former one
    return _mapped(module, CURRENT)


class _Finder(MetaPathFinder, Loader):
    """Imports the module of today in place of a former one."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if current(name) != name else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        name = current(spec.name)
        parent, _, last = spec.name.rpartition(".")
        if name != f"{current(parent)}.{last}":  # else the sentence of its folder says it
            warnings.warn(f"{spec.name} is now {name}", FutureWarning, stacklevel=2)
        module = importlib.import_module(name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the machinery has replaced it
        if not hasattr(module, "__path__"):  # of what was a package, whose modules have names, too
            module.__path__ = []


sys.meta_path.insert(0, _Finder())
