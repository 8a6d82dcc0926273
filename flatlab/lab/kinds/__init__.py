"""The kinds of experiments, one file each: its keys, its packs, its table, what its jobs depend on.

A file `experiments/<kind>.py` has a class of that name, a `flatlab.lab.plan.experiments.Experiment`.
Planning imports these files. What the jobs of a kind do is the file of the same name in
`flatlab/lab/execution`; nothing else in the package knows a kind.
"""
