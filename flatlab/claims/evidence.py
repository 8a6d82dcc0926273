# ruff: noqa: F401
"""Result tables by their former name, for claims that are not in a registry yet."""

from flatlab.claims.result_tables import ResultTables as Evidence
from flatlab.tables.eligibility import unless_missing as attempt
