"""What this study claims of its figures."""

from flatlab.lab.claims import Claims
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.verdict import Verdict

CLAIMS = Claims("narrow")


@CLAIMS("fig1", "rho(norm, test loss) < 0", "README", "Longer networks are better")
def _(e: ResultTables) -> Verdict:
    return e["narrow-grid"].rho("narrow_norm", "test_loss") < 0
