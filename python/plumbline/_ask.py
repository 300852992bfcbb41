"""Requests to the compiled module, and its errors as exceptions."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Union

from . import _native

Value = Union[str, int, float, bool, Mapping[str, Any]]
Config = Union[str, "os.PathLike[str]", Mapping[str, Value], None]
Tell = Callable[[int, int], object]


class PlumblineError(Exception):
    """An error of plumbline, one line. `exit_code` is the code that the program ends with."""

    def __init__(self, line: str, exit_code: int = 4) -> None:
        super().__init__(line)
        self.exit_code = exit_code


class InputError(PlumblineError, ValueError):
    """A configuration, value or file that is not as expected; exit code 2."""


class DoesNotFit(PlumblineError):
    """No configuration fits the memory; exit code 3."""


def error_of(line: str, exit_code: int) -> PlumblineError:
    kind = {2: InputError, 3: DoesNotFit}.get(exit_code, PlumblineError)
    return kind(line, exit_code)


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy and pandas, and paths, as JSON has them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return os.fspath(value)


def ask(request: Mapping[str, Any], progress: Optional[Tell] = None) -> dict[str, Any]:
    """The reply to one request of `plumbline ask` (bench/ask/ask.schema.json).

    progress: called now and then as progress(done, all), all 0 if unknown; its exception ends the answer.
    Raises InputError, DoesNotFit or PlumblineError for a reply with `error`.
    """
    reply: dict[str, Any] = json.loads(_native.answer(json.dumps(request, default=_plain), progress))
    if "error" in reply and "exit_code" in reply:
        raise error_of(reply["error"], reply["exit_code"])
    return reply


def request_of(
    kind: str, config: Config, keys: Mapping[str, Value], lengths: Optional[Iterable[int]] = None
) -> dict[str, Any]:
    """A request about one configuration: a file or preset, a mapping, keys, or several of them.

    lengths: its `sequence_lengths`.
    """
    request: dict[str, Any] = {"ask": kind}
    if isinstance(config, Mapping):
        keys = {**config, **keys}
    elif config is not None:
        request["config"] = os.fspath(config)
    request["keys"] = dict(keys)
    if lengths is not None:
        request["sequence_lengths"] = lengths if hasattr(lengths, "tolist") else list(lengths)
    return request
