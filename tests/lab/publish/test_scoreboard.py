"""Findings are counted by kind of evidence, all else apart; the page shows every claim."""

import re

import pytest
from scipy.stats import false_discovery_control

from flatlab.cli.summary import _as_text
from flatlab.lab.publish.scoreboard import ESTIMANDS, OUTCOMES, Board, as_html
from tests.synthetic import verdicts as synthetic
from tests.synthetic.verdicts import claim, verdicts

WITHIN, ADJUSTED = "within settings", "adjusted for the training loss"


def figure(target, *claims, scale="short"):
    return verdicts(target, *claims, scale=scale)


def estimate(value, n=9):
    return synthetic.estimate(value, 0.125, n)


def correlation(value, within, adjusted, **more):
    beside = {WITHIN: estimate(within), ADJUSTED: estimate(adjusted)}
    about = {"quantity": "rho(x, y)", "claim": "> 0", "estimand": "over all networks"}
    return {**about, **estimate(value), "beside": beside, **more}


VERDICTS = [
    figure(
        "a_fig1",
        claim("a_fig1/c1"),
        claim("a_fig1/c2", "fails"),
        claim("a_fig1/c3", "holds", "reduced"),
        claim("a_fig1/c4", "not run", ""),
        claim("a_fig1/c5", "holds", nature="theorem"),
        claim("a_fig1/c6", "not run", nature="check"),
    ),
    figure("a_fig2", claim("a_fig2/c1", "undecided", "stand-in"), scale="demo"),
    figure("b_fig1", claim("b_fig1/c1", "fails", repeats="a_fig1/c2")),
    figure("b_fig2"),
]
BOARD = Board(VERDICTS)


def counted(*claims):
    """The counts that are not zero."""
    counts = Board([figure("a_fig1", *claims)]).counts
    found = {group: {k: n for k, n in each.items() if n} for group, each in counts.items()}
    return {group: each for group, each in found.items() if each}


def test_every_claim_is_counted_once_by_its_kind_or_apart():
    assert counted(*(claim for content in VERDICTS for claim in content["claims"])) == {
        "own": {"holds": 1, "fails": 1},
        "reduced": {"holds": 1},
        "stand-in": {"undecided": 1},
        "not run": {"not run": 1},
        "theorem": {"holds": 1},
        "check": {"not run": 1},
        "repetition": {"fails": 1},
    }


NO_FINDINGS = [{"nature": "theorem"}, {"nature": "check"}, {"repeats": "a_fig1/c0"}]
NO_FINDINGS += [{"verdict": "not run"}, {"nature": "theorem", "repeats": "b_fig1/c1"}]
OTHER_EVIDENCE = [{"kind": "stand-in"}, {"kind": "reduced"}, {"verdict": "not run", "kind": ""}]


@pytest.mark.parametrize("other", [*NO_FINDINGS, *OTHER_EVIDENCE], ids=str)
def test_the_headline_counts_findings_on_own_evidence_alone(other):
    more = claim("a_fig1/c2", **other)
    board = Board([figure("a_fig1", claim("a_fig1/c1"), more, more)])
    assert board.headline.endswith(": holds 1")
    assert Board([figure("a_fig1", more)]).headline.endswith(": none")


def test_each_figure_has_a_row_and_kinds_of_evidence_stay_apart_in_it():
    head, *rows = BOARD.by_figure
    assert head == ["findings", "evidence", *OUTCOMES, "other claims"]
    assert ["a_fig1 (short)", "own + reduced", "1 + 1", "1 + 0", "", "1", "2"] in rows
    assert ["a_fig2 (demo)", "stand-in", "", "", "1", "", ""] in rows
    assert ["b_fig1 (short)", "own", "", "", "", "", "1"] in rows
    assert ["b_fig2 (short)", "", "", "", "", "", ""] in rows
    lines = _as_text(BOARD, marked={"a_fig1"}).splitlines()
    [row] = [line for line in lines if "a_fig1" in line]
    cells = ["a_fig1 *", "own + reduced", "1 + 1", "1 + 0", "1", "2"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    assert not any("b_fig1 *" in line for line in lines)
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith("  findings, ")]) == 4
    assert lines[-1].strip() == BOARD.headline


