"""Result files lie where the rules of the workflow put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from flatlab import plan

ROOT = Path(__file__).resolve().parents[2]
RULES = "".join(path.read_text() for path in sorted((ROOT / "rules").glob("*.smk")))
PLACE, PUBLISHED, REDRAWN = (
    place("{scale}") for place in (plan.built_at, plan.published_at, plan.redrawn_at)
)
PATTERNS = [
    PLACE.data("{dataset}"),
    *PLACE.models("{experiment}", "{pack}").values(),
    PLACE.metrics("{experiment}", "{family}", "{pack}"),
    PLACE.table("{experiment}"),
    PLACE.correlations("{experiment}"),
    *(PLACE.figure("{paper}", "{figure}", ending) for ending in ("pdf", "svg", "png", "csv")),
    PLACE.verdicts("{paper}", "{figure}"),
    PUBLISHED.table("{experiment}"),
    REDRAWN.correlations("{experiment}"),
    *(REDRAWN.figure("{paper}", "{figure}", ending) for ending in ("pdf", "svg", "png", "csv")),
    REDRAWN.verdicts("{paper}", "{figure}"),
]


@pytest.mark.parametrize("pattern", [str(pattern) for pattern in PATTERNS])
def test_a_rule_spells_out_the_same_pattern(pattern: str) -> None:
    assert f'"{pattern}"' in RULES


def test_published_results_lie_alike() -> None:
    built, published = plan.built_at("demo"), plan.published_at("demo")
    assert published.folder == plan.PUBLISHED / "demo"
    for place in (built, published):
        assert place.table("mlp-grid") == place.folder / "tables" / "mlp-grid.zarr.zip"
