"""Networks of a few parts, whose forward pass is written as a function."""

from torch import nn


class Written(nn.Module):
    """function: of the network and its inputs.  parts: its modules and parameters, and so on."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)
