"""Publishing replaces what it is given alone, and never parts a figure from its tables.

Publishing again replaces figures and verdicts by those computed anew from the published tables.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml

from flatlab import estimate, plan, publication, store
from flatlab.cli import main
from flatlab.publication import again

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = Path("results/published/demo")
SCALE = {"name": "small-zoo", "grid": "lenet-grid"}
ZOO = {
    "kind": "zoo",
    "title": "The networks of a grid",
    "samples": 2,
    "seed": 0,
    "jobs": 2,
    "adaptive": {"outputs": "sigmoid", "rho": 0.1, "draws": 2, "drop_above": None},
    "scales": {"paper": SCALE, "short": SCALE, "demo": SCALE},
}


@dataclass(frozen=True)
class Figure:
    """What publishing needs to know of a figure."""

    target: str
    experiments: list[str]
    correlated: list[str] = field(default_factory=list)
    title: str = "made-up"
    code: str = "drawing"
    settings: dict[str, str] = field(default_factory=lambda: {"title": "made-up"})

    @property
    def paper(self) -> str:
        return self.target.partition("_")[0]

    @property
    def key(self) -> str:
        return self.target.partition("_")[2]


FIGURES = [
    Figure("chen2026_figH8", ["mlp-grid"], ["mlp-grid"]),
    Figure("chen2026_figH9", ["lenet-grid"], ["lenet-grid"]),
    Figure("chen2024_fig1", ["mlp-grid", "lenet-grid"]),
    Figure("petzka2021_fig3", ["representativeness"]),
    Figure("beyond_fig1", ["small-zoo"]),
]
EXPERIMENTS = ("mlp-grid", "lenet-grid", "representativeness", "small-zoo")


OTHERS = [each.target for each in FIGURES if "representativeness" not in each.experiments]


def figure(target):
    return next(each for each in FIGURES if each.target == target)


def chosen(**config):
    return plan.Plan(config, Path("experiments"))


def write(path, content):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)


def make_table(key, value=0.0, place="results/demo"):
    """A made-up table."""
    values = xr.Dataset({"x": ("run", np.full(3, value))}, attrs={"experiment": key})
    store.save_dataset(f"{place}/tables/{key}.zarr.zip", values)


def draw(*targets, content=b"drawn", place="results/demo", verdict="holds"):
    for each in map(figure, targets):
        stem = f"{each.paper}/{each.key}"
        for ending in ("pdf", "png", "csv", "svg"):
            head = b"quantity\n" if ending == "csv" else b""
            write(f"{place}/figures/{stem}.{ending}", head + content + ending.encode())
        claim = {"id": f"{each.target}/c1", "nature": "finding", "repeats": "", "p": None}
        claims = [{**claim, "kind": "stand-in", "verdict": verdict}]
        about = {key: {"name": key, "scale": "demo", "extent": ""} for key in each.experiments}
        verdicts = {"target": each.target, "claims": claims, "tables": about}
        store.save_json(f"{place}/verdicts/{stem}.json", verdicts)


def record(path, code, seconds=2.0, **more):
    about = {"code": code, "runtime_s": seconds, "machine": "x86", "gpu": 0, "device": "cpu"}
    write(f"{path}.provenance.json", json.dumps({**about, "versions": {}, **more}).encode())


def compute(key, seconds=2.0):
    """The records of all jobs of an experiment."""
    experiment = chosen().experiment(key)
    for pack in experiment.packs:
        if stage := experiment.training(pack):
            record(experiment.weights(pack)["weights"], stage.code, seconds)
        for family in experiment.families:
            path = experiment.metrics(pack, family)
            record(path, experiment.measuring(pack, family).code, seconds)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A folder of the project with four experiments, whose results are made up, and published."""
    folder = tmp_path_factory.mktemp("publication") / "template"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flatlab.plan.figures", lambda: FIGURES)
        patch.setattr("flatlab.plan.published.figures", lambda: FIGURES)
        patch.setattr("flatlab.plan.published.experiment_keys", lambda: list(EXPERIMENTS))
        patch.chdir(folder)
        Path("experiments").mkdir()
        for key in EXPERIMENTS[:3]:
            shutil.copy2(ROOT / f"experiments/{key}.yaml", f"experiments/{key}.yaml")
        Path("experiments/small-zoo.yaml").write_text(yaml.safe_dump(ZOO))
        Path("config.yaml").write_text("scale: demo\n")
        for key in EXPERIMENTS:
            compute(key)
            make_table(key)
        draw(*(each.target for each in FIGURES))
        publication.publish(chosen())
        yield folder


