"""What figures and claims of andriushchenko2023 share: names of released networks, printed tables.

The tables have Kendall's tau of sharpness and test errors: `printed/table1.csv` and others have a
row for each experiment, definition and test set, with a column for each radius, in the order of the
paper. Figures are declared at plan time: nothing heavy is imported here.
"""

import csv
from pathlib import Path

VIT, VIT21K, CLIP, BERT = (f"released-{name}-zoo" for name in ("vit", "vit21k", "clip", "bert"))
IMAGES = {
    "test": "ImageNet",
    "imagenet-v2": "ImageNet-V2",
    "imagenet-r": "ImageNet-R",
    "imagenet-sketch": "ImageNet-Sketch",
    "imagenet-a": "ImageNet-A",
    "objectnet": "ObjectNet",
}
FOUR = ("test", "imagenet-r", "imagenet-sketch", "imagenet-a")
SENTENCES = {
    "test": "MNLI",
    "hans-lexical": "HANS lexical",
    "hans-subsequence": "HANS subsequence",
    "hans-constituent": "HANS constituent",
}
NORMALIZED, PLAIN = "worst-normalized-linf", "worst-adaptive-linf"
AVERAGE_NORMALIZED, AVERAGE_PLAIN = "average-normalized-linf", "average-adaptive-linf"

MEASURED = {"test_error": 99.0}
"""Networks with a larger test error, in %, are left out, as the paper leaves out two."""

READS = "printed/*.csv"
"""The files beside this module that it reads: its fingerprint has their content, too."""


def sharpness(definition: str, radius: int) -> str:
    """The column of a definition at one of its radii, by its number."""
    return f"sharpness_at_radius[{definition}, {radius}]"


Taus = dict[str, tuple[tuple[float, ...], ...]]
"""By definition: for each test set, by radius."""


def read(table: str) -> dict[str, Taus]:
    """A printed table, by experiment."""
    taus: dict[str, Taus] = {}
    with Path(__file__).with_name("printed").joinpath(f"{table}.csv").open() as file:
        for experiment, definition, _, *by_radius in [*csv.reader(file)][1:]:
            rows = taus.setdefault(experiment, {})
            rows[definition] = (*rows.get(definition, ()), tuple(map(float, by_radius)))
    return taus


TABLE1, TABLE2, TABLE3, TABLE4 = (read(f"table{number}") for number in (1, 2, 3, 4))
