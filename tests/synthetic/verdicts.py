"""Made-up files of verdicts."""

from pathlib import Path

from flatlab.core import store
from flatlab.lab import plan

ABOUT = {
    "experiment": "mlp-grid",
    "name": "mlp-grid",
    "scale": "demo",
    "extent": "99 mlp (width 64) networks on digits; 1 left out (diverged or did not fit)",
    "evidence": "stand-in",
    "differs": [],
}
"""The attributes of a table."""


def estimate(value, half=0.1, n=20):
    """A number with an interval of half a width on each side."""
    ends = (None, None) if value is None else (value - half, value + half)
    return {"value": value, "low": ends[0], "high": ends[1], "n": n}


def entry(value=0.5, half=0.1, **more):
    """A number that decides a claim."""
    about = {"quantity": "rho(mls, nmls)", "claim": "> 0", "estimand": "over all networks"}
    return {**about, **estimate(value, half), **more}


def claim(key, verdict="holds", kind="own", **more):
    """A claim with its verdict.  key: its id.  more: fields that are others."""
    about = {"id": key, "text": "rho > 0", "quote": "they correlate", "source": "Sec. 1"}
    about |= {"nature": "finding", "repeats": "", "differs": [], "reason": "", "p": None}
    record = {**about, "kind": kind, "verdict": verdict, "thresholds": [], "evidence": [], **more}
    return record  # type: ignore[return-value]


def verdicts(target, *claims, **about):
    """The verdicts of a figure.  about: attributes of its table that are others."""
    return {"target": target, "claims": list(claims), "tables": {"mlp-grid": {**ABOUT, **about}}}


def write_verdicts(folder, content, picture=False):
    """A file of verdicts in a folder of results, and an empty picture of the figure."""
    place, key = plan.ResultsFolder(Path(folder)), content["target"].split("_")
    store.save_json(path := place.verdicts(*key), content)
    if picture:
        store.replace(place.figure(*key, "pdf"), b"")
    return path
