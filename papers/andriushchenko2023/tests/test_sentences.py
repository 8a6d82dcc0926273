"""Pairs of sentences from files in the formats of MNLI and HANS."""

import json

import pytest

from flatlab.data import DataError
from flatlab.data._sentences import Pairs
from papers.andriushchenko2023.tests.sentences import HANS, LABELS, MNLI, tsv
from tests.refusals import refusal


@pytest.fixture
def mnli(tmp_path):
    rows = [(str(n), *row) for n, row in enumerate(MNLI)]
    names = ("index", "sentence1", "sentence2", "gold_label")
    return tsv(tmp_path / "dev_matched.tsv", names, rows)


@pytest.fixture
def hans(tmp_path):
    names = ("sentence1", "sentence2", "gold_label", "heuristic")
    return tsv(tmp_path / "heuristics_evaluation_set.txt", names, HANS)


def test_mnli_is_read_as_it_is_published(mnli):
    """Quotation marks are text, and pairs without a label are left out."""
    pairs = Pairs(mnli, LABELS, {})
    assert pairs.pairs == [row[:2] for row in MNLI if row[2] != "-"]
    assert pairs.labels == [1, 0, 2]
    assert pairs.classes == [[0], [1], [2]]


def test_lines_of_json_say_the_same(mnli, tmp_path):
    path = tmp_path / "multinli.jsonl"
    keys = ("sentence1", "sentence2", "gold_label")
    path.write_text("\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in MNLI))
    assert vars(Pairs(path, LABELS, {})) == vars(Pairs(mnli, LABELS, {}))


def test_hans_has_two_classes_of_which_one_is_two_outputs(hans):
    pairs = Pairs(hans, LABELS, {"heuristic": "lexical_overlap"})
    assert pairs.classes == [[1], [0, 2]]
    assert pairs.labels == [1, 0]
    alone = Pairs(hans, LABELS, {"heuristic": "subsequence", "gold_label": "non-entailment"})
    assert (alone.classes, alone.labels) == ([[1], [0, 2]], [1])


def test_a_choice_is_fixed_by_its_seed(mnli):
    chosen = [Pairs(mnli, LABELS, {}, 2, seed).pairs for seed in (0, 0, 1, 2, 3)]
    assert chosen[0] == chosen[1]
    assert all(len({*pairs}) == 2 for pairs in chosen)
    assert len({tuple(pairs) for pairs in chosen}) > 1


def test_what_does_not_fit_is_one_sentence(mnli, hans, tmp_path):
    (tmp_path / "bad.jsonl").write_text("{")
    unlabelled = tsv(tmp_path / "test.tsv", ("sentence1", "sentence2"), [("a", "b")])
    for path, labels, where, words in (
        (tmp_path / "dev.tsv", LABELS, {}, "dev.tsv is missing; put the published sentences there"),
        (mnli, ["yes", "no"], {}, "; the outputs are yes, no"),
        (mnli, LABELS, {"genre": "x"}, "has no column 'genre'; it has index, sentence1"),
        (hans, LABELS, {"heuristic": "constituent"}, "sentences with heuristic constituent"),
        (unlabelled, LABELS, {}, "has no column 'gold_label'"),
        (tmp_path / "bad.jsonl", LABELS, {}, "is not a line of JSON for each pair"),
    ):
        assert words in refusal(DataError, Pairs, path, labels, where)
