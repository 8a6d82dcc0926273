"""Exact derivatives of a network's outputs, for each sample and layer, from one backward pass.

f maps a sample x to N outputs; the layers l = 1 ... L are its linear and convolution layers in the
order in which they are used; x^l is the input of layer l, z^l its output, J = df/dx,
J^l = df/dx^l along the path through layer l alone, and Gamma^l = df/dz^l.

`derivatives(model, inputs)` runs the model once forward and once backward for all N outputs, with
respect to the inputs and outputs of layers, never to weights. What is asked about the weights
follows from those: the gradient of a linear layer's weights is Gamma^l x^l^T.

`probe` finds out first, on two samples, what the rules cover, and refuses where nothing exact can
be had; `layers` has the rules, `generic` what they do not cover, `parameters` adds both up, `norms`
has the norms of weights.
"""

from flatlab.derivatives.engine import Derivatives, Layer, derivatives, sharpness
from flatlab.derivatives.guard import MeasureError

__all__ = ["Derivatives", "Layer", "MeasureError", "derivatives", "sharpness"]
