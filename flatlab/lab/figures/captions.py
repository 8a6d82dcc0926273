"""Captions: sentences that several figures share.

They become part of a figure's settings when it is planned. No module that draws imports them, so
that an edit draws the figures that use the sentence alone. What is added for the page of a figure
alone is its `details`.
"""

LEARNING_RATES = "Batch size 20."
BATCH_SIZES = "Learning rate 0.1."
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

MISCLASSIFIED = "Test samples, and those that a network misclassifies at the time."
MISCLASSIFIED_DETAILS = (
    "Losses are computed on the whole sets; the other quantities are means over fixed test "
    "samples, and over those that a network misclassifies at that checkpoint. A network that "
    "misclassifies none is left out of the median; a gap means that no network misclassifies any."
)
CHAIN_OF_BOUNDS = "A is the maximum local sensitivity (MLS), which B, C and D bound in turn."

AT_THE_END = "Each point is one trained network."
FOUR_SEEDS = "Each point is one trained network, seeds 0-3 of every setting."
PAIRS = (
    "Three pairs, and all correlations over all networks with 95 % intervals; bold are those that "
    "decide a claim. The second page of the PDF has every quantity against every other."
)
INTERVALS = (
    "Intervals: jackknife over the seeds of each setting, on Fisher's z. Same setting: each "
    "network enters as its deviation from the mean of its setting."
)
KAPPA = "Relative flatness is large where it is sharp."
TAU = "τ is Kendall's, with its 95 % interval."
BETWEEN_NETWORKS = "Kendall's tau-a; intervals: jackknife over networks, on Fisher's z."
GAP = (
    "The gap is training minus test accuracy, in percentage points; relative flatness is that of "
    "the last layer."
)
