"""The kinds of experiments, one file each: its keys, its packs, what its jobs do, its table.

A file `experiments/<kind>.py` has a class of that name, a `flatlab.plan.experiments.Experiment`.
Nothing else in the package knows a kind. Planning imports these files: what computes is imported
inside the functions that jobs call.
"""
