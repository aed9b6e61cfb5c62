"""What a load balancer asks: whether the process answers, and whether its store does. Neither needs a token, nor shows what is stored."""

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from holdfast._ports.leading import Misdirected
from holdfast._ports.store import Store
from holdfast.errors import HoldfastError
from holdfast.http.openapi import PREFIX

READY: Final = 2.0
"""Seconds for the store to answer."""


def health(store: Callable[[], Store], *more: tuple[str, str]) -> list[Route]:
    """Return the two routes, ``more`` as pairs of other paths for both."""

    async def ready(_: Request) -> Response:
        try:
            async with asyncio.timeout(READY):
                await store().workers()
        except Misdirected as error:
            return PlainTextResponse("no broker leads", 503) if error.leader is None else PlainTextResponse("follows the leader")
        except (HoldfastError, TimeoutError) as error:
            return PlainTextResponse(f"the store does not answer: {type(error).__name__}", 503)
        return PlainTextResponse("ok")

    paths = ((f"{PREFIX}/health/live", f"{PREFIX}/health/ready"), *more)
    return [
        route for live, asked in paths for route in (Route(live, _alive, methods=["GET"]), Route(asked, ready, methods=["GET"]))
    ]


async def _alive(_: Request) -> Response:
    return PlainTextResponse("ok")
