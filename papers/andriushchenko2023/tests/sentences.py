"""Pairs of sentences as MNLI and HANS publish them."""

LABELS = ["contradiction", "entailment", "neutral"]
MNLI = [
    ("A cat sits.", 'It "sits".', "entailment"),
    ("A dog runs.", "It sleeps.", "contradiction"),
    ("A man.", "A tall man.", "-"),
    ("Two\u2028lines.", "One.", "neutral"),
]
HANS = [
    ("the dog saw the cat .", "the cat saw the dog .", "non-entailment", "lexical_overlap"),
    ("the dog and the cat ran .", "the dog ran .", "entailment", "lexical_overlap"),
    ("the dog near the cat ran .", "the cat ran .", "non-entailment", "subsequence"),
]


def tsv(path, names, rows):
    path.write_text("\n".join("\t".join(row) for row in [names, *rows]) + "\n", encoding="utf-8")
    return path
