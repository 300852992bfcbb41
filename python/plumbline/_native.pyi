"""The compiled module: one function for all questions."""

from collections.abc import Callable
from typing import Optional

__version__: str

def answer(request: str, progress: Optional[Callable[[int, int], object]] = None) -> str:
    """The reply to one request of `plumbline ask`, both JSON.

    Other threads run meanwhile. progress: called now and then as progress(done, all), all 0 if unknown, maybe
    by another thread. Its exception, or KeyboardInterrupt, ends a search, size, comparison or validation.
    """

def ask_schema() -> str:
    """The JSON schema of requests and replies."""
