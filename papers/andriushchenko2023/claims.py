"""andriushchenko2023: what the paper says of its figures and tables."""

from flatlab.papers.andriushchenko2023.claims_diagonal import DIAGONAL
from flatlab.papers.andriushchenko2023.claims_linear import LINEAR
from flatlab.papers.andriushchenko2023.claims_recipes import RECIPES
from flatlab.papers.andriushchenko2023.claims_released import RELEASED

CLAIMS = LINEAR | RECIPES | DIAGONAL | RELEASED
"""By figure and key."""
