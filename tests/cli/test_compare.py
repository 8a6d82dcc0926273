"""Two folders of results compared: verdicts, the numbers that decide them, and experiments."""

import itertools
import json
import math
import shutil
from pathlib import Path

import pytest

from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.publish.compare import compare
from flatlab.lab.publish.scoreboard import OUTCOMES
from flatlab.lab.verdict_files import read_verdicts
from tests.synthetic import verdicts as synthetic
from tests.synthetic.verdicts import estimate, verdicts, write_verdicts

TARGET = "chen2026_figH8"


def entry(value=0.5, half=0.1, **more):
    """A number that decides a claim."""
    about = {"quantity": "rho(mls, nmls)", "claim": "> 0", "estimand": "over all networks"}
    return {**about, **estimate(value, half), **more}


def claim(key, verdict="holds", *evidence, target=TARGET):
    given = list(evidence or [entry()])
    return synthetic.claim(f"{target}/{key}", verdict, "stand-in", p=0.003, evidence=given)


def write(folder, *claims, target=TARGET, **about):
    """A verdict file in a folder of results; `about` are attributes of its table."""
    return write_verdicts(folder, verdicts(target, *(claims or [claim("c1")]), **about))


def compared(a, b):
    before, after = ([read_verdicts(write(name, *side))] for name, side in (("a", a), ("b", b)))
    return compare(before, after)


def moved(before, after):
    """How far the numbers of one claim moved."""
    both = ([claim("c1", "holds", *numbers)] for numbers in (before, after))
    return compared(*both).agreeing[0].moved


@pytest.fixture(autouse=True)
def in_project(project):
    """All of it is asked in a project folder."""


@pytest.mark.more
def test_only_a_verdict_that_turns_into_its_opposite_is_an_error_status(printed):
    turned = {}
    for a, b in itertools.product(OUTCOMES, repeat=2):
        turned[a, b] = compared([claim("c1", a)], [claim("c1", b)]).reversal
        if (a, b) in (("holds", "holds"), ("holds", "fails")):
            printed("compare", "a", "b", status=turned[a, b])
    assert {pair for pair in turned if turned[pair]} == {("holds", "fails"), ("fails", "holds")}


THEOREM = {"quantity": "bound", "claim": "for every value", "violations": 0, "of": 9, "n": 3}
REPORTED = {"claim": "reported, not judged"}


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (entry(0.5), entry(0.9, claim="< 0")),
        (entry(0.5), entry(0.9, quantity="rho(mls, test_loss)")),
        (entry(0.5, **REPORTED), entry(0.9, **REPORTED)),
        (entry(0.5), entry(None)),
        (entry(None), entry(0.5)),
        (entry(0.5, high=None), entry(0.9)),
        (THEOREM, THEOREM),
    ],
    ids=["claim", "quantity", "reported", "not finite in b", "not finite in a", "end", "theorem"],
)
def test_only_numbers_that_decide_the_claim_in_both_can_move(a, b):
    assert moved([a], [b]) is None
    assert compared([claim("c1", "holds", a)], [claim("c1", "holds", b)]).most_moved is None


OTHER = {"quantity": "rho(mls, log_volume)"}


@pytest.mark.parametrize(
    ("a", "b", "size"),
    [
        # the largest of a claim, in half widths of the interval in A
        ([entry(0.5), entry(0.5, 0.01, **OTHER)], [entry(0.2, 0.7), entry(0.48, 0.7, **OTHER)], 3),
        ([entry(0.5), entry(0.9)], [entry(0.6), entry(0.9)], 1),  # of one name: in their order
        ([entry(0.5, 0)], [entry(0.5, 0)], 0),  # without width: not at all, or beyond measure
        ([entry(0.5, 0)], [entry(0.5 * (1 + 1e-13), 0)], 0),
        ([entry(0.5, 0)], [entry(0.51, 0)], math.inf),
    ],
)
def test_a_movement_is_counted_in_half_widths_of_the_interval_in_a(a, b, size):
    assert moved(a, b) == (pytest.approx(size), "rho(mls, nmls)")


def test_the_command_says_what_agrees_what_differs_and_by_how_much(printed):
    changed = claim("c3", "undecided", entry(0.3)) | {"text": "rho > 0.25"}
    a = (claim("c1"), claim("c2", "fails"), claim("c3"), claim("c4"))
    write("a", *a, runs=99, length="")
    b = (claim("c1", "holds", entry(0.55)), claim("c2"), changed)
    write("b", *b, runs=25, length="", network="mlp")
    write("b", claim("c1", target="chen2024_fig1"), target="chen2024_fig1")
    lines = [" ".join(line.split()) for line in printed("compare", "a", "b", status=1).splitlines()]
    for line in (
        "A: a, scale demo",
        "verdicts that agree: 1 (1 holds)",  # those that differ moved more
        "the number that moved most: 0.5 rho(mls, nmls), of chen2026_figH8/c1",
        "verdicts that differ: 2",
        "chen2026_figH8/c2 fails holds 0 rho(mls, nmls)",
        "chen2026_figH8/c3 holds undecided 2 rho(mls, nmls); the claims read differently",
        *("claims only in A: 1", "chen2026_figH8 c4", "claims only in B: 1", "chen2024_fig1 c1"),
        "these experiments differ in settings or, where both have records, in code",
        "mlp-grid differs in runs (99 in A, 25 in B); network (nothing in A, mlp in B)",
    ):
        assert line in lines


