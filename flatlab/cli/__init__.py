"""The command `flatlab`: what is built, what result files hold, and computing without Snakemake.

Each command is a file of this folder with the command's name. It has `add_arguments(parser)`,
`run(options)`, which returns the exit status, a docstring whose first line is its help, and the
literal GROUP, the heading under which `flatlab --help` lists it.
"""

from flatlab.cli._main import main

__all__ = ["main"]