@pytest.fixture
def published(template, tmp_path, monkeypatch):
    """A copy of it, to be changed."""
    monkeypatch.chdir(shutil.copytree(template, tmp_path / "project"))


@pytest.fixture
def built(published):
    """The same before anything was published."""
    shutil.rmtree("results/published")


def snapshot():
    """All that publishing may touch."""
    files = Path("results/published").rglob("*")
    return {str(path): path.read_bytes() for path in files if path.is_file()}


def changed_since(before):
    after = snapshot()
    return {
        path.removeprefix(f"{PUBLISHED}/")
        for path in {*before, *after}
        if before.get(path) != after.get(path)
    }


def names_of(*targets):
    stems = [f"{each.paper}/{each.key}" for each in map(figure, targets)]
    pictures = {f"figures/{stem}.{end}" for stem in stems for end in ("pdf", "png", "csv")}
    return pictures | {f"verdicts/{stem}.json" for stem in stems}


def tables_of(*keys):
    return {f"tables/{key}.zarr.zip" for key in keys}


RECORDS = {"provenance.json", "benchmarks.json"}


def test_without_names_all_that_is_built_is_published(built):
    files = publication.publish(chosen())
    expected = names_of(*(each.target for each in FIGURES)) | tables_of(*EXPERIMENTS) | RECORDS
    assert {path.relative_to(PUBLISHED).as_posix() for path in files} == expected
    there = {path.relative_to(PUBLISHED) for path in PUBLISHED.rglob("*") if path.is_file()}
    assert {path.as_posix() for path in there} == expected
    for name in expected - RECORDS:
        assert (PUBLISHED / name).read_bytes() == Path("results/demo", name).read_bytes()


def test_publishing_twice_changes_nothing(published):
    before = snapshot()
    publication.publish(chosen())
    assert not changed_since(before)


def test_what_is_given_is_replaced_and_nothing_else(published, capsys):
    before = snapshot()
    for key in EXPERIMENTS:
        make_table(key, value=1.0)
        compute(key, seconds=3.0)
    draw(*(each.target for each in FIGURES), content=b"anew")
    names = ["representativeness", "petzka2021_fig3"]
    assert main(["publish", *names]) == 0
    assert "7 files" in capsys.readouterr().out
    expected = names_of("petzka2021_fig3") | tables_of("representativeness") | RECORDS
    assert changed_since(before) == expected - {
        "verdicts/petzka2021/fig3.json"
    }  # the same as it was
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    was = json.loads(before[f"{PUBLISHED}/provenance.json"])
    assert {key for key in made if made[key] != was[key]} == {"representativeness"}
    assert made["representativeness"]["runtime_s"] == 3
    rows = json.loads((PUBLISHED / "benchmarks.json").read_text())
    before_rows = json.loads(before[f"{PUBLISHED}/benchmarks.json"])
    [row] = [row for row in rows if row not in before_rows]
    assert (row["kind"], row["seconds"]) == ("representativeness demo", 3.0)
    assert len(rows) == len(before_rows)


def test_a_paper_is_those_of_its_figures_that_are_built(built):
    shutil.rmtree("results/demo/figures/chen2026")
    draw("chen2026_figH8")
    publication.publish(chosen(), ["mlp-grid", "chen2026"])
    there = {p.relative_to(PUBLISHED).as_posix() for p in PUBLISHED.rglob("*") if p.is_file()}
    assert there == names_of("chen2026_figH8") | tables_of("mlp-grid") | RECORDS


