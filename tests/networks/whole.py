"""Functions of a whole network's parameters as one vector, to be differentiated by torch.func."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


def by_vector(model, function, *inputs, **named):
    """A function of the outputs as one of all trainable parameters, and these."""
    parameters = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
    sizes = [p.numel() for p in parameters.values()]

    def of_vector(vector):
        parts = zip(parameters.items(), vector.split(sizes), strict=True)
        state = {name: part.view_as(p) for (name, p), part in parts}
        return function(torch.func.functional_call(model, state, inputs, named))

    return of_vector, torch.cat([p.flatten() for p in parameters.values()])


def hessian_of(model, loss, *inputs):
    return torch.autograd.functional.hessian(*by_vector(model, loss, *inputs), vectorize=True)


@sdpa_kernel(SDPBackend.MATH)  # fused attention has no second derivative
def matrices_of(model, inputs, targets, loss):
    """The Hessian of a loss, its Gauss-Newton part and the empirical Fisher matrix, by name."""
    jacobian, share = torch.autograd.functional.jacobian, loss.share(1, len(inputs))
    outputs, theta = by_vector(model, lambda f: f, inputs)
    of_losses, _ = by_vector(model, lambda f: loss.values(f, targets), inputs)
    rows, slopes = (jacobian(each, theta, vectorize=True) for each in (outputs, of_losses))
    pairs = zip(outputs(theta), targets, strict=True)
    curved = [torch.func.hessian(lambda f, t=t: loss.values(f, t))(f) for f, t in pairs]
    return {
        "hessian": hessian_of(model, lambda f: loss.values(f, targets).sum() * share, inputs),
        "gauss-newton": torch.einsum("nia,nij,njb", rows, torch.stack(curved), rows) * share,
        "empirical-fisher": slopes.T @ slopes * share,
    }
