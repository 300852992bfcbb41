"""Progress of long questions: a line that is rewritten, or a callback."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Iterator
from typing import Any, Callable, Optional, Union

from ._ask import Tell

Progress = Union[bool, Callable[[int, int], object]]

_SECONDS = 0.1  # between two texts


def _notebook_display() -> Any:
    """A display of the notebook that this process is the kernel of; None elsewhere."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    display = importlib.import_module("IPython.display").display
    return display({"text/plain": ""}, raw=True, display_id=True)


class _Line:
    """A line of standard error, or a display of a notebook, that is rewritten."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._display = _notebook_display()
        self._next = 0.0
        self._text = ""

    def tell(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next and done != total:
            return
        self._next = now + _SECONDS
        self._write(f"{self._name}: {100 * done // total} %" if total else f"{self._name}: {done}")

    def close(self) -> None:
        if self._text and self._display is None:
            print(file=sys.stderr, flush=True)

    def _write(self, text: str) -> None:
        if self._display is not None:
            self._display.update({"text/plain": text}, raw=True)
        else:
            print("\r" + text.ljust(len(self._text)), end="", file=sys.stderr, flush=True)
        self._text = text


@contextlib.contextmanager
def shown(progress: Progress, name: str) -> Iterator[Optional[Tell]]:
    """The callback for ask(): a line named `name` for True, none for False, else `progress` itself."""
    if callable(progress):
        yield progress
    elif not progress:
        yield None
    else:
        line = _Line(name)
        try:
            yield line.tell
        finally:
            line.close()
