"""Corrupted images: against formulas written out and other libraries; the test sets of them."""

import colorsys
import io
import itertools

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import ndimage, stats
from torch.nn import functional

from flatlab.core.schema import PlanError, convert
from flatlab.data import DataError, corruptions, load
from flatlab.data._tensors import prepare
from flatlab.data.corruptions import MADE, corrupted
from flatlab.data.corruptions import images as of_images
from flatlab.lab.kinds._sections import Measure
from tests.lab.train.packs import images
from tests.refusals import refusal

NOISE = ("gaussian-noise", "shot-noise", "impulse-noise")
RANDOM = {*NOISE, "glass-blur", "motion-blur", "snow", "fog", "elastic-transform"}
SEVERITIES = range(1, 6)


def smooth(count=24, channels=3, height=32, width=32, seed=0):
    """Images (samples, channels, height, width) in [0, 1] of a few waves each."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:height, 0:width]
    waves = generator.uniform(-0.4, 0.4, (count, channels, 2, 1, 1))
    phases = generator.uniform(0, 6, (count, channels, 1, 1))
    return 0.5 + 0.4 * np.sin(waves[:, :, 0] * rows + waves[:, :, 1] * columns + phases)


def last(x):
    return x.transpose(0, 2, 3, 1)


def check_close(found, expected, tolerance):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance, equal_nan=False)


class TestAll:
    @pytest.mark.parametrize("severity", SEVERITIES)
    @pytest.mark.parametrize("name", MADE)
    def test_images_stay_images_and_are_those_of_the_seed(self, name, severity):
        x = smooth(4)
        found = corrupted(x, name, severity, seed=1)
        assert (found.shape, found.dtype) == (x.shape, np.float64)
        assert 0 <= found.min() <= found.max() <= 1
        assert np.array_equal(found, corrupted(x, name, severity, seed=1))
        other = corrupted(x, name, severity, seed=2)
        assert np.array_equal(found, other) == (name not in RANDOM)
        assert not np.allclose(found, x, atol=1e-3)
        assert np.array_equal(x, smooth(4))
        for shape in ((8, 8), (1, 28, 28), (3, 20, 33)):
            found = corrupted(np.random.default_rng(0).random((3, *shape)), name, severity)
            assert found.shape == (3, *shape)
            assert np.isfinite(found).all()

    @pytest.mark.parametrize("name", sorted({*MADE} - {"elastic-transform", "glass-blur"}))
    def test_the_more_severe_the_further_from_the_clean_images(self, name):
        """The published parameters of the other two do not grow from one severity to the next."""
        x = smooth(60)
        distances = [np.abs(corrupted(x, name, each) - x).mean() for each in SEVERITIES]
        assert distances == sorted(distances)
        assert distances[4] > 1.5 * distances[0]

    def test_samples_that_are_no_images_are_refused(self):
        with pytest.raises(DataError, match=r"^fog is for images, but these data are none; leave"):
            corrupted(np.zeros((3, 5)), "fog", 1)


class TestNoise:
    x = np.full((40, 3, 32, 32), 0.4)

    def test_gaussian_noise_is_normal_with_the_published_deviation(self):
        for severity, deviation in enumerate((0.04, 0.06, 0.08, 0.09, 0.10), 1):
            noise = corrupted(self.x, "gaussian-noise", severity) - self.x
            scaled = noise.ravel() / deviation
            assert scaled.std() == pytest.approx(1, abs=0.01)
            assert stats.kstest(scaled, "norm").pvalue > 1e-3

    def test_shot_noise_has_the_moments_of_photons(self):
        for severity, photons in enumerate((500, 250, 100, 75, 50), 1):
            found = corrupted(self.x, "shot-noise", severity)
            assert found.mean() == pytest.approx(0.4, abs=0.002)
            assert found.var() == pytest.approx(0.4 / photons, rel=0.03)
            assert np.allclose(found * photons, np.rint(found * photons))

    def test_impulse_noise_is_black_and_white_in_equal_parts(self):
        for severity, fraction in enumerate((0.01, 0.02, 0.03, 0.05, 0.07), 1):
            found = corrupted(self.x, "impulse-noise", severity)
            for value in (0, 1):
                assert (found == value).mean() == pytest.approx(fraction / 2, rel=0.1)
            assert set(np.unique(found)) == {0, 0.4, 1}


class TestBlur:
    def test_defocus_is_a_convolution_with_a_softened_disk(self):
        """By torch's convolution and torchvision's Gaussian filter."""
        from torchvision.transforms.functional import gaussian_blur

        x = smooth(3)
        settings = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
        for severity, (radius, deviation) in enumerate(settings, 1):
            place = torch.arange(-8, 9).double()
            disk = (place[:, None] ** 2 + place**2 <= radius**2).double()
            kernel = gaussian_blur((disk / disk.sum())[None], 3, deviation)
            padded = functional.pad(torch.from_numpy(x), (8, 8, 8, 8), mode="reflect")
            expected = torch.conv2d(padded.flatten(0, 1)[:, None], kernel[None])
            found = corrupted(x, "defocus-blur", severity)
            check_close(found, expected.view(x.shape), 1e-12)

    def test_glass_takes_each_pixel_from_one_of_four(self, monkeypatch):
        """Pixel by pixel, with the moves drawn again; the first two rows and columns stay."""
        x = last(smooth(2, height=7, width=6))
        monkeypatch.setattr(of_images, "blurred", lambda x, deviation: x.copy())
        for severity, iterations in ((1, 1), (4, 2)):
            found = of_images.glass_blur(x, severity, np.random.default_rng(3))
            moves = np.random.default_rng(3).integers(-1, 1, size=(2, iterations, 7, 6, 2))
            for number, image in enumerate(x.copy()):
                for turn in range(iterations):
                    for row in reversed(range(2, 7)):
                        for column in reversed(range(2, 6)):
                            down, right = moves[number, turn, row, column]
                            image[row, column] = image[row + down, column + right]
                assert np.array_equal(found[number], image)

    def test_motion_is_a_weighted_mean_along_a_line(self):
        x = last(smooth(4))
        angles = np.array([0.0, 90.0, -90.0, 45.0])
        found = of_images.moved(x, 6, 2, angles)
        weights = np.exp(-(np.arange(13) ** 2) / 8)
        weights /= weights.sum()
        for number, (down, right) in enumerate([(0, 1), (1, 0), (-1, 0)]):
            expected = np.zeros_like(x[number])
            for step, weight in enumerate(weights):
                rows = np.clip(np.arange(32) + step * down, 0, 31)
                columns = np.clip(np.arange(32) + step * right, 0, 31)
                expected += weight * x[number][rows][:, columns]
            check_close(found[number], expected, 1e-14)
        diagonal = sum(
            weight * x[3, 10 + int(np.rint(step / 2**0.5)), 10 + int(np.rint(step / 2**0.5))]
            for step, weight in enumerate(weights)
        )
        assert found[3, 10, 10] == pytest.approx(diagonal, abs=1e-14)

    @pytest.mark.parametrize("severity", SEVERITIES)
    def test_zoom_is_a_mean_of_enlargements(self, severity):
        """By scipy's zoom of whole images."""
        count = (7, 12, 16, 21, 26)[severity - 1]
        x = last(smooth(1))[0]
        total = x.copy()
        for factor in 1 + np.arange(count) / 100:
            kept = int(np.ceil(32 / factor))
            first = (32 - kept) // 2
            centre = x[first : first + kept, first : first + kept]
            large = ndimage.zoom(centre, (factor, factor, 1), order=1)
            trimmed = (len(large) - 32) // 2
            total += large[trimmed : trimmed + 32, trimmed : trimmed + 32]
        found = last(corrupted(smooth(1), "zoom-blur", severity))[0]
        check_close(found, total / (count + 1), 1e-13)


