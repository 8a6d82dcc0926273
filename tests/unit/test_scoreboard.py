"""The scoreboard counts verdicts by figure and over all, in text, Markdown and HTML."""

from __future__ import annotations

import re
from typing import Any

from flatlab import scoreboard


def verdicts(target: str, *outcomes: str, scales: tuple[str, ...] = ("demo",)) -> dict[str, Any]:
    return {
        "target": target,
        "claims": [
            {
                "id": f"{target}/c{number}",
                "text": "rho < 1",
                "verdict": outcome,
                "reason": "",
                "evidence": [
                    {"quantity": "rho", "claim": "< 1", "value": 0.5, "low": 0, "high": 2}
                ],
            }
            for number, outcome in enumerate(outcomes, start=1)
        ],
        "tables": {f"table-{scale}": {"scale": scale} for scale in scales},
    }


CONTENT = [
    verdicts("a_fig1", "holds", "holds", "not run"),
    verdicts("a-longer-name_fig2", "fails", scales=("short", "demo")),
    verdicts("b_fig1"),
]
BOARD = scoreboard.collect(CONTENT)


def test_outcomes_are_counted_by_figure_and_over_all() -> None:
    assert BOARD["figures"] == [
        {"target": "a_fig1", "scale": "demo", "holds": 2, "not run": 1},
        {"target": "a-longer-name_fig2", "scale": "demo/short", "fails": 1},
        {"target": "b_fig1", "scale": "demo"},
    ]
    assert BOARD["all"] == {"holds": 2, "fails": 1, "undecided": 0, "not run": 1}


def test_the_text_has_a_line_for_each_figure_and_one_for_all() -> None:
    lines = [line.split() for line in scoreboard.as_text(BOARD).splitlines()]
    assert lines[0] == ["claims", "holds", "fails", "undecided", "not", "run"]
    assert [line[0] for line in lines[1:]] == ["a_fig1", "a-longer-name_fig2", "b_fig1", "all"]
    assert lines[1][1:] == ["(demo)", "2", "1"]
    head, first, *_ = scoreboard.as_text(BOARD).splitlines()
    assert first.index("2") == head.index("holds") + len("holds") - 1
    assert first.endswith("1")
    assert len(first) == len(head)


def test_markdown_leaves_cells_without_a_number_empty() -> None:
    assert scoreboard.as_markdown(BOARD).splitlines() == [
        "| claims | holds | fails | undecided | not run |",
        "|---|---|---|---|---|",
        "| a_fig1 (demo) | 2 |  |  | 1 |",
        "| a-longer-name_fig2 (demo/short) |  | 1 |  |  |",
        "| b_fig1 (demo) |  |  |  |  |",
        "| all | 2 | 1 |  | 1 |",
    ]


def test_the_page_shows_each_claim_with_its_numbers_escaped() -> None:
    page = scoreboard.as_html(BOARD, CONTENT).decode()
    assert "rho &lt; 1: 0.5 [0, 2]" in page
    assert re.findall("<h2>(.*?)</h2>", page) == ["a_fig1", "a-longer-name_fig2", "b_fig1"]
    assert page.count("<table>") == page.count("</table>") == 4
