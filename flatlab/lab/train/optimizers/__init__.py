"""Optimizers: one file each, whose stem is the value of `training.optimizer`.

Each file has

    Options                                   its options, which are keys of `training`
    Stacked(parameters, training, runs)       the update of stacked parameters, by a few kernels
    reference(parameters, training)           torch's own optimizer, for the mode `loop`
    state_of(update, parameter)               its tensors for one parameter, in a fixed order
    takes_products(training)                  if there is one: whether gradients may be `Product`s

`Stacked` has `state`, a list of tensors, and `step(gradients, rate)`, which updates in place.
gradients: in the order of the parameters; they are overwritten.  rate: a tensor with one number if
the step is recorded, so that it can change afterwards; (runs) if each run has its own. `state_of`
creates the tensors that torch would create in the first step, so that they can be read before it.
"""

from flatlab.lab.train.optimizers._update import ProductSteps, by_run, descend, tensors_of

__all__ = ["ProductSteps", "by_run", "descend", "tensors_of"]
