"""From the configuration and the experiments to typed, immutable records of what to build.

It needs the standard library, yaml and msgspec. Rules import this package of flatlab, and no other.
"""

from flatlab.core.paths import (
    PROOFS,
    PUBLISHED,
    RESULTS,
    ResultsFolder,
    built_at,
    command,
    published_at,
    record_of,
    redrawn_at,
)
from flatlab.core.registry import experiment_files, keys_of, module_of
from flatlab.core.schema import SCALES, PlanError, closest
from flatlab.lab.plan.declarations import (
    Curves,
    CustomFigure,
    Intervals,
    Lines,
    Matrix,
    Pairs,
    Panel,
    Paper,
    Points,
    Sweep,
)
from flatlab.lab.plan.experiments import Experiment, PlannedJob, keys_of_kinds, read_experiment
from flatlab.lab.plan.figures import (
    FIGURE_KEY,
    Figure,
    claims_code,
    correlations_code,
    figures,
    papers,
    targets,
    why_not,
)
from flatlab.lab.plan.fingerprint import fingerprint
from flatlab.lab.plan.plan import (
    Plan,
    record_start,
    require_writable_snakemake_folder,
    set_job_environment,
)
from flatlab.lab.plan.published import as_published, outdated, published_figures, published_scales
