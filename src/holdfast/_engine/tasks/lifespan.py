"""What the handlers of one worker share: opened once per worker before its first claim, closed after its drain."""

import inspect
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from holdfast.errors import ConfigurationError

logger = logging.getLogger("holdfast")


class Lifespan:
    """One worker's lifespan; ``state`` is what the user's context manager yielded, which handlers see as ``job.state``."""

    def __init__(self, open: Callable[[], AbstractAsyncContextManager[Any]] | None = None) -> None:
        self._open = open
        self._entered: AbstractAsyncContextManager[Any] | None = None
        self.state: Any = None

    async def enter(self) -> None:
        """Enter the user's context; ``ConfigurationError`` with what its code raised: a worker without it would fail every job."""
        if self._open is None:
            return
        try:
            context = self._open()
            self.state = await context.__aenter__()
        except (Exception, SystemExit) as error:
            from holdfast._engine.error_text import described

            problem = f"lifespan failed: {described(error)}; no job can run without what it opens"
            raise ConfigurationError([problem]) from error
        self._entered = context

    async def leave(self) -> None:
        """Leave the user's context. All jobs have ended, so an error here is only logged."""
        context, self._entered, self.state = self._entered, None, None
        if context is None:
            return
        try:
            await context.__aexit__(None, None, None)
        except (Exception, SystemExit):
            logger.exception("lifespan failed while it was left")


def problems_of_lifespan(open: object) -> list[str]:
    """Return what is wrong with ``App(lifespan=…)`` itself."""
    if open is None:
        return []
    if inspect.isasyncgenfunction(open) or inspect.iscoroutinefunction(open):
        return ["lifespan: decorate it with @contextlib.asynccontextmanager, and yield once"]
    if not callable(open):
        return [f"lifespan={open!r}: pass a function that takes the App and returns an async context manager"]
    return []