def test_a_figure_that_shows_nothing_is_left_out_and_named(built, capsys):
    Path("results/demo/figures/chen2026/figH8.csv").write_text("quantity\n")
    assert main(["publish"]) == 0
    assert "show nothing, left out: chen2026_figH8\n" in capsys.readouterr().out
    there = {p.relative_to(PUBLISHED).as_posix() for p in PUBLISHED.rglob("*") if p.is_file()}
    others = [each.target for each in FIGURES if each.target != "chen2026_figH8"]
    assert there == names_of(*others) | tables_of(*EXPERIMENTS) | RECORDS
    publication.publish(chosen(), ["chen2026"])
    assert not (PUBLISHED / "figures/chen2026/figH8.png").exists()
    assert main(["publish", "chen2026_figH8"]) == 1
    assert "chen2026_figH8 shows nothing at scale demo" in capsys.readouterr().err


def test_figures_of_other_papers_than_the_configured_ones_are_published(built):
    publication.publish(chosen(papers=["chen2024"]), ["representativeness", "petzka2021"])
    assert (PUBLISHED / "figures/petzka2021/fig3.png").is_file()


def test_an_experiment_whose_table_did_not_change_needs_no_figure(published):
    before = snapshot()
    compute("mlp-grid", seconds=9.0)
    publication.publish(chosen(), ["mlp-grid"])
    assert changed_since(before) == RECORDS


def test_a_figure_needs_no_table_that_is_published_as_it_is(published):
    before = snapshot()
    draw("chen2024_fig1", content=b"anew")
    publication.publish(chosen(), ["chen2024_fig1"])
    pictures = {f"figures/chen2024/fig1.{ending}" for ending in ("pdf", "png", "csv")}
    assert changed_since(before) == pictures


# What is done after everything was published -> what is given, and the sentences of the refusal.


def _unpublished_table():
    shutil.rmtree(PUBLISHED)


def _other_table():
    make_table("mlp-grid", value=1.0)


def _other_tables():
    make_table("mlp-grid", value=1.0)
    make_table("lenet-grid", value=1.0)


def _no_table():
    Path("results/demo/tables/mlp-grid.zarr.zip").unlink()


def _no_figure():
    Path("results/demo/figures/chen2026/figH8.csv").unlink()


def _no_paper():
    shutil.rmtree("results/demo/verdicts/chen2026")


def _nothing_built():
    shutil.rmtree("results/demo")


