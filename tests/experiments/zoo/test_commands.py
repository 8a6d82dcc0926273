"""`flatlab measure --timm`: networks of timm on folders of images."""

from __future__ import annotations

from safetensors.torch import save_file

from flatlab import store
from flatlab.cli import main
from flatlab.networks import _timm as networks
from tests.experiments.zoo.surveys import NAME


def test_the_command_says_what_does_not_fit(weights, images, capsys, tmp_path):
    model = networks.build(NAME, num_classes=3)
    path = tmp_path / "mine.safetensors"
    save_file(model.state_dict(), path)
    arguments = ["measure", "--timm", NAME, "--weights", str(path), "--images", str(images)]
    assert main([*arguments, "--samples", "4"]) == 1  # of 1000 classes the file has 3
    assert "does not fit" in capsys.readouterr().err
    save_file(networks.load(NAME, weights).state_dict(), path)
    assert main([*arguments, "--samples", "4"]) == 1
    assert "not one of ImageNet's" in capsys.readouterr().err
    assert main(["measure", "--timm", NAME]) == 1
    assert "--timm and --images go together" in capsys.readouterr().err


def test_the_command_gives_both_quantities_with_errors_time_and_memory(imagenet, capsys, tmp_path):
    out = tmp_path / "report.zarr.zip"
    path = imagenet / "timm" / f"{NAME}.safetensors"
    arguments = ["measure", "--timm", NAME, "--weights", str(path)]
    arguments += ["--images", str(imagenet / "imagenet"), "--samples", "2", "--out", str(out)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for part in ("adaptive_sharpness_error", "normalized_mls_error", " s, ", "GB of memory"):
        assert part in printed
    report = store.load_dataset(out)
    assert report.attrs["weights"] == path.name
    assert float(report["finite"]) == 1


def test_images_of_other_classes_or_of_none_need_no_labels(imagenet, images, capsys):
    """With the outputs themselves as targets, whatever folder the images lie in."""
    path = str(imagenet / "timm" / f"{NAME}.safetensors")
    arguments = ["measure", "--timm", NAME, "--weights", path, "--samples", "2", "--images"]
    assert main([*arguments, str(images / "cat")]) == 1
    assert "have no labels; set own_targets: true" in capsys.readouterr().err
    for folder in (images, images / "cat"):
        assert main([*arguments, str(folder), "--options", "own_targets=true"]) == 0
        printed = capsys.readouterr().out
        assert "adaptive_sharpness_error" in printed
        assert "sample_accuracy" not in printed
