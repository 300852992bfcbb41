"""The compiled module: one function for all questions."""

def answer(request: str) -> str:
    """The reply to one request of `plumbline ask`, both JSON.

    Other threads run meanwhile. KeyboardInterrupt ends a search or a validation.
    """

def ask_schema() -> str:
    """The JSON schema of requests and replies."""
