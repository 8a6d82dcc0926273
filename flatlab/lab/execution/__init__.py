"""What jobs do: one body for each, which the scripts of the workflow and `flatlab run` call.

`flatlab.lab.kinds` plans the experiments of a kind, the file of the same name here carries them
out: `measure(job)` computes one metric file, and `tabulate(parts, settings)` joins them to a table.
"""
