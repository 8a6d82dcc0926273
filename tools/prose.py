"""Rules of docs/style.md that a machine can see, by proselint: `python -m tools.prose [FILE ...]`.

Prose is what remains of a page without code, tables, links' targets and formulas; and the
docstrings of public functions, help texts and captions.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from proselint import checks
from proselint.registry.checks import Check, CheckResult
from proselint.registry.checks.types import PreferredForms
from proselint.tools import LintFile

import flatlab
from flatlab.cli import _main
from flatlab.lab import plan

WORDS = 25
"""A sentence has at most so many."""
INSTEAD = {
    "anew": "again",
    "at hand": "available",
    "mended": "fixed",
    "those of": "the noun again",
    "what is none": "an unknown name",
    "is none": "is not one",
    "is no": "is not a",
    "house": "code base",
    "culprit": "cause",
    "generalise": "generalize",
    "optimise": "optimize",
    "color": "colour",
    "license": "licence",
}
KNOWN = {
    *("CITATION", "FOLDER", "ICLR", "JAX", "KL", "MNIST", "PYTHONPATH"),
    *("FALSE", "NAME", "REPORT", "RUN", "TABLE", "TRUE"),  # in help texts
    *("API", "BERT", "BCE", "CI", "CIFAR", "CLIP", "CPU", "CSV", "CUDA", "FAQ", "FINDINGS", "GB"),
    *("GPT", "GPU", "HANS", "HF", "HUB", "ID", "IDs", "JPEG", "JSON", "MB", "MIG", "MIT", "MNLI"),
    *("NC", "NIPS", "NaN", "OFFLINE", "PAC", "PDF", "PGD", "PNAS", "PNG", "QR", "README", "RNG"),
    *("SAM", "SGD", "SIGKILL", "SIGTERM", "SSH", "SVG", "TF", "TMPDIR", "URL", "VGG", "YAML"),
}
"""Acronyms that need no explanation; all others stand in docs/glossary.md."""
OF_PROSELINT = ("malapropisms", "mondegreens", "nonwords", "uncomparables")
PAGES = (
    *("README.md", "FINDINGS.md", "CONTRIBUTING.md"),
    *("docs/*.md", "docs/measures/*.md", "docs/results/*.md", "docs/tutorials/*"),
)
INCLUDED = {"changelog", "contributing", "files", "findings", "tests"}
"""Pages that only include another file."""


def sentences(text: str) -> Iterator[re.Match[str]]:
    """A paragraph ends a sentence as well."""
    return re.finditer(r"[^\s.!?](?:[^.!?\n]|[.!?](?=[\w)])|\n(?!\n))*", text)


def length(text: str, check: Check) -> Iterator[CheckResult]:
    """Sentences that are too long."""
    for found in sentences(text):
        words = re.findall(r"[^\W\d_][\w'’-]*", found[0])
        if len(words) > WORDS:
            start = found[0][:40].replace("\n", " ")
            message = f"a sentence of {len(words)} words, {WORDS} at most: {start} ..."
            yield CheckResult(check.path, message, found.span(), None)


def acronyms(text: str, check: Check) -> Iterator[CheckResult]:
    """Acronyms that neither the glossary nor this file knows."""
    glossary = Path("docs/glossary.md").read_text()
    for found in re.finditer(r"\b[A-Z]{2,}\b", text):
        if found[0] not in KNOWN and found[0] not in glossary:
            yield CheckResult(check.path, f"{found[0]} is not in the glossary", found.span(), None)


OURS = [
    Check(length, path="flatlab.length"),
    Check(acronyms, path="flatlab.acronyms"),
    Check(PreferredForms(INSTEAD), path="flatlab.words", message="{1!r}; write: {0}"),
]


def texts() -> dict[str, str]:
    """All prose by where it stands."""
    pages = [path for pattern in PAGES for path in sorted(Path().glob(pattern))]
    found = {
        str(path): prose(path.read_text(), path.suffix == ".py")
        for path in pages
        if path.stem not in INCLUDED and path.suffix in (".md", ".py")
    }
    public = (getattr(flatlab, name) for name in flatlab.__all__ if name != "__version__")
    found["docstrings"] = prose("\n\n".join(inspect.getdoc(each) or "" for each in public))
    commands = _main.parser(None)[1].values()
    helps = [action.help or "" for command in commands for action in command._actions]
    told = [f"{command.description}\n\n{command.epilog}" for command in commands]
    found["help"] = prose("\n\n".join([*told, *helps]))
    captions = (figure.declared.caption for figure in plan.figures())
    found["captions"] = prose(
        "\n\n".join(c if isinstance(c, str) else " ".join(c) for c in captions)
    )
    return found


def prose(text: str, script: bool = False) -> str:
    """What is prose of a page, or of the comments of a script; a page keeps its lines."""
    if script:
        kept = re.findall(r'^""".*?"""|(?:^#[^\n]*\n)+', text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"^(# ?|\"{3})", "", "\n".join(kept), flags=re.MULTILINE)
        text = re.sub(r"^.*\n[=-]+$|^%%$", "", text, flags=re.MULTILINE)
    blank = lambda found: "\n" * found[0].count("\n")  # noqa: E731 - lines keep their numbers
    text = re.sub(r"^(```).*?^\1|^:.*$|^\{.*$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"<!--.*?-->|`[^`]*`|\$[^$]*\$", blank, text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^ *(?:\||#+ |>>>|flatlab ).*", "\n", text, flags=re.MULTILINE)
    return re.sub(r"^ *([-*]|\d+\.) ", "\n", text, flags=re.MULTILINE)


def breaches(name: str, text: str) -> list[str]:
    """`place:line: what`, for each breach."""
    here = LintFile(name, text or " ")
    found = [
        result
        for check in [*OURS, *(c for c in checks.__register__ if c.path.startswith(OF_PROSELINT))]
        for result in check.check_with_flags(here.content)
    ]
    lines = sorted((here.line_col_of(each.span[0])[0], each.message) for each in found)
    return [f"{name}:{line}: {message}" for line, message in lines]


def main() -> int:
    chosen = sys.argv[1:]
    wrong = 0
    for name, text in texts().items():
        if chosen and name not in chosen:
            continue
        if told := breaches(name, text):
            print("\n".join(told))
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
