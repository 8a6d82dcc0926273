"""Exact derivatives of a network's outputs, for each sample and layer, from one backward pass.

f maps a sample x to N outputs; the layers l = 1 ... L are its linear and convolution layers in the
order of their use; x^l is the input of layer l, z^l its output, J = df/dx, J^l = df/dx^l along the
path through layer l alone, and Gamma^l = df/dz^l.

`derivatives(model, inputs)` runs the model once forward and once backward for all N outputs, with
respect to the inputs and outputs of layers, never to weights. Gradients with respect to weights
follow from those: of a linear layer it is Gamma^l x^l^T.

What is called alike is alike everywhere, and is described where it is something else: `model` maps
(batch, ...) to (batch, N), each sample on its own; `inputs` are (samples, ...), with its dtype and
on its device; `targets` are (samples, N), and `loss` is of a sample; `findings` are those of
`probe`; `size` is a number of samples at a time, None as many as fit; `seed` is that of random
signs; `progress` shows a bar, and `tick` is called after each of its steps.

`probe` first finds out, on two samples, what the rules in `layers` cover, and refuses networks for
which no exact result is possible; `hooks` handles parameters that the rules do not cover.
"""
