"""beyond: statements of our own, and of chen2026 about what none of its figures shows."""

from flatlab.papers.beyond.claims_dense import DENSE
from flatlab.papers.beyond.claims_depth import DEPTH
from flatlab.papers.beyond.claims_drawn import DRAWN
from flatlab.papers.beyond.claims_joint import JOINT
from flatlab.papers.beyond.claims_representations import REPRESENTATIONS

CLAIMS = JOINT | REPRESENTATIONS | DENSE | DRAWN | DEPTH
"""By figure and key."""
