"""The tables that the claims of a figure are judged by."""

from flatlab.lab.tables.networks import ResultTables

__all__ = ["ResultTables"]
