"""Attributes that are replaced for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def patched(owner: object, **names: Any) -> Iterator[None]:
    """Replace these attributes of ``owner`` until the context ends."""
    with pytest.MonkeyPatch.context() as patch:
        for name, made in names.items():
            patch.setattr(owner, name, made)
        yield
