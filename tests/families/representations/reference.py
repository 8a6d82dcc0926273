"""Every quantity of `representations` by its definition, in numpy, from whole Jacobians.

It knows nothing of the package's rules: autograd differentiates each number that a layer reads, of
one sample at a time, and each output as for `geometry`.
"""

import numpy as np
import torch
from numpy.linalg import norm

from tests.families.geometry import reference as geometry


def one_sample(model, sample, layers):
    """x^l, A^l and J^l by layer, J, and df/dW_1 of one sample."""
    named = {name: model.get_submodule(name) for name in layers}
    found = geometry.one_sample(model, named, sample)
    found.a = {}
    for name, tensors in found.read.items():
        numbers = torch.cat([tensor.flatten() for tensor in tensors])
        found.a[name] = found.rows([found.sample], numbers)[0]
        found.j[name] = np.concatenate(found.rows(tensors), 1)  # also around the layer
    found.of_first = found.of_parameter[id(named[layers[0]].weight)]
    found.sharpness = sum(norm(each) ** 2 for each in found.of_parameter.values())
    return found


def samples_of(model, inputs):
    """The same, of the layer that holds the first parameter."""
    first = next(name for name, _ in model.named_parameters()).rpartition(".")[0]
    return [one_sample(model, sample, [first]) for sample in inputs]


def local(samples, layers, outputs):
    """The quantities of local compression."""
    squares, largest, normalized, dimensions, volumes, ranks = ([] for _ in range(6))
    for name in layers:
        singular = [np.linalg.svd(s.a[name], compute_uv=False) for s in samples]
        rank = min(outputs, *samples[0].a[name].shape)
        squares.append([norm(s.a[name]) ** 2 for s in samples])
        largest.append([each[0] for each in singular])
        lengths = [norm(s.x0) / norm(s.x[name]) for s in samples]
        normalized.append([s[0] * x for s, x in zip(singular, lengths, strict=True)])
        dimensions.append([(each**2).sum() ** 2 / (each**4).sum() for each in singular])
        full = [each[rank - 1] > 10 * 2.3e-16 * each[0] for each in singular]
        kept = (each for each, whole in zip(singular, full, strict=True) if whole)
        logs = [np.log(each[:rank]).sum() for each in kept]
        volumes.append((np.mean(logs) if logs else np.nan, len(full) - sum(full)))
        ranks.append(rank)
    return {
        "feature_sensitivity": np.mean(squares, 1),
        "feature_sensitivity_per_sample": np.transpose(squares),
        "feature_mls": np.mean(largest, 1),
        "feature_mls_per_sample": np.transpose(largest),
        "normalized_feature_mls": np.mean(normalized, 1),
        "feature_dimension": np.mean(dimensions, 1),
        "feature_log_volume": [volume for volume, _ in volumes],
        "feature_samples_rank_deficient": [count for _, count in volumes],
        "feature_volume_rank": ranks,
    }


def bounds(model, samples, layers, head):
    """The bounds where they are defined.  head: the name of the last layer if it is the head."""
    first = model.get_submodule(layers[0]).weight.detach().numpy()
    size = norm(first.reshape(len(first), -1), 2)
    slope = np.array([size * norm(s.of_first) / norm(s.x0) for s in samples])
    table = []
    for name in layers:
        cut = all(np.allclose(s.j[name] @ s.a[name], s.j0, atol=1e-9) for s in samples)
        table.append([_over(slope[k], s.j[name]) if cut else np.nan for k, s in enumerate(samples)])
    per_sample = np.transpose(table)
    features = np.transpose([[norm(s.a[name]) for name in layers] for s in samples]).T
    violations = (features > per_sample * (1 + 1e-6)).sum(0).astype(float)
    undefined = np.isnan(per_sample).any(0)
    found = {
        "representation_bound_per_sample": per_sample,
        "representation_bound": [np.median(column) for column in per_sample.T],
        "representation_bound_infinite": np.where(undefined, np.nan, np.isinf(per_sample).sum(0)),
        "representation_violations": np.where(undefined, np.nan, violations),
    }
    if not head:
        return found
    weight = model.get_submodule(head).weight.detach().numpy()
    singular = np.linalg.svd(weight, compute_uv=False)
    _, _, axes = np.linalg.svd(weight, full_matrices=False)
    seen = np.array([norm(axes @ s.a[head]) for s in samples])  # of full rank
    whole = np.array([norm(s.a[head]) for s in samples])
    smallest = singular[-1] if weight.shape[1] <= weight.shape[0] else 0.0
    root = np.sqrt(np.mean([norm(s.x0) ** -2 for s in samples]))
    of_first = np.sqrt(np.mean([norm(s.of_first) ** 2 for s in samples]))
    of_all = np.sqrt(np.mean([s.sharpness for s in samples]))
    with np.errstate(divide="ignore"):
        return found | {
            "penultimate_bound": np.mean(slope / smallest),
            "penultimate_bound_by_layer": size / smallest * root * of_first,
            "penultimate_bound_by_sharpness": size / smallest * root * of_all,
            "head_bound": np.mean(slope / singular[-1]),
            "head_bound_per_sample": slope / singular[-1],
            "head_frobenius": seen.mean(),
            "head_frobenius_per_sample": seen,
            "head_share": np.mean(seen**2 / whole**2),
            "head_violations": (seen > slope / singular[-1] * (1 + 1e-6)).sum(),
        }


def _over(slope, readout):
    singular = np.linalg.svd(readout, compute_uv=False)
    full = readout.shape[1] <= len(readout) and singular[-1] > 1e-14 * singular[0]
    return slope / singular[-1] if full else np.inf


def collapse(samples, labels, layers):
    """NC1, from covariances as matrices."""
    classes, found = np.unique(labels), []
    for name in layers:
        x = np.stack([s.x[name] for s in samples])
        means = np.stack([x[labels == label].mean(0) for label in classes])
        inner = np.mean([np.cov(x[labels == c].T, bias=True) for c in classes], 0)
        inverse = np.linalg.pinv(np.cov(means.T, bias=True), rcond=1e-10, hermitian=True)
        found.append(np.trace(inner @ inverse) / len(classes))
    return {"collapse_within": found}


def linear_shares(model, inputs, samples, labels, layers):
    """From A^l at the mean input of each class."""
    centres = {c: one_sample(model, inputs[labels == c].mean(0), layers) for c in np.unique(labels)}
    found = {"linear_share": [], "linear_share_within": []}
    for name in layers:
        x = np.stack([s.x[name] for s in samples])
        inside = {c: x[labels == c].mean(0) for c in centres}
        at_mean = {c: centre.x[name] for c, centre in centres.items()}
        for key, origin in (("linear_share", at_mean), ("linear_share_within", inside)):
            whole = rest = 0.0
            for s, label in zip(samples, labels, strict=True):
                step = centres[label].a[name] @ (s.x0 - centres[label].x0)
                whole += norm(s.x[name] - origin[label]) ** 2
                rest += norm(s.x[name] - origin[label] - step) ** 2
            found[key].append(1 - rest / whole)
    return found


def quantities(model, inputs, labels, layers, head):
    """All of them, by name."""
    samples = [one_sample(model, sample, layers) for sample in inputs]
    labels = np.asarray(labels)
    return {
        **local(samples, layers, len(samples[0].outputs)),
        **bounds(model, samples, layers, head),
        **collapse(samples, labels, layers),
        **linear_shares(model, inputs, samples, labels, layers),
    }
