"""What is published, as names below `results/<scale>/` and `results/published/<scale>/` alike."""

from __future__ import annotations

from pathlib import Path

from flatlab.plan import Figure

ENDINGS = ("pdf", "png", "csv")
"""What is published of a figure; its SVG is large, and `snakemake published` draws it."""


def table_of(key: str) -> str:
    """The table of an experiment."""
    return f"tables/{key}.zarr.zip"


def correlations_of(key: str) -> str:
    """The correlations of an experiment."""
    return f"tables/{key}.correlations.zarr.zip"


def files_of(figure: Figure) -> list[str]:
    """The verdicts of a figure and the figure itself."""
    stem = f"{figure.paper}/{figure.key}"
    return [f"verdicts/{stem}.json", *(f"figures/{stem}.{ending}" for ending in ENDINGS)]


def shown_by(figure: Figure) -> list[tuple[str, str]]:
    """What a figure is drawn from: pairs of an experiment's key and a file of it."""
    tables = [(key, table_of(key)) for key in figure.experiments]
    return tables + [(key, correlations_of(key)) for key in figure.correlated]


def content(path: Path) -> bytes | None:
    """The bytes of a file, which are equal where its content is; None where there is none."""
    return path.read_bytes() if path.is_file() else None
