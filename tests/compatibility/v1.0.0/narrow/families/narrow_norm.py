"""The norm of all parameters as one vector."""

from torch import nn

from flatlab.families import Measured, Quantity, SampleSet, Settings

CHECKS = ()
QUANTITIES = {"narrow_norm": Quantity("root of the sum of theta_j^2", "parameter", "")}


def measure(model: nn.Module, samples: SampleSet, settings: Settings) -> Measured:
    theta = nn.utils.parameters_to_vector(model.parameters()).detach()
    return Measured({"narrow_norm": theta.norm()})
