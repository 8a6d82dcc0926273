"""Claims of papers as predicates on tables, and the verdicts on them.

This folder holds what any paper can use. The claims of a paper are in its own folder, in
`papers/<paper>/claims.py`: `CLAIMS`, a `Claims`.
"""

from flatlab.core.schema import OWN, REDUCED, STAND_IN
from flatlab.lab.claims.claim import Claim, Predicate
from flatlab.lab.claims.reading import Reading
from flatlab.lab.claims.registry import Claims
from flatlab.lab.claims.result_tables import ResultTables
from flatlab.lab.claims.verify import claims_of, verify

__all__ = [
    *("Claim", "Claims", "Predicate", "Reading", "ResultTables"),
    *("OWN", "REDUCED", "STAND_IN", "claims_of", "verify"),
]
