"""The check of prose: what it finds, and what is no prose."""

import pytest

from tools import prose

LONG = "word " * 26


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (LONG, ["a sentence of 26 words, 25 at most"]),
        (f"{LONG[:60]}. {LONG[60:]}", []),
        ("Encoded anew.", ["'anew'; write: again"]),
        ("The XYZ of it.", ["XYZ is not in the glossary"]),
        ("The MLS of a network on a GPU.", []),
        (f"| a table | {LONG} |", []),
        (f"```sh\n{LONG}\n```", []),
        ("`anew` and [a page](anew.md).", []),
        ("Two\nlines, the second\nanew.", ["'anew'; write: again"]),
    ],
)
def test_what_is_found(text, found):
    told = prose.breaches("page", prose.prose(text))
    assert len(told) == len(found)
    assert all(part in line for part, line in zip(found, told, strict=True))


def test_a_breach_is_told_with_its_line_and_comments_of_a_script_are_prose():
    [told] = prose.breaches("page", prose.prose("Fine.\n\n```\ncode\n```\n\nEncoded anew."))
    assert told.startswith("page:7:")
    script = '"""\nTitle\n=====\n\nEncoded anew.\n"""\n\nanew = 1\n\n# %%\n# Once\n# anew.\n'
    assert len(prose.breaches("script", prose.prose(script, script=True))) == 2
