"""What an error says of a user's mistake: one sentence."""

import pytest


def refusal(kind, call, *args, **kwargs):
    """The message of the error that a call raises, which must be one sentence."""
    with pytest.raises(kind) as error:
        call(*args, **kwargs)
    message = str(error.value)
    assert "\n" not in message
    return message
