"""What andriushchenko2023 prints in its tables: Kendall's tau of sharpness and test errors.

By definition: for each test set, by radius. Bold there are those of at least 0.5.
"""

Taus = dict[str, tuple[tuple[float, ...], ...]]

TABLE3: Taus = {
    "average-standard-l2": ((0.14, 0.26, 0.28, 0.28), (0.04, 0.19, 0.21, 0.2)),
    "worst-standard-l2": ((0.17, 0.24, 0.25, 0.22), (0.1, 0.16, 0.18, 0.14)),
    "average-adaptive-l2": ((-0.37, -0.5, -0.42, -0.31), (-0.46, -0.53, -0.41, -0.31)),
    "worst-adaptive-l2": ((-0.36, -0.42, -0.27, -0.17), (-0.39, -0.36, -0.17, -0.07)),
    "average-normalized-l2": ((0.18, 0.07, -0.14, -0.43), (0.07, -0.04, -0.26, -0.58)),
    "worst-normalized-l2": ((0.19, 0.07, -0.13, -0.52), (0.14, 0.0, -0.22, -0.58)),
    "average-standard-linf": ((0.16, 0.28, 0.28, 0.28), (0.08, 0.21, 0.2, 0.2)),
    "worst-standard-linf": ((0.29, 0.3, 0.3, 0.29), (0.23, 0.24, 0.24, 0.23)),
    "average-adaptive-linf": ((-0.36, -0.53, -0.41, -0.2), (-0.47, -0.56, -0.41, -0.18)),
    "worst-adaptive-linf": ((-0.36, -0.05, 0.25, 0.26), (-0.42, -0.1, 0.2, 0.24)),
    "average-normalized-linf": ((0.18, 0.05, -0.23, -0.46), (0.07, -0.06, -0.37, -0.62)),
    "worst-normalized-linf": ((0.3, 0.29, 0.21, -0.04), (0.18, 0.16, 0.07, -0.19)),
}
"""ResNet-18 on CIFAR-10: its test images, and those of CIFAR-10-C."""

TABLE4: Taus = {
    "average-standard-l2": ((-0.45, -0.39, -0.2, -0.08), (-0.54, -0.49, -0.31, -0.2)),
    "worst-standard-l2": ((-0.59, -0.37, -0.16, -0.12), (-0.62, -0.43, -0.24, -0.2)),
    "average-adaptive-l2": ((-0.45, -0.45, -0.42, -0.1), (-0.5, -0.45, -0.47, 0.08)),
    "worst-adaptive-l2": ((-0.64, -0.32, -0.11, -0.07), (-0.53, -0.19, -0.01, -0.03)),
    "average-normalized-l2": ((-0.18, -0.28, -0.39, -0.44), (-0.31, -0.4, -0.46, -0.52)),
    "worst-normalized-l2": ((-0.21, -0.24, -0.22, -0.14), (-0.12, -0.17, -0.19, -0.11)),
    "average-standard-linf": ((-0.44, -0.35, -0.17, -0.04), (-0.54, -0.45, -0.28, -0.14)),
    "worst-standard-linf": ((-0.61, -0.46, -0.25, -0.16), (-0.63, -0.51, -0.31, -0.22)),
    "average-adaptive-linf": ((-0.45, -0.46, -0.45, -0.41), (-0.53, -0.5, -0.44, -0.47)),
    "worst-adaptive-linf": ((-0.68, -0.43, -0.26, -0.18), (-0.63, -0.4, -0.23, -0.18)),
    "average-normalized-linf": ((-0.11, -0.16, -0.31, -0.4), (-0.23, -0.29, -0.42, -0.47)),
    "worst-normalized-linf": ((-0.2, -0.22, -0.29, -0.39), (-0.23, -0.26, -0.34, -0.44)),
}
"""SimpleViT on CIFAR-10, as Table 3."""
