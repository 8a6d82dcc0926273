"""Pairs of sentences of which the first entails the second or not; made here, not fetched.

A sentence is a noun, a verb, a noun, and a mark of the active or of the passive, which exchanges
the roles of the nouns. The second sentence is entailed if it says the same. In training most pairs
without entailment have different words, so that comparing the words is a shortcut; in the further
test sets all have the same words or nearly so, and none is entailed, as in HANS (McCoy et al.,
2019): the nouns are exchanged, the mark is, or one word is another.

An input has a channel per word of the vocabulary and a column per place: 1 where the word stands.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data import Arrays, dataset

NOUNS, VERBS, MARKS = 6, 4, 2
SHAPE = (12, 1, 8)
OUTPUTS = 2
CLASSES = ("not entailed", "entailed")
HARD = 0.1
"""The share of the pairs without entailment that have the same words, in training."""

KINDS = ("exchanged-nouns", "other-mark", "other-word")


def load(folder: Path) -> xr.Dataset:
    """2,000 training and 1,000 test pairs, and 400 of each further kind; `folder` is not used."""
    generator = np.random.default_rng(0)
    return dataset(
        train=_mixed(2000, generator),
        test=_mixed(1000, generator),
        further={kind: _pairs([kind] * 400, generator) for kind in KINDS},
        maximum=1,
        classes=list(CLASSES),
        title="entailment",
        source="made here",
        licence="MIT",
    )


def _mixed(count: int, generator: np.random.Generator) -> Arrays:
    """Half of the pairs are entailed."""
    chance = generator.random(count)
    hard = generator.choice(KINDS, count)
    kinds = np.where(chance < HARD, hard, "other-words")
    return _pairs(np.where(generator.random(count) < 0.5, "same", kinds), generator)


def _pairs(kinds: np.ndarray | list[str], generator: np.random.Generator) -> Arrays:
    """Inputs (pairs, 12, 1, 8) and labels (pairs)."""
    sentences = np.array([_pair(kind, generator) for kind in kinds]).reshape(len(kinds), -1)
    one_hot = np.eye(NOUNS + VERBS + MARKS, dtype=np.uint8)[sentences]
    return one_hot.transpose(0, 2, 1)[:, :, None], np.array([kind == "same" for kind in kinds])


def _pair(kind: str, generator: np.random.Generator) -> tuple[list[int], list[int]]:
    first = _sentence(generator)
    agent, verb, patient, mark = first
    other_mark = _other(mark, NOUNS + VERBS, MARKS, generator)
    if kind == "exchanged-nouns":
        return first, [patient, verb, agent, mark]
    if kind == "other-mark":
        return first, [agent, verb, patient, other_mark]
    if kind == "other-word":
        return first, [agent, _other(verb, NOUNS, VERBS, generator), patient, mark]
    if kind == "same":
        return first, [first, [patient, verb, agent, other_mark]][generator.integers(2)]
    second = _sentence(generator)
    while _meaning(second) == _meaning(first):
        second = _sentence(generator)
    return first, second


def _sentence(generator: np.random.Generator) -> list[int]:
    """Two different nouns, a verb and a mark, by their numbers in the vocabulary."""
    agent, patient = generator.choice(NOUNS, 2, replace=False)
    verb, mark = generator.integers(VERBS), generator.integers(MARKS)
    return [int(agent), int(NOUNS + verb), int(patient), int(NOUNS + VERBS + mark)]


def _meaning(sentence: list[int]) -> tuple[int, int, int]:
    """Who does what to whom."""
    first, verb, last, mark = sentence
    return (first, verb, last) if mark == NOUNS + VERBS else (last, verb, first)


def _other(word: int, first: int, count: int, generator: np.random.Generator) -> int:
    """Another word of the same kind, which has the numbers from `first` on."""
    return first + (word - first + 1 + int(generator.integers(count - 1))) % count
