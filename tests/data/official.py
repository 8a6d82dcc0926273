"""Official files of data sets, made up: small, with the names and formats of the real ones."""

import gzip
import hashlib
import io
import pickle
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

COUNT = 4
"""Images of each made-up batch of CIFAR."""


@dataclass(frozen=True)
class Official:
    """A data set as published.

    key: its key here.  name: its title.  kind: the name of torchvision's class.
    files: what is downloaded, by name.  places: folders where these may lie.
    unpacked: what an archive holds, by path; empty where nothing is packed.
    inputs, labels: what is read of "train" and "test".
    shape, counts: of an image, and how many the real files hold of each split.
    sums: sets the checksums of torchvision's class to those of the made-up files.
    """

    key: str
    name: str
    kind: str
    files: dict[str, bytes]
    places: tuple[str, ...]
    inputs: dict[str, np.ndarray]
    labels: dict[str, list[int]]
    shape: tuple[int, ...]
    counts: dict[str, int]
    sums: Callable[..., None]
    classes: list[str]
    unpacked: dict[str, bytes] = field(default_factory=dict)

    @property
    def torchvision(self):
        import torchvision

        return getattr(torchvision.datasets, self.kind)


def md5(content):
    return hashlib.md5(content).hexdigest()


def fashion_mnist():
    files, inputs, labels = {}, {}, {}
    for split, part, count in (("train", "train", 5), ("test", "t10k", 3)):
        inputs[split] = (np.arange(count * 784) % 251).reshape(count, 28, 28).astype(np.uint8)
        labels[split] = list(range(4, 4 + count))
        for kind, magic, values in (
            ("images-idx3", 0x803, inputs[split]),
            ("labels-idx1", 0x801, np.array(labels[split], np.uint8)),
        ):
            header = np.array([magic, *values.shape], ">i4").tobytes()
            files[f"{part}-{kind}-ubyte.gz"] = gzip.compress(header + values.tobytes())

    def sums(kind, patch):
        patch.setattr(kind, "resources", [(name, md5(files[name])) for name in files])

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal"]
    return Official(
        *("fashion-mnist", "Fashion-MNIST", "FashionMNIST"),
        files=files,
        places=(".", "fashion-mnist", "FashionMNIST/raw"),
        inputs=inputs,
        labels=labels,
        shape=(28, 28),
        counts={"train": 60_000, "test": 10_000},
        sums=sums,
        classes=[*classes, "Shirt", "Sneaker", "Bag", "Ankle boot"],
    )


def _packed(contents):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in {**contents, "readme.html": b"read me"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def cifar(number):
    """CIFAR-10, of five batches, or CIFAR-100, of one, whose labels are called fine."""
    ten = number == 10
    train = [f"data_batch_{batch}" for batch in range(1, 6)] if ten else ["train"]
    test, meta = ("test_batch", "batches.meta") if ten else ("test", "meta")
    folder = "cifar-10-batches-py" if ten else "cifar-100-python"
    named, lists = ("labels", "label_names") if ten else ("fine_labels", "fine_label_names")
    classes = [f"class {each}" for each in range(number)]
    generator = np.random.default_rng(number)
    batches = {
        name: {
            named: generator.integers(0, number, COUNT).tolist(),
            "data": generator.integers(0, 256, (COUNT, 3072)).astype(np.uint8),
            **({} if ten else {"coarse_labels": [0] * COUNT}),
        }
        for name in [*train, test]
    }
    contents = {name: pickle.dumps(batch, 2) for name, batch in batches.items()}
    contents[meta] = pickle.dumps({lists: classes}, 2)
    unpacked = {f"{folder}/{name}": contents[name] for name in sorted(contents, reverse=True)}
    files = {f"cifar-{number}-python.tar.gz": _packed(unpacked)}

    def sums(kind, patch):
        (archive,) = files.values()
        patch.setattr(kind, "tgz_md5", md5(archive))
        patch.setattr(kind, "train_list", [[name, md5(contents[name])] for name in train])
        patch.setattr(kind, "test_list", [[test, md5(contents[test])]])
        patch.setattr(kind, "meta", {**kind.meta, "md5": md5(contents[meta])})

    splits = {"train": train, "test": [test]}
    return Official(
        *(f"cifar{number}", f"CIFAR-{number}", f"CIFAR{number}"),
        files=files,
        places=(".", f"cifar{number}"),
        inputs={
            split: np.concatenate([batches[name]["data"] for name in names]).reshape(-1, 3, 32, 32)
            for split, names in splits.items()
        },
        labels={
            split: [label for name in names for label in batches[name][named]]
            for split, names in splits.items()
        },
        shape=(3, 32, 32),
        counts={"train": 50_000, "test": 10_000},
        sums=sums,
        classes=classes,
        unpacked=unpacked,
    )
