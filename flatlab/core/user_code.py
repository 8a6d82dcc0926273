"""Functions of the user's own code, `module:function`: models often lie in the working folder."""

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flatlab.core.contents import content_of
from flatlab.core.errors import MeasureError
from flatlab.core.studies import module_of_study, studies


@contextlib.contextmanager
def _importing(study: str) -> Iterator[None]:
    """Look for modules in the folder of a study first, or in the working folder."""
    sys.path.insert(0, str(studies()[study]) if study else os.getcwd())  # as `python -m` does
    try:
        yield
    finally:
        sys.path.pop(0)


def function_of(name: str, where: str, study: str = "") -> Callable[..., Any]:
    """The function that `module:function` names, looked for in the working folder first.

    name: as given.
    where: what gave it, for the message of the `MeasureError` if it cannot be had.
    study: the key of the one whose module it is, which is looked for in its folder.
    """
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise MeasureError(f"{where} {name}: it is written module:function, such as mine:build")
    module = module_of_study(module, study) if study else module
    try:
        with _importing(study):
            found = getattr(importlib.import_module(module), function)
    except Exception as error:  # whatever the user's code raises
        raise MeasureError(f"{where} {name}: {in_user_code(error)}") from None
    if not callable(found):
        raise MeasureError(f"{where} {name}: {function} is {type(found).__name__}, no function")
    result: Callable[..., Any] = found
    return result


def called(
    function: Callable[..., Any],
    where: str,
    name: str,
    study: str = "",
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """What a function of the user's returns; `MeasureError` with its place if it fails.

    where, name, study: as for `function_of`.
    arguments: of the function, by name.
    """
    try:
        with _importing(study):  # it may import more when it runs
            return function(**arguments)
    except Exception as error:  # whatever the user's code raises
        raise MeasureError(f"{where} {name}: {in_user_code(error)}") from None


def modules_here() -> dict[str, str]:
    """The content of all modules of the working folder that are imported, by file."""
    files = {getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]}
    here = [file for file in sorted(files) if Path(file).is_relative_to(Path.cwd())]
    return {file: content_of(file) for file in here if "site-packages" not in file}


def in_user_code(error: Exception) -> str:
    """The error; where it arose in code of the user's, the file and line, then their traceback."""
    ours = (__file__, importlib.__file__, "<frozen")
    steps = error.__traceback__
    while steps and steps.tb_frame.f_code.co_filename.startswith(ours):
        steps = steps.tb_next
    place = traceback.extract_tb(steps)
    if isinstance(error, SyntaxError):
        where, text = f"{error.filename}, line {error.lineno}", error.msg
    elif place:
        where, text = f"{place[-1].filename}, line {place[-1].lineno}", str(error)
    else:
        return str(error)
    theirs = "".join(traceback.format_exception(type(error), error, steps))
    return f"{where}: {type(error).__name__}: {text}\n\n{theirs.rstrip()}"
