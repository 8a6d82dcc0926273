"""The command `flatlab`: what was built, what a result file holds, whether files are sound."""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from flatlab import __version__, estimate, plan, publication, scoreboard, store
from flatlab.tables.published import with_tables


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        return options.run_command(options)
    except (plan.PlanError, store.StoreError) as error:
        print(f"flatlab: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="flatlab", description=__doc__)
    parser.add_argument("--version", action="version", version=f"flatlab {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Any, description: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=description, description=description)
        sub.set_defaults(run_command=run)
        return sub

    summary = command("summary", _summary, "targets, verdicts, and where to look")
    summary.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    listed = command("figures", _figures, "every figure and table of the papers, and its state")
    listed.add_argument("paper", nargs="?", help="of this paper alone")
    listed.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    ahead = command("estimate", _estimate, "jobs, hours and disk of a run, before it starts")
    ahead.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    ahead.add_argument("--device", choices=["cpu", "cuda"], help="instead of that of config.yaml")
    show = command("show", _show, "print what a result file holds")
    show.add_argument("file", nargs="+", type=Path, help=".zarr.zip, .safetensors or .json")
    run = command("run", _run, "train and measure packs of a grid in this process, no workflow")
    run.add_argument("grid", help="a file of grids/")
    run.add_argument("pack", nargs="*", help="which packs; all if none is named")
    run.add_argument("--family", nargs="+", default=[], help="what to measure; all if not given")
    run.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    run.add_argument("--device", choices=["cpu", "cuda"], help="instead of that of config.yaml")
    run.add_argument("--force", action="store_true", help="also what is there already")
    _add_measure(command("measure", _measure, "measure the network in a .safetensors file"))
    publish = command("publish", _publish, "put what is built into results/published/")
    publish.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    check = command("check", _check, "check configuration, grids and the hash of every result file")
    check.add_argument("folder", nargs="?", type=Path, default=Path("results"))
    grids = command("grids", _grids, "the grids, and every key that a grid may set")
    grids.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    zoos = command("zoos", _zoos, "the zoos, and every key that a zoo may set")
    zoos.add_argument("--scale", choices=plan.SCALES, help="instead of the scale of config.yaml")
    return parser


def _add_measure(sub: argparse.ArgumentParser) -> None:
    sub.formatter_class = argparse.ArgumentDefaultsHelpFormatter
    add = sub.add_argument
    help_ = "a state dictionary, or a pack of this project"
    add("weights", type=Path, nargs="?", help=help_)
    add("--model", metavar="NAME|MODULE:FUNCTION", help=_known("networks"))
    add("--data", metavar="NAME|FOLDER", help=f"{_known('data')}; images by class")
    add("--timm", metavar="NAME", help="instead of --model: a vision network of timm, and")
    add("--images", type=Path, metavar="FOLDER", help="instead of --data: images by class, as is")
    help_ = "of --timm; own: the outputs themselves, for images of other classes or of none"
    add("--targets", choices=["labels", "own"], default="labels", help=help_)
    help_ = "of --timm; those of timm's hub if not given"
    add("--weights", type=Path, metavar="FILE", dest="weights_of_timm", help=help_)
    add("--out", type=Path, metavar="FILE.zarr.zip", help="where to write the report")
    help_ = "what to measure: geometry, or adaptive for --timm, if not given"
    add("--family", nargs="+", metavar="NAME", help=help_)
    add("--split", choices=["train", "test"], default="train", help="where the samples come from")
    add("--samples", type=_count, default=100, help="how many, or `all`")
    add("--sample-seed", type=int, default=0, help="of the draw of samples")
    add("--scaling", choices=["unit", "standardized", "none"], default="unit", help="of the inputs")
    add("--outputs", type=int, help="of the network; as many as classes if not given")
    add(
        "--activation",
        choices=["relu", "tanh", "gaussian"],
        default="relu",
        help="for --model NAME",
    )
    add("--run", help="of a pack: which network")
    add("--checkpoint", type=int, help="of a pack: which iteration; the last if not given")
    help_ = "mse, mean-mse, sum-of-squares or cross-entropy, where a quantity has a Hessian"
    add("--loss", default="mse", help=help_)
    add("--label-smoothing", type=float, default=0.0, help="of --loss cross-entropy")
    add("--dtype", help="float64 or float32; that of the weights if not given")
    add("--singular-values", type=_count, default="all", help="of the log volume: k, or `all`")
    add("--conventions", default="flatlab", help="flatlab, or chen-code: those of its authors")
    add(
        "--costly",
        nargs="*",
        default=["elementwise-adaptive-trace"],
        metavar="NAME",
        help="elementwise-adaptive-trace, operator-norm, corrected-bound",
    )
    help_ = "of hessian: whose largest eigenvalue, hessian, gauss-newton or both"
    add("--curvature", nargs="+", default=["hessian", "gauss-newton"], metavar="NAME", help=help_)
    help_ = "of hessian: eval, or train for the statistics of these samples"
    add("--batch-norm", choices=["eval", "train"], default="eval", help=help_)
    add("--batch-size", type=int, help="samples at a time; what fits in memory if not given")
    add("--seed", type=int, default=0, help="of families that draw at random")
    add("--device", choices=["cpu", "cuda"], default="cpu", help="where to compute")


def _known(folder: str) -> str:
    return f"known here: {', '.join(plan.keys_of(folder))}"


def _count(text: str) -> int | str:
    if text == "all":
        return text
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is neither `all` nor a positive number")
    return int(text)


def _measure(options: argparse.Namespace) -> int:
    if options.out and not options.out.name.endswith(".zarr.zip"):
        raise store.StoreError(f"{options.out}: a report is a .zarr.zip file")
    # Not imported above: torch takes seconds, and no other command needs it.
    measurement = importlib.import_module("flatlab.measurement")
    settings = vars(options).copy()
    out = settings.pop("out")
    settings |= {"data_set": settings.pop("data"), "families": settings.pop("family")}
    settings["samples"] = None if options.samples == "all" else options.samples
    settings["progress"] = sys.stderr.isatty()
    del settings["run_command"]
    start = time.monotonic()
    try:
        report = _measured(measurement, settings)
    except (measurement.MeasureError, measurement.DataError) as error:
        raise store.StoreError(str(error)) from None
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        store.save_dataset(out, report)
    _show_dataset(report)
    # Not in the report: they are of this machine and this time.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    memory = peak * (1 if sys.platform == "darwin" else 1024)
    print(f"\n{time.monotonic() - start:.1f} s, {memory / 1e9:.2f} GB of memory at most")
    if out:
        print(f"\nwritten to {out}; print it again with: flatlab show {out}")
    return 0


OF_FILES = ("model", "data_set", "split", "scaling", "outputs", "activation", "run", "checkpoint")
"""What `flatlab measure` needs to know of networks that are not timm's."""


def _measured(measurement: Any, settings: dict[str, Any]) -> Any:
    """The report on a network of timm, or on one of this project or of one's own."""
    name, images, weights = (settings.pop(k) for k in ("timm", "images", "weights_of_timm"))
    if bool(name) != bool(images):
        raise plan.PlanError("--timm and --images go together")
    default = ["adaptive"] if name else ["geometry"]
    settings["families"] = settings["families"] or default
    if name:
        if settings["model"] or settings["data_set"]:
            raise plan.PlanError("give either --timm and --images, or --model and --data")
        kept = {key: value for key, value in settings.items() if key not in OF_FILES}
        kept["weights"] = weights or settings["weights"]
        return measurement.measure_pretrained(name, images=images, **kept)
    del settings["targets"]
    for key, option in (("weights", "weights"), ("model", "--model"), ("data_set", "--data")):
        if settings[key] is None:
            raise plan.PlanError(f"flatlab measure needs {option}, or --timm and --images")
    return measurement.measure_file(**settings)


def _run(options: argparse.Namespace) -> int:
    chosen = _load_plan(options.scale, options.device)
    standalone = importlib.import_module("flatlab.standalone")
    errors = (standalone.train.TrainError, standalone.train.Interrupted, standalone.data.DataError)
    try:
        files = standalone.run(chosen, options.grid, options.pack, options.family, options.force)
    except errors as error:
        raise store.StoreError(str(error)) from error
    print("\n".join(map(str, files)))
    return 0


def _load_plan(scale: str | None = None, device: str | None = None) -> plan.Plan:
    path = Path("config.yaml")
    if not path.is_file():
        raise plan.PlanError("there is no config.yaml here; run flatlab in the project's folder")
    try:
        config = yaml.safe_load(path.read_text()) or {}
    except yaml.YAMLError:
        raise plan.PlanError(f"{path}: not valid YAML") from None
    if isinstance(config, dict):
        given = {"scale": scale, "device": device}
        config |= {key: value for key, value in given.items() if value}
    return plan.Plan(config, Path("grids"))


def _summary(options: argparse.Namespace) -> int:
    chosen = _load_plan(options.scale)
    folder = Path("results", chosen.config.scale)
    print(f"\nflatlab {__version__}, scale {chosen.config.scale}")
    built: list[Any] = []
    for figure in chosen.figures:
        picture = folder / "figures" / figure.paper / f"{figure.key}.pdf"
        verdicts = folder / "verdicts" / figure.paper / f"{figure.key}.json"
        if not (picture.is_file() and verdicts.is_file()):
            print(f"\n{figure.target}: not built; snakemake {figure.target}")
            continue
        content = store.load_json(verdicts)
        built.append(content)
        print(f"\n{figure.target}: {figure.title}")
        for about in with_tables(content)["tables"].values():
            print(f"  {_about(about)}")
        for claim in content["claims"]:
            print(f"  {claim['verdict']:>9}  {claim['id'].split('/')[1]:<8}{claim['text']}")
            if claim["reason"]:
                print(f"{'':21}{claim['reason']}")
        print(f"  figure:   {picture} (also .svg, .png, and .csv: exactly what is drawn)")
        print(f"  evidence: {verdicts}")
    if built:
        print("\n" + scoreboard.as_text(scoreboard.collect(built)))
    print(f"\n{len(built)} of {len(chosen.figures)} targets built; tables in {folder / 'tables'}")
    return 0


def _publish(options: argparse.Namespace) -> int:
    files = publication.publish(_load_plan(options.scale))
    size = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {size / 1e6:.1f} MB, in {plan.PUBLISHED}; README.md shows them")
    return 0


def _estimate(options: argparse.Namespace) -> int:
    print(estimate.as_text(_load_plan(options.scale, options.device)))
    return 0


def _figures(options: argparse.Namespace) -> int:
    chosen = _load_plan(options.scale)
    titles = {figure.target: figure.title for figure in plan.figures()}
    papers = list(dict.fromkeys(target.partition("_")[0] for target in plan.targets()))
    if options.paper and options.paper not in papers:
        raise plan.PlanError(
            f"unknown paper {options.paper!r}; {plan.closest(options.paper, papers)}"
        )
    states = []
    for target in plan.targets():
        paper, _, key = target.partition("_")
        if options.paper not in (None, paper):
            continue
        picture = Path("results", chosen.config.scale, "figures", paper, f"{key}.pdf")
        if reason := plan.why_not(target).removeprefix(f"{target} is "):
            state, text = "not here", reason
        else:
            state, text = "built" if picture.is_file() else "to build", titles[target]
        states.append(state)
        print(f"  {target:<28}{state:<10}{text}")
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    print(f"{len(states)} targets at scale {chosen.config.scale}: {counted}")
    print("snakemake TARGET builds one of them")
    return 0


def _about(about: dict[str, Any]) -> str:
    stands_in = f"; stands in for {about['stands_in_for']}" if about["stands_in_for"] else ""
    return f"{about['name']}: {about['extent']}{stands_in}"


def _show(options: argparse.Namespace) -> int:
    for path in options.file:
        print(path)
        if path.name.endswith(".zarr.zip"):
            _show_dataset(store.load_dataset(path))
        elif path.suffix == ".safetensors":
            arrays, about = store.load_weights(path)
            for key, value in about.items():
                print(f"  {key}: {value}")
            for name, array in arrays.items():
                print(f"  {name:<20} {array.dtype} {array.shape}")
        elif path.suffix == ".json":
            print(yaml.safe_dump(store.load_json(path), sort_keys=False, allow_unicode=True))
        else:
            raise store.StoreError(f"{path}: show reads .zarr.zip, .safetensors and .json files")
    return 0


def _show_dataset(dataset: Any) -> None:
    """Attributes, single numbers with their units, numbers by layer, and a summary of the rest."""
    for key, value in dataset.attrs.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else value
        if text != "":
            print(f"  {key}: {text}")
    print("  " + ", ".join(f"{name} {size}" for name, size in dataset.sizes.items()))
    arrays = {name: a for name, a in dataset.variables.items() if a.dtype.kind in "fiub"}
    single = {name: array for name, array in arrays.items() if not array.dims}
    if single:
        print(f"\n  {'quantity':<30}{'value':>13}  {'units':<22}definition")
    for name, array in single.items():
        units, what = array.attrs.get("units", ""), array.attrs.get("long_name", "")
        print(f"  {name:<30}{float(array):>13.6g}  {units:<22}{what}".rstrip())
    by_layer = {name: array for name, array in arrays.items() if array.dims == ("layer",)}
    if by_layer:
        layers = [str(layer) for layer in dataset["layer"].values]
        _print_by_layer(layers, by_layer)
    rest = {n: a for n, a in dataset.variables.items() if n not in single and n not in by_layer}
    if rest:
        print(
            f"\n  {'variable':<30}{'dimensions':<30}{'mean':>12}{'min':>12}{'max':>12}  not finite"
        )
    for name, array in rest.items():
        line = f"  {name:<30}{', '.join(array.dims):<30}"
        if name in arrays and array.size:
            values = array.values.astype(float)
            bad = ~_finite(values)
            good = values[~bad]
            spread = (good.mean(), good.min(), good.max()) if good.size else ()
            line += "".join(f"{number:>12.5g}" for number in spread) or f"{'':>36}"
            line += f"  {int(bad.sum()) or ''}"
        print(line.rstrip())


def _print_by_layer(layers: list[str], by_layer: dict[str, Any]) -> None:
    """A row for each quantity, a column for each layer, as many as fit a line at a time."""
    width = max(12, 1 + max(map(len, layers)))
    columns = max(1, 88 // width)
    for start in range(0, len(layers), columns):
        print(f"\n  {'by layer':<30}" + "".join(f"{n:>{width}}" for n in layers[start:][:columns]))
        for name, array in by_layer.items():
            numbers = array.values[start:][:columns]
            print(f"  {name:<30}" + "".join(f"{value:>{width}.5g}" for value in numbers))


def _finite(values: Any) -> Any:
    return abs(values) < float("inf")


def _check(options: argparse.Namespace) -> int:
    _load_plan()
    for scale in plan.SCALES:
        _load_plan(scale)
    print("configuration and grids: sound at every scale")
    checked, problems = 0, []
    for path, load in _result_files(options.folder):
        checked += 1
        try:
            load(path)
        except store.StoreError as error:
            problems.append(str(error))
    print("\n".join([*problems, f"{checked} result files checked, {len(problems)} damaged"]))
    return 1 if problems else 0


def _result_files(folder: Path) -> Iterator[tuple[Path, Any]]:
    loaders = {
        ".zarr.zip": store.load_dataset,
        ".safetensors": store.load_weights,
        ".json": store.load_json,
    }
    for path in sorted(folder.rglob("*")):
        for ending, load in loaders.items():
            if path.name.endswith(ending):
                yield path, load


def _grids(options: argparse.Namespace) -> int:
    chosen = _load_plan(options.scale)
    for path in sorted(Path("grids").glob("*.yaml")):
        grid = chosen.grid(path.stem, chosen.config.scale)
        print(f"{grid.key} ({grid.scale}): {grid.title}")
        networks, data = " and ".join(grid.networks), " and ".join(grid.data_sets)
        print(f"  {len(grid.runs)} {networks} networks on {data}, in packs:")
        for pack in grid.packs.values():
            print(f"    {pack.key:<24}{pack.training.length} each, mode {pack.training.mode}")
    print("\nKeys of a grid, one section after the other:")
    _print_keys(plan.grid_keys())
    return 0


def _zoos(options: argparse.Namespace) -> int:
    chosen = _load_plan(options.scale)
    for key in plan.zoo_keys():
        zoo = plan.load_zoo(key, chosen.config.scale)
        print(f"{zoo.key} ({zoo.scale}), {zoo.name}: {zoo.title}")
        print(f"  {zoo.about}; {zoo.jobs} jobs")
    print("\nKeys of a zoo, and of its sections:")
    _print_keys(plan.keys_of_zoos())
    return 0


def _print_keys(sections: dict[str, list[tuple[str, str, str]]]) -> None:
    for section, keys in sections.items():
        print(f"\n{section}")
        for key, allowed, meaning in keys:
            print(f"  {key:<23} {allowed:<43} {meaning}")
