"""What this study claims of its figures: predicates on tables, judged by 95 % intervals."""

from flatlab.lab.claims import Claims
from flatlab.lab.tables.networks import ResultTables
from flatlab.stats.verdict import Verdict

CLAIMS = Claims("KEY")


@CLAIMS("fig1", "rho(sharpness, MLS) > 0", "README", "Sharper networks are more sensitive")
def _(e: ResultTables) -> Verdict:
    return e["KEY-grid"].rho("root_sharpness", "mls") > 0
