"""The quantities of the family `geometry` as numpy arrays."""

from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.families import geometry
from flatlab.losses import half_mse
from flatlab.measuring.quantity import SampleSet, settings_of

COSTLY = ("elementwise-adaptive-trace", "operator-norm", "corrected-bound")


def quantities(model, inputs, **options):
    settings = settings_of("geometry", {"costly": COSTLY, **options}, half_mse.Loss())
    with preserving_state(model):
        return geometry.measure(model, SampleSet(inputs), settings).values
