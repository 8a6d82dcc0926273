"""Where results lie: `results/<scale>/`, and `results/published/<scale>/` once they are published.

What is computed anew from published tables lies in `results/redrawn/<scale>/`. The rules of the
workflow have these paths with wildcards in the place of names: `built_at("{scale}")`.
"""

from dataclasses import dataclass
from pathlib import Path

RESULTS = Path("results")
PUBLISHED = RESULTS / "published"
PROOFS = PUBLISHED / "proofs.json"
"""Which code was proved to compute what other code computes: `tools.prove_equal`."""


@dataclass(frozen=True)
class ResultsFolder:
    """The result files in one folder."""

    folder: Path

    def data(self, data_set: str) -> Path:
        return self.folder / "data" / f"{data_set}.zarr.zip"

    def models(self, experiment: str, pack: str) -> dict[str, str]:
        """What training a pack writes, by name."""
        stem = self.folder / "models" / experiment / pack
        return {
            "weights": f"{stem}.safetensors",
            "dense": f"{stem}.dense.safetensors",
            "curves": f"{stem}.curves.zarr.zip",
        }

    def metrics(self, experiment: str, family: str, pack: str) -> Path:
        return self.folder / "metrics" / experiment / family / f"{pack}.zarr.zip"

    def table(self, experiment: str) -> Path:
        return self.folder / "tables" / f"{experiment}.zarr.zip"

    def figure(self, paper: str, key: str, ending: str) -> Path:
        return self.folder / "figures" / paper / f"{key}.{ending}"

    def verdicts(self, paper: str, key: str) -> Path:
        return self.folder / "verdicts" / paper / f"{key}.json"

    def scoreboard(self, ending: str) -> Path:
        return self.folder / "verdicts" / f"scoreboard.{ending}"


def built_at(scale: str) -> ResultsFolder:
    """The results of this folder at one scale."""
    return ResultsFolder(RESULTS / scale)


def published_at(scale: str) -> ResultsFolder:
    """The published results of one scale."""
    return ResultsFolder(PUBLISHED / scale)


def redrawn_at(scale: str) -> ResultsFolder:
    """What is computed anew from the published tables of one scale."""
    return ResultsFolder(RESULTS / "redrawn" / scale)


def command(scale: str, target: str) -> str:
    """The command that builds a target, whatever scale config.yaml names."""
    return f"snakemake {target} --config scale={scale}"


def record_of(path: Path | str) -> Path:
    """The record of the job that made a file: tables, code, settings, run time, machine."""
    return Path(f"{path}.provenance.json")
