"""What an error says of a user's mistake: one sentence."""

import pytest

import flatlab


def refusal(kind, call, *args, **kwargs):
    """The message of the error that a call raises, which must be one sentence."""
    with pytest.raises(kind) as error:
        call(*args, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    return message


def refused(words, call, *args, **kwargs):
    """A call is refused by a MeasureError, in whose one sentence some words stand."""
    message = refusal(flatlab.MeasureError, call, *args, **kwargs)
    for part in [words] if isinstance(words, str) else words:
        assert part in message, message