def test_by_default_it_compares_with_what_is_published_at_the_same_scale(printed):
    write("elsewhere/mine", scale="short")
    write("results/published/short", claim("c1", "undecided"), scale="short")
    write("results/published/demo", claim("c1", "fails"))
    for command in (["elsewhere/mine"], ["elsewhere/mine", "published"]):
        assert "B: results/published/short, scale short" in printed("compare", *command)


def recorded(folder, code):
    """Records of all jobs of `mlp-grid`, as if they had run in a folder."""
    experiment = plan.Plan({"scale": "demo"}).experiment("mlp-grid")
    for pack in experiment.packs:
        files = [(Path(experiment.weights(pack)["weights"]), "same")]
        files += [(experiment.metrics(pack, family), code) for family in experiment.families]
        for path, version in files:
            record = plan.record_of(Path(folder) / path.relative_to("results/demo"))
            about = {"code": version, "runtime_s": 1, "machine": "x86_64", "gpu": 0}
            store.save_json(record, {**about, "versions": {}})


@pytest.mark.more
def test_other_code_is_said_where_both_have_records(printed):
    same, other = "no experiment differs", "mlp-grid differs in code (accuracy+geometry)\n"
    write("a")
    write("b")
    recorded("a", "new")
    assert same in printed("compare", "a", "b")
    for code, said in (("new", same), ("old", other)):
        recorded("b", code)
        assert said in printed("compare", "a", "b")
    shutil.rmtree("b/metrics")
    for code, said in (("published", other), ("new", same)):
        about = {"train": ["same"], "accuracy+geometry": [code]}
        store.save_json("b/provenance.json", {"mlp-grid": {"code": about}})
        assert said in printed("compare", "a", "b")


def test_an_experiment_that_one_of_both_does_not_read_is_named(printed):
    write("a")
    content = json.loads((path := write("b")).read_text())
    content["tables"]["lenet-grid"] = content["tables"].pop("mlp-grid")
    store.save_json(path, content)
    text = printed("compare", "a", "b")
    assert f"lenet-grid differs in {TARGET}, which reads it in B alone" in text
    assert f"mlp-grid differs in {TARGET}, which reads it in A alone" in text


def test_folders_without_results_are_named(refusal):
    write("a")
    for folders, lacking in ((("nowhere", "a"), "nowhere"), (("a", "nowhere"), "nowhere")):
        assert f"{lacking} does not exist" in refusal("compare", *folders)
    assert "results/published/demo does not exist" in refusal("compare", "a")
    store.save_json("b/verdicts/scoreboard.json", {})
    store.save_json("b/verdicts/chen2026/figH8.json.provenance.json", {})
    assert "b holds no verdicts" in refusal("compare", "a", "b")
    write("b", scale="short")
    write("b", target="chen2026_figH9")
    several = "b must hold tables of one scale; found: demo, short"
    assert several in refusal("compare", "a", "b")


UNKNOWN = {"target": TARGET, "claims": [claim("c1", "maybe")], "tables": {}}
DAMAGED = [b"", b'{"target": "x", "cla', b"[]", b"\xff\xfe", b'{"target": "\xff"}']


@pytest.mark.parametrize("content", [*DAMAGED, b'{"target": ""}', json.dumps(UNKNOWN).encode()])
def test_a_damaged_file_is_named(content, refusal):
    write("a")
    (path := write("b")).write_bytes(content)
    assert f"{path} is damaged" in refusal("compare", "a", "b")


def test_a_damaged_record_is_named(refusal):
    write("a")
    write("b")
    Path("b/provenance.json").write_text('{"mlp-grid": ')
    assert "b/provenance.json is damaged" in refusal("compare", "a", "b")
    recorded("a", "new")
    record = next(Path("a/metrics").rglob("*.json"))
    record.write_text("{")
    assert f"{record} is damaged" in refusal("compare", "a", "b")


def test_the_summary_ends_with_a_line_on_what_is_published(printed):
    def last(*claims):
        if claims:
            write_verdicts("results/demo", verdicts(TARGET, *claims), picture=True)
        return printed("summary").splitlines()[-1]

    assert "verdicts:" not in last()  # nothing is built
    six = [claim(f"c{i}") for i in range(6)]
    assert last(*six) == "verdicts: none of them is published at scale demo"
    write("results/published/demo", *six[:5])
    other = "chen2026_figH9"  # published, not built: it does not count
    write("results/published/demo", claim("c1", "fails", target=other), target=other)
    assert last() == "verdicts: 5 as published, 0 differ, 1 not published"
    changed = [claim("c0", "fails"), *(claim(f"c{i}", "undecided") for i in range(1, 6))]
    write("results/published/demo", *changed)
    assert last() == (
        f"verdicts: 0 as published, 6 differ (fails -> holds: {TARGET}/c0; undecided -> holds: "
        f"{TARGET}/c1, {TARGET}/c2, {TARGET}/c3 and 2 more); "
        "flatlab compare results/demo shows them"
    )
