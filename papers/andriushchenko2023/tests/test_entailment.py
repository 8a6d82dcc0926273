"""Pairs of sentences that are made here, with labels that follow from their meanings."""

import numpy as np

from flatlab import data
from flatlab.data import entailment


def sentences(inputs):
    """(pairs, 2, 4) numbers of words."""
    return np.asarray(inputs)[:, :, 0].argmax(1).reshape(-1, 2, 4)


def meaning(sentence):
    first, verb, last, mark = sentence
    passive = mark == entailment.NOUNS + entailment.VERBS + 1
    return (last, verb, first) if passive else (first, verb, last)


def test_labels_of_made_up_sentences_follow_from_their_meanings(tmp_path):
    raw = data.load("entailment", str(tmp_path))
    for part in ("train", "test", *entailment.HARD):
        inputs, labels = raw[f"{part}_inputs"], raw[f"{part}_labels"].values
        assert inputs.shape[1:] == entailment.SHAPE
        assert (inputs.sum(axis=1) == 1).all()  # one word in each place
        for (first, second), label in zip(sentences(inputs), labels, strict=True):
            one, two = meaning(first), meaning(second)
            opposite = (one[0], entailment.NOUNS + ((one[1] - entailment.NOUNS) ^ 1), one[2])
            expected = 1 if one == two else 0 if two == opposite else 2
            assert entailment.CLASSES[label] == entailment.CLASSES[expected]


def test_the_shortcut_is_right_in_training_and_wrong_where_it_is_tested(tmp_path):
    """Neutral pairs have other nouns or another verb, except for few in training."""
    raw = data.load("entailment", str(tmp_path))

    def different(part):
        """Of neutral pairs, the share with no word in common, but for the mark."""
        neutral = raw[f"{part}_labels"].values == 2
        words = sentences(raw[f"{part}_inputs"])[neutral][:, :, :3]
        return np.mean([not {*a} & {*b} for a, b in words])

    assert different("train") > 0.75
    assert different("train") < 0.95
    assert [different(kind) for kind in entailment.HARD] == [0, 0, 0]
