"""Two folders of results compared: verdicts, the numbers that decide them, and experiments."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from flatlab.cli import main
from flatlab.core import store
from flatlab.lab import plan
from flatlab.lab.claims.records import read_verdicts
from flatlab.lab.publish import comparison
from tests.synthetic import verdicts as synthetic
from tests.synthetic.verdicts import estimate, verdicts, write_verdicts

TARGET = "chen2026_figH8"


def entry(value: float | None = 0.5, half: float = 0.1, **more: Any) -> dict[str, Any]:
    """A number that decides a claim."""
    about = {"quantity": "rho(mls, nmls)", "claim": "> 0", "estimand": "over all networks"}
    return {**about, **estimate(value, half), **more}


def claim(key: str, verdict: str, *evidence: dict[str, Any], target: str = TARGET) -> Any:
    given = list(evidence or [entry()])
    return synthetic.claim(f"{target}/{key}", verdict, "stand-in", p=0.003, evidence=given)


def write(folder: str | Path, *claims: Any, target: str = TARGET, **about: Any) -> Path:
    """A verdict file in a folder of results; `about` are attributes of its table."""
    return write_verdicts(folder, verdicts(target, *claims, **about))


def compared(a: list[Any], b: list[Any]) -> comparison.Comparison:
    paths = [write(name, *claims) for name, claims in (("a", a), ("b", b))]
    before, after = ([read_verdicts(path)] for path in paths)
    return comparison.compare(before, after)


@pytest.fixture(autouse=True)
def in_project(project: Path) -> None:
    """All of it is asked in a project folder."""


def test_claims_are_told_apart_by_whether_their_verdicts_agree() -> None:
    a = [claim("c1", "holds"), claim("c2", "undecided"), claim("c3", "fails"), claim("c4", "holds")]
    b = [claim("c1", "holds"), claim("c2", "holds"), claim("c3", "fails"), claim("c5", "not run")]
    found = compared(a, b)
    assert [pair.a["id"] for pair in found.agreeing] == [f"{TARGET}/c1", f"{TARGET}/c3"]
    assert found.counts == [(1, "holds"), (1, "fails")]
    assert found.turns == {("undecided", "holds"): [f"{TARGET}/c2"]}
    assert (found.only_a, found.only_b) == ([f"{TARGET}/c4"], [f"{TARGET}/c5"])


@pytest.mark.parametrize(
    ("a", "b", "reversal"),
    [
        ("holds", "fails", True),
        ("fails", "holds", True),
        ("undecided", "fails", False),
        ("holds", "undecided", False),
        ("not run", "holds", False),
        ("fails", "fails", False),
    ],
)
def test_only_a_verdict_that_turns_into_its_opposite_is_an_error_status(
    a: str, b: str, reversal: bool, capsys: pytest.CaptureFixture
) -> None:
    assert compared([claim("c1", a)], [claim("c1", b)]).reversal == reversal
    assert main(["compare", "a", "b"]) == reversal
    capsys.readouterr()


def test_a_movement_is_counted_in_half_widths_of_the_interval_in_a() -> None:
    """And it is the largest of the claim."""
    a = claim("c1", "holds", entry(0.5, 0.1), entry(0.5, 0.01, quantity="rho(mls, log_volume)"))
    b = claim("c1", "holds", entry(0.2, 0.7), entry(0.48, 0.7, quantity="rho(mls, log_volume)"))
    moved = compared([a], [b]).agreeing[0].moved
    assert moved is not None
    assert moved.size == pytest.approx(3)
    assert moved.quantity == "rho(mls, nmls)"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (entry(0.5), entry(0.9, claim="< 0")),
        (entry(0.5), entry(0.9, quantity="rho(mls, test_loss)")),
        (entry(0.5, claim="reported, not judged"), entry(0.9, claim="reported, not judged")),
        (entry(0.5), entry(None)),
        (entry(None), entry(0.5)),
        (entry(0.5, high=None), entry(0.9)),
        ({"quantity": "bound", "claim": "for every value", "violations": 0, "of": 9, "n": 3},) * 2,
    ],
    ids=["claim", "quantity", "reported", "not finite in b", "not finite in a", "end", "theorem"],
)
def test_only_numbers_that_decide_the_claim_in_both_can_move(a: Any, b: Any) -> None:
    found = compared([claim("c1", "holds", a)], [claim("c1", "holds", b)])
    assert found.agreeing[0].moved is None
    assert found.most_moved is None


@pytest.mark.parametrize(
    ("b", "size"), [(0.5, 0.0), (0.5 * (1 + 1e-13), 0.0), (0.51, math.inf)], ids=str
)
def test_a_number_without_width_moves_not_at_all_or_beyond_measure(b: float, size: float) -> None:
    found = compared([claim("c1", "holds", entry(0.5, 0))], [claim("c1", "holds", entry(b, 0))])
    assert found.agreeing[0].moved == (size, "rho(mls, nmls)")


def test_numbers_of_one_name_are_compared_in_their_order() -> None:
    a = claim("c1", "holds", entry(0.5), entry(0.9))
    b = claim("c1", "holds", entry(0.6), entry(0.9))
    moved = compared([a], [b]).agreeing[0].moved
    assert moved is not None
    assert moved.size == pytest.approx(1)


def test_the_claim_that_moved_most_is_one_with_an_agreeing_verdict() -> None:
    a = [claim(key, "holds") for key in ("c1", "c2", "c3")]
    b = [claim("c1", "holds", entry(0.6)), claim("c2", "holds", entry(0.7))]
    most = compared(a, [*b, claim("c3", "fails", entry(-0.7))]).most_moved
    assert most is not None
    assert most.a["id"] == f"{TARGET}/c2"


def test_the_command_says_what_agrees_what_differs_and_by_how_much(
    capsys: pytest.CaptureFixture,
) -> None:
    changed = claim("c3", "undecided", entry(0.3)) | {"text": "rho > 0.25"}
    write("a", claim("c1", "holds"), claim("c2", "fails"), claim("c3", "holds"), runs=99, length="")
    write(
        "b",
        claim("c1", "holds", entry(0.55)),
        claim("c2", "holds"),
        changed,
        runs=25,
        length="",
        network="mlp",
    )
    write("b", claim("c1", "holds", target="chen2024_fig1"), target="chen2024_fig1")
    assert main(["compare", "a", "b"]) == 1
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for line in (
        "A: a, scale demo",
        "verdicts that agree: 1 (1 holds)",
        "the number that moved most: 0.5 rho(mls, nmls), of chen2026_figH8/c1",
        "verdicts that differ: 2",
        "chen2026_figH8/c2 fails holds 0 rho(mls, nmls)",
        "chen2026_figH8/c3 holds undecided 2 rho(mls, nmls); the claims read differently",
        "claims only in B: 1",
        "chen2024_fig1 c1",
        "these experiments differ in settings or, where both have records, in code",
        "mlp-grid differs in runs (99 in A, 25 in B); network (nothing in A, mlp in B)",
    ):
        assert line in lines
    assert not any("only in A" in line for line in lines)


def test_by_default_it_compares_with_what_is_published_at_the_same_scale(
    capsys: pytest.CaptureFixture,
) -> None:
    write("elsewhere/mine", claim("c1", "holds"), scale="short")
    write("results/published/short", claim("c1", "undecided"), scale="short")
    write("results/published/demo", claim("c1", "fails"))
    for command in (["elsewhere/mine"], ["elsewhere/mine", "published"]):
        assert main(["compare", *command]) == 0
        assert "B: results/published/short, scale short" in capsys.readouterr().out


def recorded(folder: str, code: str) -> None:
    """Records of all jobs of `mlp-grid`, as if they had run in a folder."""
    experiment = plan.Plan({"scale": "demo"}, Path("experiments")).experiment("mlp-grid")
    for pack in experiment.packs:
        files = [(Path(experiment.weights(pack)["weights"]), "same")]
        files += [(experiment.metrics(pack, family), code) for family in experiment.families]
        for path, version in files:
            record = plan.record_of(Path(folder) / path.relative_to("results/demo"))
            about = {"code": version, "runtime_s": 1, "machine": "x86_64", "gpu": 0}
            store.save_json(record, {**about, "versions": {}})


def test_other_code_is_said_where_both_have_records(capsys: pytest.CaptureFixture) -> None:
    def sentences() -> str:
        assert main(["compare", "a", "b"]) == 0
        return capsys.readouterr().out

    for name in "ab":
        write(name, claim("c1", "holds"))
    recorded("a", "new")
    assert "no experiment differs" in sentences()
    recorded("b", "new")
    assert "no experiment differs" in sentences()
    recorded("b", "old")
    assert "mlp-grid differs in code (accuracy+geometry)\n" in sentences()
    shutil.rmtree("b/metrics")
    code = {"train": ["same"], "accuracy+geometry": ["published"]}
    store.save_json("b/provenance.json", {"mlp-grid": {"code": code}})
    assert "mlp-grid differs in code (accuracy+geometry)\n" in sentences()
    code["accuracy+geometry"] = ["new"]
    store.save_json("b/provenance.json", {"mlp-grid": {"code": code}})
    assert "no experiment differs" in sentences()


def test_an_experiment_that_one_of_both_does_not_read_is_named(
    capsys: pytest.CaptureFixture,
) -> None:
    write("a", claim("c1", "holds"))
    path = write("b", claim("c1", "holds"))
    content = json.loads(path.read_text())
    content["tables"]["lenet-grid"] = content["tables"].pop("mlp-grid")
    store.save_json(path, content)
    assert main(["compare", "a", "b"]) == 0
    text = capsys.readouterr().out
    assert f"lenet-grid differs in {TARGET}, which reads it in B alone" in text
    assert f"mlp-grid differs in {TARGET}, which reads it in A alone" in text


def says(capsys: pytest.CaptureFixture, *arguments: str) -> str:
    """The one sentence that a comparison is refused with."""
    assert main(["compare", *arguments]) == 1
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    return err


def test_folders_without_results_are_named(capsys: pytest.CaptureFixture) -> None:
    write("a", claim("c1", "holds"))
    assert "nowhere is no folder of results" in says(capsys, "nowhere", "a")
    assert "nowhere is no folder of results" in says(capsys, "a", "nowhere")
    assert "results/published/demo is no folder of results" in says(capsys, "a")
    store.save_json("b/verdicts/scoreboard.json", {})
    store.save_json("b/verdicts/chen2026/figH8.json.provenance.json", {})
    assert "b holds no verdicts" in says(capsys, "a", "b")
    write("b", claim("c1", "holds"), scale="short")
    write("b", claim("c1", "holds"), target="chen2026_figH9")
    assert "b must hold tables of one scale; found: demo, short" in says(capsys, "a", "b")


UNKNOWN = {"target": TARGET, "claims": [claim("c1", "maybe")], "tables": {}}
DAMAGED = [
    b"",
    b'{"target": "x", "cla',
    b"[]",
    b"\xff\xfe",
    b'{"target": "\xff"}',
    b'{"target": ""}',
]


@pytest.mark.parametrize("content", [*DAMAGED, json.dumps(UNKNOWN).encode()])
def test_a_damaged_file_is_named(content: bytes, capsys: pytest.CaptureFixture) -> None:
    write("a", claim("c1", "holds"))
    path = write("b", claim("c1", "holds"))
    path.write_bytes(content)
    assert f"{path} is damaged" in says(capsys, "a", "b")


def test_a_damaged_record_is_named(capsys: pytest.CaptureFixture) -> None:
    write("a", claim("c1", "holds"))
    write("b", claim("c1", "holds"))
    Path("b/provenance.json").write_text('{"mlp-grid": []}')
    assert "b/provenance.json is damaged" in says(capsys, "a", "b")
    recorded("a", "new")
    record = next(Path("a/metrics").rglob("*.json"))
    record.write_text("{")
    assert f"{record} is damaged" in says(capsys, "a", "b")


def summary(capsys: pytest.CaptureFixture) -> str:
    assert main(["summary"]) == 0
    return capsys.readouterr().out.splitlines()[-1]


def built(*claims: Any, target: str = TARGET) -> None:
    write_verdicts("results/demo", verdicts(target, *claims), picture=True)


def test_the_summary_ends_with_a_line_on_what_is_published(capsys: pytest.CaptureFixture) -> None:
    assert "verdicts:" not in summary(capsys)  # nothing is built
    built(*(claim(f"c{i}", "holds") for i in range(6)))
    assert summary(capsys) == "verdicts: none of them is published at scale demo"
    write("results/published/demo", *(claim(f"c{i}", "holds") for i in range(5)))
    other = "chen2026_figH9"  # published, not built: it does not count
    write("results/published/demo", claim("c1", "fails", target=other), target=other)
    assert summary(capsys) == "verdicts: 5 as published, 0 differ, 1 not published"
    changed = [claim("c0", "fails"), *(claim(f"c{i}", "undecided") for i in range(1, 6))]
    write("results/published/demo", *changed)
    assert summary(capsys) == (
        f"verdicts: 0 as published, 6 differ (fails -> holds: {TARGET}/c0; undecided -> holds: "
        f"{TARGET}/c1, {TARGET}/c2, {TARGET}/c3 and 2 more); "
        "flatlab compare results/demo shows them"
    )
