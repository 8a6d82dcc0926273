"""Regularizers: one file each, whose stem stands in `training.regularizer`; + joins several.

Each file has a class `Options`, keys of `training`; `STRENGTH`, the name of the option that
switches the regularizer off where it is 0; and a class `Transform` (see
`flatlab.lab.train.minibatch_transforms`), or

    uphill(gradients, training, runs)    where a step takes its gradients

which returns a factor for each run, (runs): a step takes its gradients at the parameters plus so
many times the gradients at the parameters themselves, on the same minibatch. gradients: the latter,
(runs, ...) or (runs * channels, ...). Statistics of batch norm are those of the first pass.
"""

from flatlab.lab.train.regularizers._rules import ascent_rules, regularizers_of

__all__ = ["ascent_rules", "regularizers_of"]