TABLE = "results/demo/tables/mlp-grid.zarr.zip"
UNLIKE = "the published table of mlp-grid is not the one of chen2026_figH8; publish this as well: "
FORMER = "published figures show the former table of mlp-grid; publish these as well: "
REFUSED = {
    "nothing is built": (_nothing_built, [], ["nothing is built at scale demo; run snakemake"]),
    "a misspelt name": (
        None,
        ["mlp-gird"],
        ["'mlp-gird' is no experiment, figure or paper; did you mean 'mlp-grid'? `flatlab"],
    ),
    "an experiment without a table": (
        _no_table,
        ["mlp-grid"],
        [f"{TABLE} does not exist; build it with: snakemake {TABLE}"],
    ),
    "a figure that is not built": (
        _no_figure,
        ["chen2026_figH8"],
        ["chen2026_figH8 is not built at scale demo; build it with: snakemake chen2026_figH8"],
    ),
    "a paper of which nothing is built": (
        _no_paper,
        ["chen2026"],
        ["chen2026 is not built at scale demo; build it with: snakemake chen2026"],
    ),
    "a figure without its table": (_unpublished_table, ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
    "a figure of another table": (_other_table, ["chen2026_figH8"], [f"{UNLIKE}mlp-grid"]),
    "a figure whose table is gone": (
        _no_table,
        ["chen2026_figH8"],
        [f"chen2026_figH8 was drawn from {TABLE}, which is gone; build it with: snakemake {TABLE}"],
    ),
    "two figures of other tables": (
        _other_tables,
        ["chen2026_figH8", "chen2024"],
        [
            "the published table of mlp-grid is not the one of chen2026_figH8, chen2024_fig1; "
            "publish this as well: mlp-grid",
            "the published table of lenet-grid is not the one of chen2024_fig1; "
            "publish this as well: lenet-grid",
        ],
    ),
    "a table without its figures": (
        _other_table,
        ["mlp-grid"],
        [f"{FORMER}chen2026_figH8 chen2024_fig1\n"],
    ),
    "a table with one of its figures": (
        _other_table,
        ["mlp-grid", "chen2026"],
        [f"{FORMER}chen2024_fig1\n"],
    ),
    "a table of the figure of another one": (
        _other_tables,
        ["mlp-grid", "chen2026_figH8", "chen2024_fig1"],
        [
            "the published table of lenet-grid is not the one of chen2024_fig1; "
            "publish this as well: lenet-grid"
        ],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_what_to_add(case, published, capsys):
    spoil, names, sentences = REFUSED[case]
    if spoil:
        spoil()
    before = snapshot()
    assert main(["publish", *names]) == 1
    error = capsys.readouterr().err
    assert error.startswith("flatlab: ")
    assert error.count("\n") == len(sentences)
    for sentence in sentences:
        assert sentence in error
    assert not changed_since(before)


def test_what_is_too_much_is_refused_with_the_largest_parts(published, monkeypatch, capsys):
    kept = Path("results/published/paper/metrics/mlp-grid/geometry/a.zarr.zip")
    write(kept, bytes(50_000))
    size = sum(path.stat().st_size for path in Path("results/published").rglob("*.*"))
    monkeypatch.setattr(publication, "BUDGET_BYTES", size)
    publication.publish(chosen())  # replaces as much as it brings
    draw("chen2026_figH8", content=bytes(10_000))
    before = snapshot()
    assert main(["publish", "chen2026_figH8"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "more than the 0 MB that a repository should carry" in error
    assert "paper/metrics/mlp-grid 0.1 MB, demo/figures/chen2026 0.0 MB" in error
    assert not changed_since(before)


def test_the_budget_is_seventy_five_megabytes():
    assert publication.BUDGET_BYTES == 75e6


@pytest.mark.parametrize("number", [0, 3, 12])
def test_a_full_disk_leaves_all_as_it_was(number, published, monkeypatch):
    for key in EXPERIMENTS:
        make_table(key, value=1.0)
    draw(*(each.target for each in FIGURES), content=b"anew")
    before, calls, replace = snapshot(), [], store.replace

    def full(path, content):
        calls.append(path)
        if len(calls) > number:
            raise store.StoreError("the disk is full")
        replace(path, content)

    monkeypatch.setattr(store, "replace", full)
    with pytest.raises(store.StoreError, match="disk is full"):
        publication.publish(chosen())
    assert not changed_since(before)


def test_the_record_names_the_code_of_every_stage_and_of_what_others_trained(published):
    made = json.loads((PUBLISHED / "provenance.json").read_text())
    experiments = chosen().experiments
    lenet, zoo = experiments["lenet-grid"], experiments["small-zoo"]
    assert made["lenet-grid"]["code"] == lenet.code()
    assert made["small-zoo"]["code"] == {**zoo.code(), "train": lenet.code()["train"]}
    assert made["small-zoo"]["jobs"] == len(zoo.packs) + len(lenet.packs)
    assert made["lenet-grid"]["jobs"] == 2 * len(lenet.packs)
    assert made["representativeness"]["code"] == experiments["representativeness"].code()
    assert not list(plan.outdated(chosen().experiment))


def test_times_of_other_experiments_and_devices_stay(published):
    path = PUBLISHED / estimate.PUBLISHED
    rows = json.loads(path.read_text())
    elsewhere = {**rows[0], "device": "cuda", "seconds": 99.0}
    store.save_json(path, [*rows, elsewhere])
    compute("mlp-grid", seconds=7.0)
    publication.publish(chosen(), ["mlp-grid"])
    new = json.loads(path.read_text())
    assert elsewhere in new
    networks = {row["network"] for row in new if row not in [*rows, elsewhere]}
    assert networks == {"mlp (width 64)"}


def rewrite_record(change):
    path = PUBLISHED / "provenance.json"
    made = json.loads(path.read_text())
    change(made)
    store.save_json(path, made)


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("mlp-grid", {"train": ["0"]}),
        ("small-zoo", {"train": ["0"]}),
        ("representativeness", {"representativeness": ["0"]}),
    ],
)
def test_other_code_is_one_line_for_each_scale(key, code, published):
    rewrite_record(lambda made: made[key]["code"].update(code))
    [line] = plan.outdated(chosen().experiment)
    assert line.startswith("results/published/demo was made with other code")
    assert line.endswith(f": {key}")


def test_records_of_other_stages_count_as_other_code_and_those_of_none_do_not(published):
    rewrite_record(lambda made: made["representativeness"].update(code={"study": ["0"]}))
    rewrite_record(lambda made: made["small-zoo"].update(code={"survey": ["0"]}))
    rewrite_record(lambda made: made["mlp-grid"]["code"].update(train=[]))
    [line] = plan.outdated(chosen().experiment)
    assert line.endswith(": representativeness, small-zoo")


def test_an_experiment_that_is_gone_is_a_sentence_until_its_table_is_removed(published):
    table = PUBLISHED / "tables/former.zarr.zip"
    rewrite_record(lambda made: made.update(former={"code": {}}))
    write(table, b"")
    assert list(plan.outdated(chosen().experiment)) == [
        "results/published/demo has tables of experiments that no longer exist: former"
    ]
    table.unlink()
    assert not list(plan.outdated(chosen().experiment))


def test_a_figure_whose_tables_are_not_published_is_named_and_not_drawn_again(published):
    assert plan.published_figures("demo") == FIGURES
    (PUBLISHED / "tables/representativeness.zarr.zip").unlink()
    assert [each.target for each in plan.published_figures("demo")] == OTHERS
    assert list(plan.outdated(chosen().experiment)) == [
        "results/published/demo lacks tables that these figures show: petzka2021_fig3"
    ]


REDRAWN = "results/redrawn/demo"


def _record(path, inputs, code, settings=None):
    made = {str(each): store.hash_of(each) for each in inputs}
    store.save_json(f"{path}.provenance.json", {"code": code, "settings": settings, "inputs": made})


def compute_anew(*targets, place=PUBLISHED, redrawn=REDRAWN):
    """What `snakemake published` does, with other pictures and verdicts."""
    draw(*targets, content=b"anew", place=redrawn, verdict="fails")
    for each in map(figure, targets):
        tables = [place / f"tables/{key}.zarr.zip" for key in each.experiments]
        matrices = []
        for key in each.correlated:
            matrices.append(Path(redrawn, f"tables/{key}.correlations.zarr.zip"))
            store.save_dataset(matrices[-1], xr.Dataset({"rho": 0.5}))
            _record(matrices[-1], tables, plan.correlations_code())
        for ending in ("pdf", "png", "csv"):
            path = f"{redrawn}/figures/{each.paper}/{each.key}.{ending}"
            _record(path, [*tables, *matrices], each.code, each.settings)
        _record(
            f"{redrawn}/verdicts/{each.paper}/{each.key}.json", tables, plan.claims_code(each.paper)
        )


@pytest.fixture
def anew(published):
    """Everything published, and computed anew."""
    compute_anew(*(each.target for each in FIGURES))


def test_figures_and_verdicts_are_published_again_and_nothing_else(anew, capsys):
    shutil.rmtree("results/demo")
    for path in PUBLISHED.glob("verdicts/*/*.json"):
        path.write_text("{}")  # of another version
    before = snapshot()
    assert main(["publish", "--again"]) == 0
    assert f"{4 * len(FIGURES)} files" in capsys.readouterr().out
    assert changed_since(before) == names_of(*(each.target for each in FIGURES))
    for name in names_of("chen2026_figH8"):
        assert (PUBLISHED / name).read_bytes() == Path(REDRAWN, name).read_bytes()


def test_all_scales_are_published_again_or_one(anew):
    shutil.copytree(PUBLISHED, "results/published/short")
    compute_anew(
        "chen2024_fig1", place=Path("results/published/short"), redrawn="results/redrawn/short"
    )
    before = snapshot()
    with pytest.raises(store.StoreError, match="results/redrawn/short"):
        again.publish()
    assert not changed_since(before)
    assert len(again.publish("demo")) == 4 * len(FIGURES)
    for name in names_of(*(each.target for each in FIGURES)) - names_of("chen2024_fig1"):
        Path("results/published/short", name).unlink()
    assert len(again.publish()) == 4 * len(FIGURES) + 4
    files = again.publish("short")
    assert {str(path) for path in files} == {
        f"results/published/short/{name}" for name in names_of("chen2024_fig1")
    }


def test_a_figure_that_is_not_published_yet_does_not_matter(anew):
    for name in names_of("petzka2021_fig3"):
        (PUBLISHED / name).unlink()
    shutil.rmtree(f"{REDRAWN}/verdicts/petzka2021")
    again.publish()
    assert not (PUBLISHED / "figures/petzka2021/fig3.pdf").exists()


def _unfinished():
    Path(REDRAWN, "figures/chen2026/figH9.csv").unlink()


def _unrecorded():
    Path(REDRAWN, "figures/chen2026/figH9.csv.provenance.json").unlink()


def _other_published_table():
    make_table("lenet-grid", value=1.0, place=PUBLISHED)


def _other_matrix():
    path = f"{REDRAWN}/tables/lenet-grid.correlations.zarr.zip"
    store.save_dataset(path, xr.Dataset({"rho": 0.6}))


def _with_other(file, **changes):
    path = plan.record_of(f"{REDRAWN}/{file}")
    store.save_json(path, store.load_json(path) | changes)


STALE = {
    "a missing file": (_unfinished, 1, "figures/chen2026/figH9.csv"),
    "a file without a record": (_unrecorded, 1, "figures/chen2026/figH9.csv"),
    "another table": (_other_published_table, 9, "tables/lenet-grid.correlations.zarr.zip"),
    "other correlations": (_other_matrix, 3, "figures/chen2026/figH9.pdf"),
    "correlations of other code": (
        lambda: _with_other("tables/lenet-grid.correlations.zarr.zip", code="0"),
        1,
        "tables/lenet-grid.correlations.zarr.zip",
    ),
    "verdicts of other code": (
        lambda: _with_other("verdicts/chen2026/figH9.json", code="0"),
        1,
        "verdicts/chen2026/figH9.json",
    ),
    "a figure of other code": (
        lambda: _with_other("figures/chen2026/figH9.png", code="0"),
        1,
        "figures/chen2026/figH9.png",
    ),
    "a figure of another declaration": (
        lambda: _with_other("figures/chen2026/figH9.pdf", settings={"title": "former"}),
        1,
        "figures/chen2026/figH9.pdf",
    ),
}


@pytest.mark.parametrize("case", STALE)
def test_what_is_not_made_from_the_published_tables_by_this_code_is_refused(case, anew, capsys):
    spoil, count, first = STALE[case]
    spoil()
    before = snapshot()
    assert main(["publish", "--again"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"flatlab: {count} files, the first of them {REDRAWN}/{first}, are ")
    assert "make them with: snakemake published" in error
    assert error.count("\n") == 1
    assert not changed_since(before)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--scale", "short"], "no figure is published at scale short; publish first"),
        (["chen2026"], "--again takes no names"),
    ],
)
def test_again_is_for_what_is_published(options, sentence, anew, capsys):
    assert main(["publish", "--again", *options]) == 1
    assert sentence in capsys.readouterr().err
