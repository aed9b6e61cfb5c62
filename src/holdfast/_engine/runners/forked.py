"""What happens to a child that a handler forked."""

import os

FORKED = 70
"""Exit code of a forked child that came back from a handler (``EX_SOFTWARE``)."""


class exits_in_forked_child:  # noqa: N801 - used as a word
    """Ends a child that the code forked where the code ends: if it came back, it would run what its parent runs."""

    def __enter__(self) -> None:
        self._process = os.getpid()

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._process:
            os._exit(FORKED)
