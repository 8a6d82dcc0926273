"""Pairs of sentences of which the first entails or contradicts the second, or neither.

Made here, not fetched. A sentence is a noun, a verb, a noun, and a mark of the active or of the
passive, which exchanges the roles of the nouns; verbs come in pairs of opposites. The second
sentence is entailed if it says the same, and contradicts the first if it says the opposite. In
training most neutral pairs have different words, so that comparing the words is a shortcut; in the
further test sets all are neutral although they have nearly the same words, as in HANS (McCoy et
al., 2019): the nouns are exchanged, the mark is, or the verb is another, not the opposite.

An input has a channel per word of the vocabulary and a column per place: 1 where the word stands.
"""

from pathlib import Path

import numpy as np
import xarray as xr

from flatlab.data._dataset import Arrays, dataset

NOUNS, VERBS, MARKS = 6, 4, 2
SHAPE = (12, 1, 8)
OUTPUTS = 3
CLASSES = ("contradiction", "entailment", "neutral")
LABELS = {"opposite": 0, "same": 1}
"""Of kinds of pairs; all others are neutral."""

HARD = ("exchanged-nouns", "other-mark", "other-verb")
HARD_SHARE = 0.15
"""The share of the neutral pairs in training that have nearly the same words."""


def load(folder: Path) -> xr.Dataset:
    """2,000 training and 1,000 test pairs, and 400 of each hard kind; `folder` is not used."""
    generator = np.random.default_rng(0)
    return dataset(
        train=_mixed(2000, generator),
        test=_mixed(1000, generator),
        further={kind: _pairs([kind] * 400, generator) for kind in HARD},
        maximum=1,
        classes=list(CLASSES),
        title="entailment",
        source="made here",
        licence="MIT",
    )


def _mixed(count: int, generator: np.random.Generator) -> Arrays:
    """As many pairs of each class, up to chance."""
    hard = generator.random(count) < HARD_SHARE
    neutral = np.where(hard, generator.choice(HARD, count), "other-words")
    clear = generator.choice(["opposite", "same", "neutral"], count)
    return _pairs(np.where(clear == "neutral", neutral, clear), generator)


def _pairs(kinds: np.ndarray | list[str], generator: np.random.Generator) -> Arrays:
    """Inputs (pairs, 12, 1, 8) and labels (pairs)."""
    sentences = np.array([_pair(kind, generator) for kind in kinds]).reshape(len(kinds), -1)
    one_hot = np.eye(NOUNS + VERBS + MARKS, dtype=np.uint8)[sentences]
    labels = np.array([LABELS.get(kind, CLASSES.index("neutral")) for kind in kinds])
    return one_hot.transpose(0, 2, 1)[:, :, None], labels


def _pair(kind: str, generator: np.random.Generator) -> tuple[list[int], list[int]]:
    first = _sentence(generator)
    agent, verb, patient, mark = first
    marks = NOUNS + VERBS
    other_mark = 2 * marks + 1 - mark
    opposite = NOUNS + ((verb - NOUNS) ^ 1)
    unrelated = NOUNS + ((verb - NOUNS) ^ int(generator.integers(2, VERBS)))
    match kind:
        case "exchanged-nouns":
            return first, [patient, verb, agent, mark]
        case "other-mark":
            return first, [agent, verb, patient, other_mark]
        case "other-verb":
            return first, [agent, unrelated, patient, mark]
        case "other-words":
            second = _sentence(generator)
            while {*second[:3]} & {*first[:3]}:
                second = _sentence(generator)
            return first, second
    said = opposite if kind == "opposite" else verb
    forms = [agent, said, patient, mark], [patient, said, agent, other_mark]
    return first, forms[generator.integers(2)]


def _sentence(generator: np.random.Generator) -> list[int]:
    """Two different nouns, a verb and a mark, by their numbers in the vocabulary."""
    agent, patient = generator.choice(NOUNS, 2, replace=False)
    verb, mark = generator.integers(VERBS), generator.integers(MARKS)
    return [int(agent), int(NOUNS + verb), int(patient), int(NOUNS + VERBS + mark)]
