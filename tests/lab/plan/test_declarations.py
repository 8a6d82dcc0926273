"""What papers declare of their figures: checked while planning; data that one job depends on."""

import ast
import shutil
from pathlib import Path

import pytest

from flatlab.core.registry import experiment_files
from flatlab.core.studies import PAPERS
from flatlab.lab import plan
from flatlab.lab.figures import captions
from flatlab.lab.plan.figures import load
from tests.refusals import refusal

EXPERIMENTS = ("vgg-grid", "mlp-grid", "vision-zoo")
HEAD = """
from flatlab.lab.plan import Curves, CustomFigure, Matrix, Pairs, Paper, Points
from flatlab.lab.figures import captions

PAPER = Paper(
    title="A paper", citation="Somebody, 2030", cited="S. (2030)", targets=("fig1", "fig2", "figH8")
)
"""
ABOUT = 'title="a title", caption="A caption."'


@pytest.fixture
def declared(tmp_path):
    """write(body, paper) writes a paper's figures.py; returns what is loaded of all papers."""

    def write(body, paper="someone2030", head=HEAD):
        folder = tmp_path / paper
        folder.mkdir(exist_ok=True)
        (folder / "figures.py").write_text(head + body)
        folders = {path.parent.name: path.parent for path in tmp_path.glob("*/figures.py")}
        return load(folders, EXPERIMENTS)

    return write


def figures_of(body):
    return f"FIGURES = {{{body}}}\n"


def settings_of(loaded):
    return {
        figure.target: figure.settings for _, declared in loaded.values() for figure in declared
    }


def test_a_quantity_that_is_spelt_almost_as_one_is_told_before_anything_is_trained(declared):
    body = figures_of(f'"fig2": Curves("vgg-grid", quantities=("log mls", "sharpnes"), {ABOUT})')
    with pytest.warns(UserWarning, match="'sharpnes', which no .*; did you mean 'sharpness'"):
        settings_of(declared(body))


# What is wrong is one sentence