P = [0.001, 0.012, 0.02, 0.03, 0.04, 0.3, 0.9]
"""Of these, all below 0.05 would be decisive one by one, and fewer survive."""


def findings_of(paper="a", kind="own"):
    names = ["holds" if p < 0.05 else "undecided" for p in P]
    return [claim(f"{paper}_fig1/c{n}", names[n], kind, p=p) for n, p in enumerate(P)]


def survivors(*claims):
    return Board([figure("a_fig1", *claims)]).discoveries


def test_decisive_findings_survive_as_scipy_says():
    expected = int((false_discovery_control(P)[:5] <= 0.05).sum())
    assert 0 < expected < 5
    found = {"kind": "own", "paper": "a", "survive": expected, "decisive": 5, "without_p": 0}
    assert survivors(*findings_of()) == [found]


@pytest.mark.parametrize("other", [*NO_FINDINGS, {"verdict": "undecided", "p": None}], ids=str)
def test_what_is_no_tested_finding_changes_no_false_discovery_rate(other):
    more = [claim(f"a_fig1/d{n}", **{"p": 0.0001, **other}) for n in range(9)]
    assert survivors(*findings_of(), *more) == survivors(*findings_of())


def test_decisive_findings_without_a_p_value_are_named_and_not_counted():
    [before], [after] = survivors(*findings_of()), survivors(*findings_of(), claim("a_fig1/d"))
    assert after == {**before, "without_p": 1}
    line = f"a, own: {after['survive']} of 5 decisive findings survive a false discovery rate of"
    board = Board([figure("a_fig1", *findings_of(), claim("a_fig1/d"))])
    line += " 5 %; 1 more without a p-value not counted"
    assert line in " ".join(_as_text(board).split())
    assert line in as_html(board).decode()


def test_each_paper_and_kind_has_a_false_discovery_rate_of_its_own():
    [alone] = survivors(*findings_of())
    found = survivors(
        *findings_of("b", "stand-in"),
        *findings_of(),
        *findings_of("b"),
        *findings_of(kind="reduced"),
    )
    order = [("own", "a"), ("own", "b"), ("reduced", "a"), ("stand-in", "b")]
    assert found == [{**alone, "kind": kind, "paper": paper} for kind, paper in order]


def test_papers_without_a_decisive_finding_are_not_mentioned():
    undecided = figure("a_fig1", claim("a_fig1/c1", "undecided", p=0.5), claim("a_fig1/c2", p=0.01))
    only = figure("b_fig1", claim("b_fig1/c1", "undecided", p=0.5))
    text = _as_text(Board([undecided, only]))
    assert "b, own" not in text
    assert "reduced" not in text  # rows without a count are left out


def shown(*evidence, **more):
    content = figure("a_fig1", claim("a_fig1/c1", evidence=evidence, **more))
    html = as_html(Board([content])).decode()
    return html.split("<h2>a_fig1</h2>")[1]


def test_estimands_stand_side_by_side_and_another_sign_is_marked():
    html = shown(correlation(0.5, -0.5, 0.25))
    assert "<b>0.5 [0.375, 0.625] n 9</b>" in html
    assert "<td>-0.5 [-0.625, -0.375] n 9 <mark>other sign</mark>" in html
    assert "<td>0.25 [0.125, 0.375] n 9</td>" in html
    assert [html.index(name) for name in ESTIMANDS] == sorted(map(html.index, ESTIMANDS))


@pytest.mark.parametrize(
    ("value", "within", "adjusted", "marks"),
    [(0.5, 0.1, 0.2, 0), (-0.5, 0.1, 0.2, 2), (-0.5, -0.1, 0.2, 1), (0.5, None, 0.0, 0)],
)
def test_a_mark_compares_with_the_judged_estimand(value, within, adjusted, marks):
    entry = correlation(value, within, adjusted)
    assert shown(entry).count("<mark>") == marks
    assert "<mark>" not in shown({**entry, "claim": "reported, not judged"})
    rest = {ADJUSTED: entry["beside"][ADJUSTED], "over all networks": entry["beside"][WITHIN]}
    assert shown({**entry, "estimand": WITHIN, "beside": rest}).count("<mark>") == marks


