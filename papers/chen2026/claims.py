"""chen2026: what the paper says of its figures.

Sharpness in the claims is sqrt(S), as in the paper's figures; the MLS bound is D of Eq. 59 and
kappa is the relative flatness of the last layer.
"""

from flatlab.papers.chen2026.claims_networks import NETWORKS
from flatlab.papers.chen2026.claims_trends import TRENDS
from flatlab.papers.chen2026.claims_zoo import PRETRAINED

CLAIMS = TRENDS | NETWORKS | PRETRAINED
"""By figure and key."""