MLS = 'quantities=("mls",)'
CURVES = f'"fig2": Curves("vgg-grid", {MLS}, {ABOUT}'
WRONG = {
    "experiment": (
        f'"fig2": Curves("vgg-gird", {MLS}, {ABOUT})',
        "fig2: unknown experiment 'vgg-gird'; did you mean 'vgg-grid'? Known: mlp-grid, vgg-grid",
    ),
    "one of several experiments": (
        f'"fig2": Pairs(("vgg-grid", "mpl-grid"), pairs=(("a", "b"),), {ABOUT})',
        "fig2: unknown experiment 'mpl-grid'; did you mean 'mlp-grid'?",
    ),
    "too many experiments": (
        f'"fig2": Matrix(("vgg-grid", "mlp-grid"), {MLS}, {ABOUT})',
        "fig2: experiments: Matrix shows one, found vgg-grid, mlp-grid",
    ),
    "value": (
        f'"fig2": Points("vgg-grid", panel="a", panels={{}}, y="y", correlation="rhoo", {ABOUT})',
        "fig2: correlation: unknown value 'rhoo'; did you mean 'rho'? Known: ",
    ),
    "range": (f"{CURVES}, across=0)", "fig2: across: expected `int` >= 1, found 0"),
    "one string for several": (
        f'"fig2": Curves("vgg-grid", quantities="mls", {ABOUT})',
        "fig2: quantities: expected `array`, got `str`, found 'mls'; allowed: list of string",
    ),
    "size": (
        f"{CURVES}, size_inches=(3,))",
        "fig2: size_inches: expected `array` of length 2, got 1, found (3,)",
    ),
    "no template": (
        '"fig1": {"quantities": ["mls"]}',
        "fig1: expected one of Curves, Sweep, Lines, Pairs, Points, Intervals, Matrix, CustomFig",
    ),
    "target": (
        f'"figH9": CustomFigure("vgg-grid", {ABOUT})',
        "figH9: not among the paper's targets; did you mean 'figH8'? Known: fig1, fig2, figH8",
    ),
    "own module": (
        f'"fig2": CustomFigure("vgg-grid", {ABOUT})',
        "fig2: papers/someone2030/fig2.py, which draws it, is missing",
    ),
    "no figures": ("FIGURE = {}\n", "FIGURES must be there, and a dict"),
    "no paper": ("PAPER = None\nFIGURES = {}\n", "PAPER must be there, and a Paper"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_one_sentence_with_paper_figure_culprit_and_remedy(case, declared):
    body, sentence = WRONG[case]
    whole = body if case in ("no figures", "no paper") else figures_of(body)
    message = refusal(plan.PlanError, declared, whole)
    assert message.startswith(f"papers/someone2030/figures.py: {sentence}")


# A declaration is data


def test_a_paper_is_found_by_its_folder_and_adds_to_nothing_else(declared):
    before = settings_of(declared(figures_of(f"{CURVES})")))
    after = declared(
        figures_of(f'"fig1": Matrix("mlp-grid", quantities=("mls",), {ABOUT})'), "a2031"
    )
    assert [*after] == ["a2031", "someone2030"]
    assert settings_of(after) == before | {"a2031_fig1": settings_of(after)["a2031_fig1"]}


def test_settings_are_the_whole_declaration_as_plain_data(declared):
    loaded = declared(figures_of(f'{CURVES}, where={{"lr": 0.1}})'))
    stated = {
        **{"paper": "someone2030", "key": "fig2", "cited": "S. (2030), Figure 2"},
        **{"title": "a title", "caption": "A caption.", "experiments": ["vgg-grid"]},
        **{"quantities": ["mls"], "where": {"lr": 0.1}, "publication": False},
    }
    defaults = {
        "selected_by": "flatlab.lab.figures.curves",
        "drawn_by": "flatlab.lab.figures.curves",
        **{"through_training": True, "correlated": [], "size_inches": [7.1, 4.9]},
        **{"labels": {"mls": "MLS"}, "samples": ["train"], "line": "setting", "axes": {}},
        **{"across": None, "marks": True, "looks": {}, "named": []},
        **{"logarithmic": []},
    }
    found = settings_of(loaded)["someone2030_fig2"]
    assert found | stated | defaults == found


def test_only_what_shows_correlations_reads_their_files():
    correlated = {figure.target: figure.correlated for figure in plan.figures()}
    grids = ["vgg-grid", "mlp-grid", "lenet-grid"]
    expected = {f"chen2026_figH{7 + n}": [grid] for n, grid in enumerate(grids)}
    expected |= {"chen2026_fig4": grids, "beyond_fig14": ["mlp-grid", "lenet-grid", "vgg-grid"]}
    assert {target: keys for target, keys in correlated.items() if keys} == expected


@pytest.fixture
def copied(tmp_path):
    """A copy of the papers' folders, to be edited, and what is loaded of it."""
    folder = shutil.copytree(PAPERS, tmp_path / "papers")
    folders = {path.parent.name: path.parent for path in folder.glob("*/figures.py")}
    return folder, lambda: settings_of(load(folders, experiment_files()))


def changed(before, after):
    assert before.keys() == after.keys()
    return {target for target in before if before[target] != after[target]}


def test_an_edit_changes_the_settings_of_the_figures_that_it_is_of(copied, monkeypatch):
    """A declaration its own, a shared sentence those that use it, a remark and a docstring none."""
    folder, load_again = copied
    before = load_again()
    for path in folder.glob("*/figures.py"):
        path.write_text(path.read_text().replace('"""What', '# A remark.\n"""Again, what'))
    path = folder / "chen2026" / "figures.py"
    path.write_text(path.read_text().replace('"batch sizes", "VGG"', '"batch sizes", "another"'))
    assert changed(before, load_again()) == {"chen2026_fig3"}
    monkeypatch.setattr(captions, "SIDE_BY_SIDE", "Side by side.")
    monkeypatch.setattr(captions, "G", "G is a number.")  # on pages alone, which nothing draws
    after = load_again()
    of_sentence = {"beyond_fig8", "petzka2021_fig3", "petzka2021_fig4"}
    assert changed(before, after) == of_sentence | {"chen2026_fig3"}
    assert "Side by side." in after["petzka2021_fig3"]["caption"]


def test_every_shared_sentence_is_shared():
    declared = [figure.declared for figure in plan.figures()]
    texts = [sentence for each in declared for sentence in (each.caption, each.details)]
    for name in (name for name in dir(captions) if name.isupper() and name != "TYPE_CHECKING"):
        assert sum(getattr(captions, name) in text for text in texts) > 1, name


def test_each_target_is_drawn_or_says_what_it_needs():
    drawn = {figure.target for figure in plan.figures()}
    assert drawn <= {*plan.targets()}
    assert plan.why_not("chen2026_fig2") == ""
    alike = {"chen2062_figH8": "chen2026_figH8", "figH8": "chen2026_figH8", "all_": "all"}
    for asked, meant in alike.items():
        message = refusal(plan.PlanError, plan.why_not, asked)
        assert f"unknown target {asked!r}; did you mean {meant!r}?" in message
    for name, paper in plan.papers().items():
        assert Path(PAPERS, name, "figures.py").is_file()
        assert {*paper.needs} <= {*paper.targets}
        for target, what in ((f"{name}_{key}", what) for key, what in paper.needs.items()):
            assert target in drawn or plan.why_not(target).endswith(f"it needs {what}")


@pytest.mark.parametrize("path", sorted(PAPERS.glob("*/figures.py")), ids=lambda p: p.parent.name)
def test_a_figure_that_a_template_draws_is_declared_in_a_dozen_lines(path):
    """What does not fit, such as a long caption, stands above under a name."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "FIGURES":
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                lines = value.end_lineno - value.lineno + 1
                assert lines <= 12 or value.func.id == "CustomFigure", ast.literal_eval(key)


def test_the_newest_papers_come_first_and_figures_in_their_order():
    years = [int(name[-4:]) for name in plan.papers() if name[-4:].isdigit()]
    assert years == sorted(years, reverse=True)
    assert [*plan.papers()][-1] == "beyond"
    for name, paper in plan.papers().items():
        shown = [figure.key for figure in plan.figures() if figure.paper == name]
        if paper.targets:
            assert shown == [key for key in paper.targets if key in shown]