def test_all_entries_of_the_evidence_are_shown():
    count = {"quantity": "bound", "claim": "for every value", "violations": 2, "of": 30, "n": 5}
    growth = {"quantity": "growth", "claim": "> 0", **estimate(2.0, 5), "estimand": "mean of runs"}
    reported = {"quantity": "printed", "claim": "reported, not judged", "value": 0.8}
    html = shown(count, correlation(0.5, None, 0.25), {**growth, "high": None}, reported)
    assert "2 of 30 values violate it n 5" in html
    assert "– [–, –] n 9" in html
    assert "2 [1.88, –] n 5</td><td>mean of runs" in html
    assert "<td>printed</td><td>reported, not judged</td><td>0.8</td>" in html


def test_a_claim_is_shown_with_all_that_is_known_of_it():
    changed = [{"threshold": 0.15, "verdict": "fails"}, {"threshold": 0.6, "verdict": "holds"}]
    differs = ["25 of 100 networks", "60,000 instead of 750,000 iterations"]
    html = shown(p=0.00321, thresholds=changed, differs=differs, kind="reduced", reason="since")
    parts = ["a_fig1/c1", "they correlate", "Sec. 1", "rho &gt; 0", "reduced", *differs, "since"]
    for part in (*parts, "holds", "0.0032", "0.15: fails", "0.6: holds"):
        assert part in html
    assert "repeats a_fig2/c1" in shown(repeats="a_fig2/c1")


def test_everything_is_escaped():
    ours = {name: f"<{name}>&'" for name in ("id", "text", "quote", "source", "reason", "kind")}
    ours |= {"repeats": "<repeats>&'", "differs": ["<differs>&'"]}
    alone = {"quantity": "<alone>&'", "claim": "<claim>&'", "estimand": "<estimand>&'", "value": 1}
    between = correlation(0.5, 0.5, 0.5, quantity="<quantity>&'")
    entry = {**claim(""), **ours, "evidence": [between, alone]}
    content = figure("<target>&'", entry, scale="<scale>&'")
    html = as_html(Board([content])).decode()
    names = [*ours, "alone", "claim", "estimand", "quantity", "target", "scale"]
    for name in names:
        assert f"&lt;{name}&gt;&amp;&#39;" in html
        assert f"<{name}>" not in html


def test_tags_are_closed():
    html = as_html(BOARD).decode()
    assert re.findall("<h2>(.*?)</h2>", html) == ["By figure", "a_fig1", "a_fig2", "b_fig1"]
    for tag in ("table", "b", "small", "q", "td", "th"):
        opened = len(re.findall(rf"<{tag}[ >]", html))
        assert opened == html.count(f"</{tag}>"), tag


def test_claims_that_are_read_in_several_ways_are_counted_and_shown_where_readings_disagree():
    def variant(key, verdict):
        return claim(f"a_fig1/{key}", verdict, repeats="a_fig1/c1")

    reading = {"main": "losses", "others": ["accuracies"], "why": "it says so", "quote": "the gap"}
    content = figure(
        "a_fig1",
        claim("a_fig1/c1", "fails", p=0.01),
        variant("c1-accuracies", "holds"),
        variant("c1-log", "not run"),
        claim("a_fig1/c2"),
        claim("a_fig1/c2-log", repeats="a_fig1/c2"),
        claim("a_fig1/c2-loss", "not run", repeats="a_fig1/c2"),
        claim("a_fig1/c3-vit"),
    )
    board = Board([{**content, "readings": {"gap": {**reading, "source": "Sec. 1"}}}])
    assert board.by_reading[1:] == [["a_fig1/c1", "fails", "accuracies: holds; log: not run"]]
    assert board.readings[1:] == [["gap", "losses", "accuracies", "it says so", "the gap (Sec. 1)"]]
    read, chance = board.cautions
    assert read.startswith("2 findings are read in several ways; of 1 the verdict depends")
    assert chance.startswith("If nothing were true, chance would decide 0 of 1 findings")
    html = as_html(board).decode()
    for shown_there in (read, chance, "<h2>By reading</h2>", "accuracies: holds"):
        assert shown_there in html
    assert "By reading" not in as_html(Board([figure("a_fig1", claim("a_fig1/c1"))])).decode()
