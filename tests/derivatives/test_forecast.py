"""What takes more than a minute says so first."""

import warnings

import pytest

from flatlab.derivatives import forecast
from flatlab.derivatives.forecast import Forecast, duration


@pytest.mark.parametrize(("step", "said"), [(0.5, False), (2.0, True)])
def test_more_than_a_minute_is_forecast_once_in_a_sentence(step, said, monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr(forecast.time, "monotonic", lambda: step * next(now))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with Forecast("directions", 100, False) as steps:
            for _ in range(50):
                steps.tick()
    assert [str(warning.message) for warning in caught] == (
        ["directions will take about 3 minutes"] if said else []
    )


def test_durations_are_in_words():
    assert [duration(s) for s in (61, 150, 10_000)] == ["61 s", "2 minutes", "2.8 hours"]
