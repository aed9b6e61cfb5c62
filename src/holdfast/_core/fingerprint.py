"""The fingerprint of a failure: failures with one cause share it, so that a page can count them as one error."""

import hashlib
from collections.abc import Sequence

from msgspec import Struct

from holdfast._core.text import json_text

INSTALLED = ("site-packages", "dist-packages")
KEY_BYTES = 8


class Frame(Struct, frozen=True):
    """One frame of a traceback: the file and the module of its code, and the function as Python names it."""

    file: str
    module: str
    function: str


def error_key(task: str, reason: str, exception: str, frames: Sequence[Frame]) -> str:
    """Return 16 hexadecimal digits that group failures. ``exception``: the qualified class. ``frames``: the outermost one first.

    Lines and messages are left out: the first change with each release, the second with each job.

    >>> error_key("sync", "HANDLER_ERROR", "builtins.KeyError", [Frame("/srv/shop/orders.py", "shop.orders", "sync_line")])
    'f4ab3afa2ef20e99'
    """
    parts = json_text([task, reason, exception, origin_of(frames)])
    return hashlib.blake2b(parts.encode(), digest_size=KEY_BYTES).hexdigest()


def origin_of(frames: Sequence[Frame]) -> str:
    """Return ``module:function`` of the innermost frame outside installed packages, or of the innermost one if there is no other.

    >>> origin_of([Frame("/srv/shop.py", "shop", "pay"), Frame("/venv/lib/site-packages/bank.py", "bank", "call")])
    'shop:pay'
    """
    own = [frame for frame in frames if not is_installed(frame.file)] or frames
    return f"{own[-1].module}:{own[-1].function}" if own else ""


def is_installed(file: str) -> bool:
    """Return whether the file belongs to an installed package."""
    return not set(INSTALLED).isdisjoint(file.replace("\\", "/").split("/"))
