"""What the wheel holds: the package, and the workflow as `flatlab/workflow`, from where it lies."""

from setuptools import find_packages, setup

WORKFLOW = "flatlab.workflow"
FOLDERS = ("data", "families", "losses", "networks", "simulations", "train/*")
"""Of the studies that ship."""

setup(
    packages=[*find_packages(include=["flatlab*"]), WORKFLOW],
    package_dir={WORKFLOW: "."},
    package_data={
        "flatlab": ["template/*", "template/*/*", "lab/publish/*.html"],
        WORKFLOW: [
            *("Snakefile", "config.yaml", "rules/*.smk", "scripts/*.py"),
            *("papers/*/*.py", "papers/*/*/*.yaml", "papers/*/printed/*.csv"),
            *(f"papers/*/{folder}/*.py" for folder in FOLDERS),
            *("envs/*.yaml", "report/*.rst", "profiles/*/*", "profiles/*/*/*"),
        ],
    },
)
