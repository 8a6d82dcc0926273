"""What the jobs of a pack depend on: their settings, and the modules that they use."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET

from flatlab.core.options import options_of
from flatlab.core.registry import check_known, joined, module_of
from flatlab.core.schema import plain
from flatlab.lab.kinds.grids.packs import Pack


def train_settings(pack: Pack) -> dict[str, Any]:
    """The settings of a training job; besides its code and data, it depends on nothing else."""
    training = plain(pack.training)
    options = training.pop("options")
    training.pop("start", None)  # `start_of` says from which files
    if training["regularizer"] == "none":
        del training["regularizer"]
    return {
        **{key: plain(getattr(pack, key)) for key in ("data", "network", "curves", "seeds")},
        "training": {**training, **options},
        "checkpoints": plain(pack.dense),
        **({} if pack.fitted is UNSET else {"fitted": pack.fitted}),
        "outputs": pack.outputs,
        "runs": pack.runs,
    }


def train_roots(pack: Pack) -> list[str]:
    """The modules that train a pack: the engine, and what the pack names of each registry.

    The mode `loop` trains by torch's own modules, without stacked layers.
    """
    network, training = pack.network, pack.training
    layers = network.options.layers() if training.mode != "loop" else []
    for key in layers:
        check_known("train/layers", key, f"networks/{network.name}: layers")
    return [
        "flatlab.lab.train.run",
        module_of("networks", network.name),
        module_of("losses", training.loss),
        module_of("train/optimizers", training.optimizer),
        module_of("train/initializations", network.initialization),
        *(module_of("train/regularizers", key) for key in joined(training.regularizer)),
        *(module_of("train/augmentations", key) for key in joined(pack.data.augmentation)),
        *(module_of("train/layers", key) for key in layers),
    ]


def measure_roots(pack: Pack, family: str, options: Mapping[str, Any]) -> list[str]:
    """The modules that measure a pack: the families, the architecture and the losses.

    options: those of each family, by its key.
    """
    roots = [module_of("networks", pack.network.name), module_of("losses", pack.training.loss)]
    for name in joined(family):
        roots.append(module_of("metrics", name))
        for option, folder in options_of("metrics", name).FOLDERS.items():
            if key := options[name][option]:
                roots.append(module_of(folder, key))
    return ["flatlab.metrics._measure_pack", *roots]
