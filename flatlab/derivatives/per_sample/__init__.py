"""The derivatives of each sample with respect to inputs and outputs of layers, from one pass."""
