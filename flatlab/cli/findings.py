"""Write FINDINGS.md from report/findings.md, with every number looked up in published results."""

import argparse

from flatlab.core import store
from flatlab.lab.publish import findings

GROUP = "Publish"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """There are none."""


def run(options: argparse.Namespace) -> int:
    store.replace(findings.PAGE, findings.render().encode())
    print(f"{findings.PAGE} shows the published results")
    return 0
