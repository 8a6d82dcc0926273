"""The command `flatlab`: what is built, what result files hold, and computing without Snakemake.

Each file of this folder is a command with the file's name. It has `run(options)`, which returns the
exit status, `add_arguments(parser)` if there are any, and a docstring whose first line is its help.
A small command that is another view of the same thing shares the file: `export`, in show.py, has
`run_export`, whose docstring is its help, and `add_arguments_export`.
"""

from flatlab.cli._main import main

__all__ = ["main"]
