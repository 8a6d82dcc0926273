"""Former kinds and keys of experiments of networks, as files of studies may still have them."""

import warnings
from collections.abc import Mapping
from typing import Any

from flatlab.core.registry import keys_of
from flatlab.lab.plan.experiments import Source

ORIGINS = {"files": "files", "loop": "function"}


def rename(source: Source) -> None:
    """Give a source the present names of its kind and keys; a warning says them."""
    kind, scales = source.kind, source.scales
    source.kind = "networks"
    if kind in ORIGINS:
        source.content["from"] = ORIGINS[kind]
        now = f"from: {ORIGINS[kind]}"
    else:
        above = [name for name in keys_of("metrics") if name in source.content]
        source.content = _of_zoo(source.content, above)
        source.scales = {
            scale: _of_zoo(part, above) if isinstance(part, Mapping) else part
            for scale, part in scales.items()
        }
        now = (
            "from: grid or timm; samples, seed and the options of families stand under measure, "
            "with families, and the keys of pretrained beside from"
        )
    warnings.warn(f"{source.name}: kind {kind} is now kind: networks, {now}", FutureWarning, 2)


def _of_zoo(part: Mapping[str, Any], above: list[str]) -> dict[str, Any]:
    """The keys above `scales:`, or at a scale.  above: the families that have a section there."""
    families = [name for name in keys_of("metrics") if name in part]
    measure = {key: part[key] for key in ("samples", "seed") if key in part}
    if not {*families} <= {*above} or part.get("title"):
        measure["families"] = sorted({*above, *families})
    measure |= {key: value for name in families for key, value in (part[name] or {}).items()}
    origin = {"from": "grid"} if part.get("grid") else {}
    if pretrained := part.get("pretrained"):
        origin = {"from": "timm", **pretrained}
    moved = {"samples", "seed", "pretrained", *families}
    kept = {key: value for key, value in part.items() if key not in moved}
    return {**kept, **origin, **({"measure": measure} if measure else {})}
