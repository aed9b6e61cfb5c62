"""A recording of a page as an animated picture: Playwright's videos need a program that its wheel does not have."""

import base64
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import Page

FEWEST = 0.2
"""Seconds between two frames that are kept."""


class Recording:
    """The frames of a page, from now until it is saved."""

    def __init__(self, page: "Page", width: int, height: int) -> None:
        self._frames: list[tuple[float, bytes]] = []
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._add)
        self._session.send("Page.startScreencast", {"format": "png", "maxWidth": width, "maxHeight": height})

    def save(self, target: Path, seconds: float, quality: int = 30) -> float:
        """Write the frames of the first seconds as animated WebP; return how many seconds it shows."""
        self._session.send("Page.stopScreencast")
        kept: list[tuple[float, bytes]] = []
        for at, data in self._frames:
            if (not kept or at - kept[-1][0] >= FEWEST) and at - self._frames[0][0] <= seconds:
                kept.append((at, data))
        pictures = [Image.open(io.BytesIO(data)).convert("RGB") for _, data in kept]
        ends = [at for at, _ in kept[1:]] + [kept[-1][0] + 3]
        lasting = [round((end - at) * 1000) for (at, _), end in zip(kept, ends, strict=True)]
        pictures[0].save(target, save_all=True, append_images=pictures[1:], duration=lasting, loop=0, quality=quality, method=4)
        return sum(lasting) / 1000

    def _add(self, frame: dict[str, Any]) -> None:
        self._frames.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})
