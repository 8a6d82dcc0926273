"""Sentences that several captions share, as plain strings; this module imports nothing.

They become part of a figure's settings when it is planned, so that an edit here redraws only the
figures that use the sentence.
"""

LEARNING_RATES = "Batch size 20."
BATCH_SIZES = "Learning rate 0.1."

TRAINING_SAMPLES = "Sharpness and compression are means over fixed training samples."
WITH_BOUNDS = "Sharpness, compression and bounds are means over fixed training samples."
G = "G is the mean squared Frobenius norm of the input-output Jacobian."

OVER_SEEDS = (
    "Mean over seeds 0-4 of each setting, with a band of one standard deviation, no wider than the "
    "range of the runs; the legend gives their number."
)
ONE_SETTING = (
    "Learning rate 0.1, batch size 20: mean over seeds 0-4, with a band of one standard deviation, "
    "no wider than the range of the runs."
)
MARKS = (
    "Dashed vertical marks: the first checkpoint where the mean training loss is below 0.01 and "
    "interpolation begins; a setting without a mark does not reach it."
)
ONE_MARK = (
    "The dashed vertical mark: the first checkpoint where the mean training loss is below 0.01."
)

MISCLASSIFIED = (
    "Losses are computed on the whole sets; the other quantities are means over fixed test "
    "samples, and over those that a network misclassifies at that checkpoint. A network that "
    "misclassifies none is left out of the mean; a gap means that no network misclassifies any."
)
CHAIN_OF_BOUNDS = (
    "Means over fixed training samples. A is the maximum local sensitivity (MLS), which B, C and D "
    "bound in turn (Eq. 59 of chen2026)."
)

AT_THE_END = "One point per network at the end of training."
FOUR_SEEDS = "One point per network at the end of training, seeds 0-3 of every setting."
CORRELATION = (
    "Pearson's correlation over the networks of a panel, with its 95 % interval in brackets "
    "(jackknife over the seeds of each setting, on Fisher's z). Below it: the correlation within "
    "settings, or adjusted for the training loss, where it has the other sign."
)
GAP = (
    "The gap is training minus test accuracy, in percentage points; relative sharpness is "
    "computed for the last layer."
)
