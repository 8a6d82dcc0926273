"""Stacked layers: one file for each kind, whose stem is the key that an architecture lists.

Each file has a layer as `flatlab.train.chain.Layer` describes it, and a function

    stacked(module, name, builder) -> list[Layer] | None

that makes it of a torch module: None where the module is of another kind, or has a form that the
layer does not cover. The `builder` holds the tensors of all runs and knows whether the signal is
folded images or vectors at this point. The engine imports only the files that the options of an
architecture list (`layers`, see `flatlab.plan.options`): an edit to one affects no other networks.
"""
