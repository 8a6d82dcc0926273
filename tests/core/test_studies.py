"""Studies: folders whose files are found, and fingerprinted, as those of the package are."""

import importlib
import shutil
import sys
from pathlib import Path

import pytest

from flatlab.cli import main
from flatlab.core.registry import keys_of, path_of
from flatlab.core.studies import use_studies
from flatlab.lab import plan
from flatlab.lab.plan.fingerprint import fingerprint
from tests.lab.plan.fingerprints import forget
from tests.refusals import refusal

CONFIG = {"studies": ["."], "papers": ["minewell"]}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A new study, in which the test runs; afterwards there is none."""
    monkeypatch.setenv("FLATLAB_STUDIES", "")
    folder = tmp_path / "mine-well"
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine-well"]) == 0
    monkeypatch.chdir(folder)
    yield folder
    use_studies([], "")
    forget_study()


def forget_study():
    """Its files are read anew, as in a new process."""
    for name in [name for name in sys.modules if "minewell" in name]:
        del sys.modules[name]
    importlib.import_module("flatlab.lab.plan.figures")._loaded.cache_clear()
    forget()


def test_a_study_is_planned_like_a_paper_and_the_others_have_the_same_fingerprints(study):
    alone = fingerprint("flatlab.networks.mlp", "flatlab.families.geometry")
    forget()
    found = plan.Plan(CONFIG)
    assert fingerprint("flatlab.networks.mlp", "flatlab.families.geometry") == alone
    assert [figure.target for figure in found.figures] == ["minewell_fig1", "minewell_fig2"]
    assert "minewell-net" in keys_of("networks")
    assert path_of("networks", "minewell-net") == study / "networks/minewell_net.py"
    assert "mlp" in keys_of("networks")
    claims = importlib.import_module("flatlab.papers.minewell.claims")
    assert [*claims.CLAIMS["fig1"]] == ["c1"]
    assert Path(claims.__file__) == study / "claims.py"


def codes():
    """The fingerprints of training, measuring and drawing."""
    forget_study()
    found = plan.Plan(CONFIG)
    figure = found.figures[0]
    return {
        **{key: code[0] for key, code in found.experiments["minewell-grid"].code().items()},
        "fig1": figure.code,
        "settings": str(figure.settings),
        "claims": plan.claims_code("minewell"),
        "data": plan.fingerprint(plan.module_of("data", "minewell-images")),
    }


@pytest.mark.more
def test_an_edit_in_the_study_changes_exactly_what_uses_it(study):
    before = codes()

    def changed_by(**edits):
        """By edits of files, each by a line or a replacement of a text."""
        kept = {study / path: (study / path).read_bytes() for path in edits}
        for path, (old, new) in edits.items():
            content = kept[study / path]
            (study / path).write_bytes(content.replace(old, new) if old else content + new)
        after = codes()
        for path, content in kept.items():
            path.write_bytes(content)
        return {name for name in before if before[name] != after[name]}

    network, code = "networks/minewell_net.py", (b"", b"\nX = 1\n")
    assert changed_by(**{network: code}) == {"train", "accuracy+geometry"}
    of_data = {"data/minewell_images.npz": (b"", b"more")}
    assert changed_by(**{"claims.py": code}, **of_data) == {"claims", "data"}
    title = {"figures.py": (b"sharpness, sensitivity", b"S, sensitivity")}
    assert changed_by(**{network: (b"", b"\n# a remark\n")}, **title) == {"settings"}


def refused(*folders):
    return refusal(plan.PlanError, plan.Plan, {**CONFIG, "studies": [*folders]})


def test_a_study_that_cannot_be_used_is_told_in_a_sentence(study):
    assert "nowhere is not a folder" in refused("nowhere")
    shutil.copytree(study, study.parent / "b/mine-well")
    assert "two studies are called minewell" in refused(".", "../b/mine-well")
    shutil.copytree(study, study.parent / "another")
    sentence = refused(".", "../another")
    assert "both have" in sentence
    shutil.copytree(study, study.parent / "chen2026")
    assert "chen2026 is a paper of flatlab" in refused("../chen2026")
    (study / "networks/mlp.py").write_text("")
    assert "networks/mlp.py of mine-well has the name of one of flatlab's" in refused(".")
    (study / "networks/mlp.py").unlink()
    shutil.copy(study / "experiments/minewell-grid.yaml", study / "experiments/mlp-grid.yaml")
    assert "experiments/mlp-grid.yaml of mine-well has the name" in refused(".")
    (study / "experiments/mlp-grid.yaml").unlink()
    (study / "figures.py").rename(study / "pictures.py")
    assert ". has no figures.py" in refused(".")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine-well", "exists already"),
        ("chen2026", "is a paper of flatlab"),
        ("2027", "is not a valid study name"),
        ("all", "is not a valid study name"),
    ],
)
def test_a_name_that_no_study_can_have_is_refused(study, monkeypatch, capsys, name, sentence):
    monkeypatch.chdir(study.parent)
    assert main(["new", name]) == 1
    assert sentence in capsys.readouterr().err


def test_build_needs_a_snakefile(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["build", "-n"]) == 1
    assert "there is no Snakefile here" in capsys.readouterr().err
