"""Networks that others released: their zoos, test sets and definitions of sharpness."""

VIT, VIT21K, CLIP, BERT = (f"released-{name}-zoo" for name in ("vit", "vit21k", "clip", "bert"))
IMAGES = {
    "test": "ImageNet",
    "imagenet-v2": "ImageNet-V2",
    "imagenet-r": "ImageNet-R",
    "imagenet-sketch": "ImageNet-Sketch",
    "imagenet-a": "ImageNet-A",
    "objectnet": "ObjectNet",
}
FOUR = ("test", "imagenet-r", "imagenet-sketch", "imagenet-a")
SENTENCES = {
    "test": "MNLI",
    "hans-lexical": "HANS lexical",
    "hans-subsequence": "HANS subsequence",
    "hans-constituent": "HANS constituent",
}
NORMALIZED, PLAIN = "worst-normalized-linf", "worst-adaptive-linf"
AVERAGE_NORMALIZED, AVERAGE_PLAIN = "average-normalized-linf", "average-adaptive-linf"

MEASURED = {"test_error": 99.0}
"""Networks with a larger test error, in %, are left out, as the paper leaves out two."""
