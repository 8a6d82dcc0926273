"""Stacked layers: one file for each kind, whose stem is the key that an architecture lists.

Each file has a layer as `flatlab.train.chain.Layer` describes it, and a function

    stacked(module, name, builder) -> list[Layer] | None

that makes it of a torch module: None where the module is of another kind, or has a form that the
layer does not cover. The `builder` holds the tensors of all runs and knows whether the signal is
folded images or vectors at this point. The engine imports a file only where the LAYERS of an
architecture name it (`flatlab.networks`), so that nothing else depends on it.
"""
