"""Stacked layers: one file for each kind; an architecture lists the stems of those that it needs.

Each file has a function `stacked(module, name, builder)` that turns a torch module into a list of
`lab.train.stacked_layers.Layer`, or returns None for a module of another kind or in a form that it
does not cover. The `builder` holds the tensors of all runs and knows whether the signal consists
of folded images or of vectors at this point. The engine imports only the files that the options of
an architecture list (`layers`, see `flatlab.core.options`), so that nothing else depends on a file.
"""
