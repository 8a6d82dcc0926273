"""Publishing: tables, figures and verdicts of real runs are copied to `results/published/<scale>/`.

These copies are under version control, and no rule makes them. `snakemake published` computes the
figures and verdicts anew from their tables.
"""

from flatlab.lab.publish.provenance import origin
from flatlab.lab.publish.publishing import BUDGET_BYTES, publish, publish_redrawn

__all__ = ["BUDGET_BYTES", "origin", "publish", "publish_redrawn"]
