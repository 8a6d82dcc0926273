"""macdonald2023: what the paper says of its figures and tables."""

from flatlab.papers.macdonald2023.claims_rates import RATES
from flatlab.papers.macdonald2023.claims_regression import REGRESSION
from flatlab.papers.macdonald2023.claims_regularizers import REGULARIZERS
from flatlab.papers.macdonald2023.claims_smoothing import SMOOTHING

CLAIMS = SMOOTHING | RATES | REGULARIZERS | REGRESSION
"""By figure and key."""
