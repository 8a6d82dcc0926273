"""Prove that this code computes what an older checkout computes, so that its tables stay current.

    python -m tools.prove_equal OLD_CHECKOUT [EXPERIMENT ...] [--forecast]

Of each change of code, both train and measure one pack of every architecture, loss and data set
that published tables have, cut to some iterations of some networks, and the results are compared
byte for byte. What is equal is recorded in results/published/proofs.json, for you to commit.
Interrupted, it goes on where it stopped.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from flatlab.cli._main import add_device, add_scale, load_plan
from flatlab.core.paths import PROOFS, RESULTS, published_at
from flatlab.core.registry import PACKAGE
from flatlab.core.schema import PlanError, Refusal, closest
from flatlab.core.store import load_json
from flatlab.lab.jobs import forecast
from flatlab.lab.plan.published import published_scales
from tools.prove_equal.jobs import Cut
from tools.prove_equal.proof import Proof, Version, record


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove it as far as it is so; returns the exit status."""
    description, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser("python -m tools.prove_equal", description=description)
    parser.epilog = rest.partition("\n\n")[2]
    add_arguments(parser)
    try:
        return run(parser.parse_args(arguments))
    except Refusal as error:
        print(f"prove_equal: {error}", file=sys.stderr)
        return 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old_checkout", type=Path, help="a folder with the project's older code")
    help_ = "experiments with a published table; by default all"
    parser.add_argument("experiment", nargs="*", help=help_)
    help_ = f"steps that each network is trained (default: {Cut.iterations})"
    parser.add_argument("--iterations", type=int, default=Cut.iterations, help=help_)
    help_ = f"networks of each pack (default: {Cut.networks})"
    parser.add_argument("--networks", type=int, default=Cut.networks, help=help_)
    help_ = "quantities with a new name; `old=` for one that is gone"
    parser.add_argument("--renamed", nargs="+", default=[], metavar="old=new", help=help_)
    parser.add_argument("--data-folder", type=Path, help="use this one, not config.yaml's")
    help_ = "where results go, and are found again (default: results/proof)"
    parser.add_argument("--folder", type=Path, default=RESULTS / "proof", help=help_)
    parser.add_argument("--forecast", action="store_true", help="only say what it would take")
    add_scale(parser)
    add_device(parser)


def run(options: argparse.Namespace) -> int:
    proof = _proof(options)
    print(proof.forecast(_seconds(options.device or "cpu")), flush=True)
    if options.forecast:
        return 0
    for outcome in proof.run():
        arrays = sum(outcome.arrays.values())
        print(f"{outcome.piece}: " + ("DIFFERS" if outcome.unequal else f"{arrays} arrays equal"))
        for words in dict.fromkeys(each for lines in outcome.unequal.values() for each in lines):
            print(f"  {words}", flush=True)
    proofs = proof.proofs()
    record(proofs)
    changes = {change for piece in proof.pieces for change in piece.changes}
    print(f"{len(proofs)} of {len(changes)} changes of code proved equal, recorded in {PROOFS}")
    return int(len(proofs) < len(changes))


def _proof(options: argparse.Namespace) -> Proof:
    if not (options.old_checkout / "scripts").is_dir():
        raise PlanError(f"{options.old_checkout} is no checkout: it has no scripts")
    scales = [options.scale] if options.scale else published_scales()[::-1]  # the smallest first
    chosen = {scale: _tables(scale) for scale in scales}
    known = {key for keys in chosen.values() for key in keys}
    for name in options.experiment:
        if name not in known:
            raise PlanError(f"no table of {name!r} is published; {closest(name, known)}")
    wanted = {*(options.experiment or known)}
    chosen = {scale: [key for key in keys if key in wanted] for scale, keys in chosen.items()}
    renamed = dict(pair.split("=", 1) for pair in options.renamed if "=" in pair)
    if len(renamed) < len(options.renamed):
        raise PlanError("--renamed: expected old=new")
    config = load_plan(device=options.device).config
    folder = options.data_folder or config.data_folder or os.environ.get("FLATLAB_DATA", "data")
    settings = {key: getattr(config, key) for key in ("device", "stand_ins", "save_every_s")}
    settings |= {"papers": "all", "data_folder": str(Path(folder).absolute())}
    old, new = (
        Version(checkout.absolute(), options.folder.absolute() / name, settings)
        for name, checkout in (("old", options.old_checkout), ("new", PACKAGE.parent))
    )
    cut = Cut(options.iterations, options.networks)
    return Proof(old, new, {s: keys for s, keys in chosen.items() if keys}, cut, renamed)


def _tables(scale: str) -> list[str]:
    """The experiments whose tables are published at a scale."""
    place = published_at(scale)
    path = place.folder / "provenance.json"
    return [key for key in load_json(path) if place.table(key).is_file()] if path.is_file() else []


def _seconds(device: str) -> dict[tuple[str, str], float]:
    """Seconds per unit of work, by kind and network, from the records of published jobs."""
    sums: dict[tuple[str, str], list[float]] = {}
    for (kind, network, where, _), (seconds, work, _) in forecast.published().items():
        if where == device and work:
            known = sums.setdefault((kind.partition(" ")[0], network), [0.0, 0.0])
            known[:] = known[0] + seconds, known[1] + work
    return {key: seconds / work for key, (seconds, work) in sums.items()}


if __name__ == "__main__":
    sys.exit(main())
