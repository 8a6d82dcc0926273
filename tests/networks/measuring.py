"""The quantities of the family `geometry` as numpy arrays."""

from flatlab.derivatives.isolation import preserving_state
from flatlab.losses import half_mse
from flatlab.metrics import geometry
from flatlab.metrics._quantity import Samples, settings_of

COSTLY = ("elementwise-adaptive-trace", "operator-norm", "corrected-bound")


def quantities(model, inputs, **options):
    settings = settings_of("geometry", {"costly": COSTLY, **options}, half_mse.Loss())
    with preserving_state(model):
        return geometry.measure(model, Samples(inputs), settings).values
