"""Result files lie where the documentation says, and rules have these paths from the plan."""

import re
from pathlib import Path

from flatlab.lab import plan

ROOT = Path(__file__).resolve().parents[2]
PLACE = plan.built_at("{scale}")
PATTERNS = {
    "data/{dataset}.zarr.zip": PLACE.data("{dataset}"),
    "models/{experiment}/{pack}.safetensors": PLACE.models("{experiment}", "{pack}")["weights"],
    "metrics/{experiment}/{family}/{pack}.zarr.zip": PLACE.metrics(
        "{experiment}", "{family}", "{pack}"
    ),
    "tables/{experiment}.zarr.zip": PLACE.table("{experiment}"),
    "tables/{experiment}.correlations.zarr.zip": PLACE.correlations("{experiment}"),
    "figures/{paper}/{figure}.csv": PLACE.figure("{paper}", "{figure}", "csv"),
    "verdicts/{paper}/{figure}.json": PLACE.verdicts("{paper}", "{figure}"),
    "verdicts/scoreboard.json": PLACE.scoreboard("json"),
}


def test_every_file_has_its_place():
    """Users open these files, and Snakemake builds them by these names."""
    assert {f"results/{{scale}}/{path}" for path in PATTERNS} == {*map(str, PATTERNS.values())}
    for folder, place in {"published": plan.published_at, "redrawn": plan.redrawn_at}.items():
        path = Path("results", folder, "demo", "tables", "mlp-grid.zarr.zip")
        assert place("demo").table("mlp-grid") == path


def test_no_rule_spells_out_a_path_of_a_result():
    for path in (ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")):
        code = re.sub(r'""".*?"""', "", path.read_text(), flags=re.DOTALL)
        assert "results/" not in re.sub(r"#.*", "", code), path.name