class TestWeather:
    def test_brightness_is_added_to_the_value_of_a_colour(self):
        x = np.random.default_rng(0).random((1, 3, 8, 8))
        x[..., :2] = 0
        for severity, added in enumerate((0.05, 0.1, 0.15, 0.2, 0.3), 1):
            found = last(corrupted(x, "brightness", severity))[0]
            pixels = (colorsys.rgb_to_hsv(*pixel) for pixel in last(x)[0].reshape(-1, 3))
            brighter = [colorsys.hsv_to_rgb(h, s, min(v + added, 1)) for h, s, v in pixels]
            check_close(found.reshape(-1, 3), brighter, 1e-12)

    def test_clouds_are_plasma_on_a_torus(self):
        """By the diamond-square algorithm, pixel by pixel, with the noise drawn again."""
        found = of_images.plasma(2, 8, 2.5, np.random.default_rng(4))
        generator, clouds, step, amplitude = np.random.default_rng(4), np.zeros((2, 8, 8)), 8, 100.0
        while step > 1:
            half, cells = step // 2, 8 // step
            noise = amplitude**2 * generator.uniform(-1, 1, (2, 3, cells, cells))
            for number in range(2):
                cloud = clouds[number]

                def mean(*places, cloud=cloud):
                    return sum(cloud[row % 8, column % 8] for row, column in places) / 4

                corners = [*itertools.product(range(0, 8, step), repeat=2)]
                for row, column in corners:
                    around = [(row + a, column + b) for a in (0, step) for b in (0, step)]
                    extra = noise[number, 0, row // step, column // step]
                    cloud[row + half, column + half] = mean(*around) + extra
                for row, column in corners:
                    for kind, (y, x) in ((1, (row, column + half)), (2, (row + half, column))):
                        around = [(y - half, x), (y + half, x), (y, x - half), (y, x + half)]
                        extra = noise[number, kind, row // step, column // step]
                        cloud[y, x] = mean(*around) + extra
            step, amplitude = half, amplitude / 2.5
        for number in range(2):
            low, high = clouds[number].min(), clouds[number].max()
            check_close(found[number], (clouds[number] - low) / (high - low), 1e-12)

    def test_fog_keeps_the_largest_possible_value(self):
        x = smooth(5)
        found = corrupted(x, "fog", 5)
        assert (found.max((1, 2, 3)) <= x.max((1, 2, 3)) + 1e-12).all()
        differences = found * (x.max((1, 2, 3)) + 1.5)[:, None, None, None]
        differences = differences / x.max((1, 2, 3))[:, None, None, None] - x
        assert np.ptp(differences, axis=1).max() < 1e-12  # the same in all channels

    def test_snow_only_whitens(self):
        x = smooth(5)
        for severity in SEVERITIES:
            assert (corrupted(x, "snow", severity) >= 0.8 * x - 1e-12).all()
        grey = np.repeat(x[:, :1], 3, 1)
        one = corrupted(grey[:, :1], "snow", 2)
        check_close(corrupted(grey, "snow", 2), np.repeat(one, 3, 1), 1e-12)


class TestDigital:
    def test_contrast_scales_differences_from_the_mean_of_each_channel(self):
        x = smooth(3)
        for severity, factor in enumerate((0.75, 0.5, 0.4, 0.3, 0.15), 1):
            found = corrupted(x, "contrast", severity)
            assert found.mean((2, 3)) == pytest.approx(x.mean((2, 3)), abs=1e-12)
            assert found.std((2, 3)) == pytest.approx(factor * x.std((2, 3)), rel=1e-10)

    def test_jpeg_is_what_pillow_makes_of_the_bytes(self):
        pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
        for severity, quality in enumerate((80, 65, 58, 50, 40), 1):
            found = corrupted(pixels.transpose(0, 3, 1, 2) / 255, "jpeg-compression", severity)
            for image, expected in zip(pixels, last(found), strict=True):
                file = io.BytesIO()
                Image.fromarray(image).save(file, "JPEG", quality=quality)
                assert np.array_equal(np.asarray(Image.open(file)) / 255, expected)

    def test_pixels_are_means_over_boxes(self):
        """By Pillow's own resizing of each channel."""
        x = smooth(2)
        for severity, side in enumerate((30, 28, 27, 24, 20), 1):
            found = corrupted(x, "pixelate", severity)
            channels = zip(x.reshape(-1, 32, 32), found.reshape(-1, 32, 32), strict=True)
            for channel, expected in channels:
                image = Image.fromarray(channel.astype(np.float32))
                few = image.resize((side, side), Image.Resampling.BOX)
                again = np.asarray(few.resize((32, 32), Image.Resampling.BOX))
                check_close(expected, again, 1e-6)

    @pytest.mark.parametrize("severity", SEVERITIES)
    def test_an_elastic_transform_samples_twice_between_pixels(self, severity):
        """By torch's sampling and its own map, with the random numbers drawn again."""
        strength, deviation, shift = (
            *((0, 0, 2.56), (1.6, 6.4, 2.24), (2.56, 1.92, 1.92)),
            *((3.2, 1.28, 1.6), (3.2, 0.96, 0.96)),
        )[severity - 1]
        x = last(smooth(3))
        found = of_images.elastic_transform(x, severity, np.random.default_rng(5))
        generator = np.random.default_rng(5)
        moves = generator.uniform(-shift, shift, (3, 3, 2))
        noise = generator.uniform(-1, 1, (3, 2, 32, 32))
        old = np.array([[26, 26, 1], [6, 26, 1], [6, 6, 1]])
        grid = np.stack(np.mgrid[0:32, 0:32], -1).astype(float)
        for number in range(3):
            forward = np.linalg.solve(old, old[:, :2] + moves[number])
            backward = np.linalg.inv(np.column_stack([forward, [0, 0, 1]]))
            places = np.dstack([grid, np.ones((32, 32))]) @ backward[:, :2]
            image = torch.from_numpy(x[number].transpose(2, 0, 1))[None]
            places = torch.from_numpy(places[None, ..., ::-1] / 31 * 2 - 1)
            how = {"mode": "bilinear", "padding_mode": "reflection"}
            moved = functional.grid_sample(image, places, align_corners=True, **how)
            filtered = [ndimage.gaussian_filter(n, deviation, truncate=3) for n in noise[number]]
            places = grid + strength * np.stack(filtered, -1)
            places = torch.from_numpy(((places[None, ..., ::-1] + 0.5) / 32 * 2 - 1).copy())
            again = functional.grid_sample(moved, places, align_corners=False, **how)
            check_close(found[number], again[0].permute(1, 2, 0), 1e-12)


CHOSEN = {"corruptions": "all", "severity": 3, "size": 30, "source": "made", "seed": 0}
ALL_CLASSES = {"classes": "all", "scaling": "unit"}


def made(raw, classes="all", folder=None, **changes):
    return corruptions.test_set(raw, CHOSEN | changes, classes, folder)


class TestSets:
    def test_each_corruption_has_the_same_images(self):
        raw = load("digits")
        inputs, labels = made(raw, size=28, severity=1)
        assert inputs.shape == (28, 8, 8)
        assert (labels.reshape(14, 2) == labels[:2]).all()
        drawn = np.sort(np.random.default_rng(0).permutation(raw.sizes["test_sample"])[:2])
        assert labels[:2].tolist() == raw["test_labels"].values[drawn].tolist()
        clean = raw["test_inputs"].values[drawn] / 16
        for number, name in enumerate(MADE):
            expected = corrupted(clean, name, 1)
            assert np.array_equal(inputs[2 * number : 2 * number + 2], expected * 16)

    def test_they_are_scaled_as_the_test_images_are(self):
        raw = load("digits")
        identity = raw["test_inputs"].values[:9].astype(float), raw["test_labels"].values[:9]
        for change in ({}, {"scaling": "components"}, {"pixels": 4}, {"classes": [2, 0, 1]}):
            splits = prepare(raw, ALL_CLASSES | change, further={"again": identity})
            again, test = splits.further["again"], splits.test
            assert torch.equal(again.inputs, test.inputs[: len(again)])
            assert torch.equal(again.labels, test.labels[: len(again)])
            assert torch.equal(again.targets, test.targets[: len(again)])
            assert len(again) == 9 or "classes" in change

    def test_too_many_images_are_refused(self):
        expected = "size is 5097, but there are 364 images of each of 14 corruptions"
        message = refusal(DataError, made, load("digits"), size=5097)
        assert message == f"measure.test_sets: {expected}"

    @pytest.mark.parametrize("name", ["eight-points", "gaussian-pair"])
    def test_data_without_images_are_refused(self, name):
        with pytest.raises(DataError, match=f"{name} has no images; leave them out"):
            made(load(name))


@pytest.fixture
def published(tmp_path):
    """The files of CIFAR-10-C, made up: four images at each severity."""
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    generator = np.random.default_rng(0)
    np.save(folder / "labels.npy", np.tile([3, 1, 0, 3], 5))
    for name in (*MADE, "frost"):
        pixels = generator.integers(0, 256, (20, 32, 32, 3)).astype(np.uint8)
        np.save(folder / f"{name.replace('-', '_')}.npy", pixels)
    return tmp_path


def cifar10():
    raw = images((3, 32, 32), 20, 10)
    return raw.assign_attrs(title="CIFAR-10")


class TestPublished:
    def test_published_images_are_read_with_their_labels(self, published):
        options = {"source": "published", "severity": 2}
        _, chosen = made(cifar10(), [3, 0], folder=published, size=45, **options)
        assert set(chosen.tolist()) == {0, 3}
        inputs, labels = made(cifar10(), folder=published, size=60, **options)
        assert inputs.shape == (60, 3, 32, 32)
        assert (labels.reshape(15, 4) == [3, 1, 0, 3]).all()
        for number, name in enumerate((*MADE, "frost")):
            pixels = np.load(published / "CIFAR-10-C" / f"{name.replace('-', '_')}.npy")[4:8]
            part = inputs[4 * number : 4 * number + 4].transpose(0, 2, 3, 1)
            check_close(part, pixels.astype(float), 1e-12)

    @pytest.mark.parametrize("name", ["frost", "labels"])
    def test_a_file_that_is_missing_or_damaged_is_named(self, name, published):
        path = published / "CIFAR-10-C" / f"{name}.npy"
        options = {"source": "published", "corruptions": ["frost"], "size": 2}
        path.write_bytes(path.read_bytes()[:50])
        message = refusal(DataError, made, cifar10(), folder=published, **options)
        assert f"{path} is damaged; replace it" in message
        path.unlink()
        remedy = "put the files of CIFAR-10-C there, or set source: made"
        message = refusal(DataError, made, cifar10(), folder=published, **options)
        assert message == f"{path} is missing; {remedy}"

    def test_images_that_do_not_fit_their_labels_are_refused(self, published):
        np.save(published / "CIFAR-10-C/labels.npy", np.zeros(10, int))
        with pytest.raises(DataError, match=r"has images \(20, 32, 32, 3\) and 10 labels"):
            made(cifar10(), folder=published, source="published", size=2)

    def test_they_are_for_networks_on_cifar_10_alone(self, published):
        with pytest.raises(DataError, match="are not those of digits; set source: made"):
            made(load("digits"), folder=published, source="published")


MEASURE = {
    "families": ["accuracy"],
    "samples": {"train": {"split": "train", "size": 9, "seed": 0, "only": "all"}},
    "precision": "float64",
    "diverged_below": None,
}


class TestDeclarations:
    @pytest.mark.parametrize(
        ("change", "family", "sentence"),
        [
            ({"hard": {"corruptions": ["frost"]}}, "accuracy", "hard: frost needs photographs"),
            ({"test": {}}, "accuracy", "test_sets.test: is the name of the clean test set"),
            ({"hard": {"severity": 6}}, "accuracy", "severity: expected `int` <= 5"),
            ({"hard": {"corruptions": ["smog"]}}, "accuracy", "unknown value 'smog'"),
            ({"hard": {}}, "geometry", "test_sets: needs the family accuracy"),
        ],
    )
    def test_what_cannot_be_had_is_refused(self, change, family, sentence):
        sets = {name: {"severity": 5, "size": 9} | keys for name, keys in change.items()}
        content = {**MEASURE, "families": [family], "test_sets": sets}
        assert sentence in refusal(PlanError, convert, content, Measure, "measure.")
