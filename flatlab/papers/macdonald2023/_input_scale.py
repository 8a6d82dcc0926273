"""Claims about networks on inputs of three scales: which grows more, sharpness or Jacobian norm."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from flatlab.claims import Claim, Claims, Evidence
from flatlab.claims.evidence import Array, series
from flatlab.claims.missing import attempt, enough
from flatlab.stats import Estimate, Verdict, every, undefined
from flatlab.stats.trends import difference

GRID = "input-scale-grid"
SCALES = (0.5, 1.0, 1.5)
SHARPNESS, JACOBIAN, FEATURES = "hessian_lambda_max", "softmax_jacobian_norm", "feature_norm"


def growth(curves: Array) -> Array:
    """The largest value in training over the value at the start: (runs, checkpoints) -> (runs)."""
    return curves.max(axis=1) / curves[:, 0]


def highest(curves: Array) -> Array:
    """The largest value in training: (runs, checkpoints, ...) -> (runs)."""
    return curves.reshape(len(curves), -1).max(axis=1)


def steps(
    e: Evidence, activation: str, name: str, statistic: Callable[[Array], Array], label: str
) -> list[Estimate]:
    """How much larger a statistic is at each scale than at the next smaller one."""
    pairs = list(pairwise(SCALES))
    names = [f"{label}(scale {b:g}) - {label}(scale {a:g}); {activation}" for a, b in pairs]

    def found() -> list[Estimate]:
        of = {}
        for scale in SCALES:
            runs = e.runs(GRID, {"activation": activation, "scale": scale})
            enough(runs.sizes["run"], GRID, f"networks of {activation} at scale {scale:g}")
            of[scale] = statistic(series(GRID, runs, name))
        return [difference(text, of[b], of[a]) for text, (a, b) in zip(names, pairs, strict=True)]

    return attempt(found, lambda reason: [undefined(text, reason) for text in names])


def not_converged(e: Evidence) -> dict[str, object]:
    """How many of the eigenvalues were not reached by their iteration."""
    converged = e.values(GRID, "hessian_converged")
    of = np.isfinite(converged)
    return {
        "quantity": f"the iteration for an eigenvalue converged; {GRID}",
        "violations": int((converged[of] == 0).sum()),
        "of": int(of.sum()),
        "n": len(converged),
    }


def claims(activation: str, source: str) -> Claims:
    """The claims about the figure of one activation."""

    def jacobian(e: Evidence) -> Verdict:
        return every(s < 0 for s in steps(e, activation, JACOBIAN, growth, "growth of J"))

    def sharpness(e: Evidence) -> Verdict:
        # "less severe increase" may mean the ratio or the height; the start differs too
        grown = steps(e, activation, SHARPNESS, growth, "growth of lambda_max")
        largest = steps(e, activation, SHARPNESS, highest, "max lambda_max")
        verdict = every(s > 0 for s in grown) | every(s > 0 for s in largest)
        return attempt(lambda: verdict.reporting(not_converged(e)), lambda _: verdict)

    def features(e: Evidence) -> Verdict:
        # of hidden layers: the features of the first layer are the inputs
        largest = steps(e, activation, FEATURES, lambda c: highest(c[:, :, 1:]), "max |X|")
        return every(s > 0 for s in largest)

    scales = "at scale 0.5, 1, 1.5"
    return {
        "c1": Claim(f"growth of the Jacobian norm falls: {scales}", source, jacobian),
        "c2": Claim(f"growth or maximum of lambda_max(H) rises: {scales}", source, sharpness),
        "c3": Claim(f"spectral norm of the hidden features rises: {scales}", source, features),
    }
