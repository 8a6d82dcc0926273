"""Captions: sentences that figures of several papers share.

They become part of a figure's settings when it is planned. No module that draws imports them, so
that an edit draws the figures that use the sentence alone. What is added for the page of a figure
alone is its `details`.
"""

CENTRAL = "Learning rate 0.1, batch size 20."

OVER_SEEDS = "Each thin line is one network, a bold one their median; an arrow: a value outside."
SIDE_BY_SIDE = "Bars side by side are of the same tick."
MARKS = "Dashed vertical: the mean training loss falls below 0.01."

TRAINING_SAMPLES = "Sharpness and compression are means over fixed training samples."
WITH_BOUNDS = "Sharpness, compression and bounds are means over fixed training samples."
G = "G is the mean squared Frobenius norm of the input-output Jacobian."
BEGINS = (
    "Interpolation begins at the first checkpoint where the mean training loss of a setting is "
    "below 0.01; a setting without a mark does not reach it."
)

AT_THE_END = "Each point is one trained network."
PAIRS = (
    "Three pairs, and all correlations over all networks with 95 % intervals; bold are those that "
    "decide a claim. The second page of the PDF has every quantity against every other."
)
INTERVALS = (
    "Intervals: jackknife over the seeds of each setting, on Fisher's z. Same setting: each "
    "network enters as its deviation from the mean of its setting."
)
KAPPA = "Relative flatness is large where it is sharp."
