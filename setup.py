"""What the wheel holds: the package, and the workflow as `flatlab/workflow`, from where it lies."""

from setuptools import find_packages, setup

WORKFLOW = "flatlab.workflow"

setup(
    packages=[*find_packages(include=["flatlab*"]), WORKFLOW],
    package_dir={WORKFLOW: "."},
    package_data={
        "": ["printed/*.csv"],
        "flatlab": ["template/*", "template/*/*"],
        WORKFLOW: [
            *("Snakefile", "config.yaml", "rules/*.smk", "scripts/*.py", "experiments/*.yaml"),
            *("envs/*.yaml", "report/*.rst", "profiles/*/*", "profiles/*/*/*"),
        ],
    },
)
