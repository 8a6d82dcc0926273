"""The same work by other libraries, tried: `python -m benchmarks.peers_at_work [network ...]`.

S and G (half-mse, exact), traces of the Hessian and of Gauss-Newton, and the largest eigenvalue of
the Hessian (cross-entropy), of 8 samples. Each cell is a process of its own, with a limit on time
and memory; what a library cannot do is shown with its own error. Prints a table
of docs/benchmarks.md.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import flatlab
from flatlab.networks import lenet5, mlp

SAMPLES, SECONDS, GB = 8, 60, 8
NETWORKS = [f"{name}-{n}" for name in ("mlp", "lenet5", "resnet18") for n in (10, 1000)]
Data = tuple[nn.Module, Tensor, Tensor]


def problem(name: str) -> Data:
    """A network with the number of outputs in its name, samples, and classes."""
    torch.manual_seed(0)
    kind, outputs = name.split("-")
    classes = torch.arange(SAMPLES)
    if kind == "mlp":
        model = mlp.build((784,), int(outputs), mlp.Options(activation="relu", width=256))
        return model.eval(), torch.rand(SAMPLES, 784), classes
    images = torch.rand(SAMPLES, 3, 32, 32)
    if kind == "lenet5":
        options = lenet5.Options(activation="relu")
        return lenet5.build((3, 32, 32), int(outputs), options).eval(), images, classes
    import timm

    return timm.create_model("resnet18", num_classes=int(outputs)).eval(), images, classes


def ours(data: Data, family: str, names: list[str], **options: Any) -> list[float]:
    if family != "geometry":
        options["loss"] = "cross-entropy"
    report = flatlab.measure(*data, families=family, **options)
    return [float(report[name].squeeze()) for name in names]


def by_torch(data: Data) -> list[float]:
    from torch.func import functional_call, jacrev

    model, inputs, _ = data
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def f(theta: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(model, theta, (x[None],))[0]

    s = g = 0.0
    for x in inputs:
        of_weights, of_input = jacrev(f, argnums=(0, 1))(parameters, x)
        s += sum(float(j.square().sum()) for j in of_weights.values())
        g += float(of_input.square().sum())
    return [s / len(inputs), g / len(inputs)]


def by_backpack(data: Data, loss: nn.Module, scale: float) -> list[float]:
    import backpack
    from backpack.extensions import DiagGGNExact

    model, inputs, classes = data
    model = backpack.extend(model)
    outputs = model(inputs)
    target = torch.zeros_like(outputs) if isinstance(loss, nn.MSELoss) else classes
    with backpack.backpack(DiagGGNExact()):
        backpack.extend(loss)(outputs, target).backward()
    return [scale * sum(float(p.diag_ggn_exact.sum()) for p in model.parameters())]


def by_curvlinops(data: Data, what: str, matrix: str) -> list[float]:
    import curvlinops
    from scipy.sparse.linalg import eigsh

    model, x, y = data
    kind = {"hessian": curvlinops.HessianLinearOperator, "ggn": curvlinops.GGNLinearOperator}
    parameters = [*model.parameters()]
    linear = kind[matrix](model, nn.CrossEntropyLoss(), parameters, [(x, y)])
    if what == "trace":
        return [float(curvlinops.hutchpp_trace(linear, 99))]
    return [float(eigsh(linear.to_scipy(), k=1, which="LA", tol=1e-4)[0][0])]


def by_eigenthings(data: Data, what: str, matrix: str) -> list[float]:
    import hessian_eigenthings as peer

    model, x, y = data
    loss = nn.functional.cross_entropy
    linear: Any = peer.HessianOperator(model, [(x, y)], peer.supervised_loss(loss))
    if matrix == "ggn":
        of_output = peer.supervised_loss_of_output(loss)
        linear = peer.GGNOperator(model, [(x, y)], peer.supervised_forward, of_output)
    if what == "trace":
        return [float(peer.trace(linear, num_matvecs=99, seed=0).estimate)]
    return [
        float(peer.lanczos(linear, k=1, max_iter=100, which="LA", tol=1e-4, seed=0).eigenvalues[0])
    ]


SUMS = {"quantities": ["sharpness", "g"]}
CELLS: dict[str, dict[str, Callable[[Data], list[float]]]] = {
    "S, G": {
        "flatlab": lambda d: ours(d, "geometry", ["sharpness", "g"], **SUMS),
        "flatlab, 3 %": lambda d: ours(d, "geometry", ["sharpness", "g"], accuracy=0.03, **SUMS),
        "torch.func": by_torch,
        "backpack, S alone": lambda d: by_backpack(d, nn.MSELoss(reduction="sum"), 0.5 / SAMPLES),
    },
    "trace of H": {
        "flatlab, 3 %": lambda d: ours(
            d, "flatness", ["hessian_trace"], flatness=["traces"], accuracy=0.03
        ),
        "flatlab, exact": lambda d: ours(
            d, "flatness", ["hessian_trace"], flatness=["traces"], hessian_traces="exact"
        ),
        "curvlinops": lambda d: by_curvlinops(d, "trace", "hessian"),
        "eigenthings": lambda d: by_eigenthings(d, "trace", "hessian"),
    },
    "trace of Gauss-Newton": {
        "backpack": lambda d: by_backpack(d, nn.CrossEntropyLoss(), 1.0),
        "curvlinops": lambda d: by_curvlinops(d, "trace", "ggn"),
        "eigenthings": lambda d: by_eigenthings(d, "trace", "ggn"),
    },
    "λ_max of H": {
        "flatlab": lambda d: ours(d, "hessian", ["hessian_lambda_max"], curvature=["hessian"]),
        "curvlinops": lambda d: by_curvlinops(d, "λ_max", "hessian"),
        "eigenthings": lambda d: by_eigenthings(d, "λ_max", "hessian"),
    },
}


def here(name: str, row: str, library: str) -> str:
    """One cell, computed here: seconds of the processor, and the numbers."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_DATA, (GB * 10**9, GB * 10**9))
    CELLS[row][library](problem(name))  # what a library sets up once is not its work
    data = problem(name)
    start = time.process_time()
    values = CELLS[row][library](data)
    seconds = time.process_time() - start
    return f"{seconds:.2f} s: {', '.join(f'{value:.4g}' for value in values)}"


def cell(name: str, row: str, library: str) -> str:
    """One cell, computed in a process of its own, or its error."""
    command = [sys.executable, "-m", "benchmarks.peers_at_work", "--here", name, row, library]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} s"
    lines = (done.stderr if done.returncode else done.stdout).strip().splitlines()
    return lines[-1][:120] if lines else f"ended with status {done.returncode}"


def main(names: list[str]) -> None:
    print("| network-outputs | work | library | seconds of the processor: numbers, or its error |")
    print("|---|---|---|---|")
    for name in names or NETWORKS:
        for row, libraries in CELLS.items():
            for library in libraries:
                print(f"| {name} | {row} | {library} | {cell(name, row, library)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--here"]:
        print(here(*sys.argv[2:]))
    else:
        main(sys.argv[1:])
