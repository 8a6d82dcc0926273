"""The quantities of the family `geometry` as numpy arrays."""

from flatlab.derivatives.checks.isolation import preserving_state
from flatlab.families import geometry
from flatlab.losses import half_mse
from flatlab.measuring.quantity import SampleSet, settings_of
from tests.measurement.comparing import ALL_COSTLY


def quantities(model, inputs, **options):
    settings = settings_of("geometry", {"costly": ALL_COSTLY, **options}, half_mse.Loss())
    with preserving_state(model):
        return geometry.measure(model, SampleSet(inputs), settings).values
