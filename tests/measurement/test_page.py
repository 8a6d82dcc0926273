"""The pages docs/measures.md and docs/networks.md: their examples, tables and settings."""

import re
from pathlib import Path

import pytest

from flatlab.metrics import (
    accuracy,
    adaptive,
    capacity,
    diagonal,
    feature_robustness,
    flatness,
    geometry,
    hessian,
    jacobian,
    linear,
    ma_ying,
    normalized_sharpness,
    redrawn,
    representations,
    representativeness,
    sharpness,
    spectrum,
    uniform_robustness,
)
from flatlab.simulations import _ridge as features

PAGE = Path(__file__).parents[2] / "docs" / "measures.md"


SIGNS = {
    "||": "‖",
    "sqrt(": "√(",
    "dtheta": "dθ",
    "theta": "θ",
    "sigma": "σ",
    "Gamma": "Γ",
    "kappa": "κ",
    "^-2": "⁻²",
    "^2N": "^(2N)",
    "^2": "²",
    "^T": "ᵀ",
    "<=": "≤",
    ">=": "≥",
    "|": "\\|",
}


def sign(text):
    for plain, pretty in SIGNS.items():
        text = text.replace(plain, pretty)
    return text


def table(family):
    """The table of a family's quantities as the page should have it."""
    lines = ["| name | definition | dimensions | units | source |", "|---|---|---|---|---|"]
    for name, q in family.QUANTITIES.items():
        cells = [f"`{name}`", sign(q.long_name), ", ".join(q.dims), sign(q.units), q.source]
        lines.append(f"| {' | '.join(cell or '–' for cell in cells)} |")
    return "\n".join(lines)


def test_the_first_example_of_the_page_runs(capsys):
    code = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL).group(1)
    assert len(code.splitlines()) <= 14
    exec(compile(code, "docs/measures.md", "exec"), {})
    assert capsys.readouterr().out


FAMILIES = {
    family.__name__.rpartition(".")[2]: family
    for family in (
        *(geometry, accuracy, hessian, jacobian, adaptive),
        *(linear, diagonal, flatness, capacity, sharpness),
        *(representations, feature_robustness, representativeness, spectrum),
        *(ma_ying, normalized_sharpness, redrawn, uniform_robustness),
    )
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_tables_of_the_page_are_those_of_the_code(family):
    name = family.__name__.rpartition(".")[2]
    expected = table(family)
    found = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- end -->", PAGE.read_text(), re.DOTALL)
    assert found, f"docs/measures.md needs the table between <!-- {name} --> and <!-- end -->"
    assert found.group(1) == expected, f"docs/measures.md should have:\n{expected}"


def test_the_page_names_every_setting_and_nothing_that_does_not_exist():
    text = PAGE.read_text()
    for word in (
        *("elementwise-adaptive-trace", "operator-norm", "corrected-bound"),
        *geometry.NORMS,
        *geometry.BOUNDS,
    ):
        assert f"`{word}`" in text or f'"{word}"' in text, word
    quantities = {name for family in FAMILIES.values() for name in family.QUANTITIES}
    underscored = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text))
    settings = {"singular_values", "batch_size", "batch_norm", "test_set", "test_sets"}
    settings |= {"output_change"}
    for family in (
        *(flatness, capacity, representations),
        *(feature_robustness, representativeness, uniform_robustness),
    ):
        settings |= {*family.Options.__struct_fields__}
    functions = {"approximated_bound", "loss_nearby"}
    assert all(callable(getattr(features, name)) for name in functions)
    notes = {
        "class_weights",
        "layers_left_out",
        "parameters_by_generic_gradient",
        "parameters_unused",
    }
    notes |= {"derivatives_not_checked", "ignore_index"}
    notes |= {"parameters_frozen", "named_modules", "quantities_left_out"}
    notes |= {"representations_left_out", "representations_directions", "held_out"}
    assert underscored <= quantities | functions | settings | notes | {*FAMILIES}


def test_every_block_of_the_page_on_large_networks_runs(capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.with_name("large.md").read_text(), re.DOTALL)
    assert len(blocks) == 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/large.md", "exec"), names)
    assert "'embedding'" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_every_block_of_the_page_on_networks_runs(monkeypatch, capsys):
    import torch

    monkeypatch.setattr(torch, "compile", lambda model: torch._dynamo.optimize("eager")(model))
    blocks = re.findall(
        r"```python\n(.*?)```", PAGE.with_name("networks.md").read_text(), re.DOTALL
    )
    assert len(blocks) >= 8
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/networks.md", "exec"), names)
    ignored, masked = capsys.readouterr().out.splitlines()
    assert ignored == "4"  # samples
    assert masked.startswith("6 ")  # positions
