"""Bytes that several processes of a world read are decoded once: rows and heads are values, which no process changes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from msgspec import Struct

from holdfast._core.book import tables
from holdfast._core.book.table import RowChange
from holdfast.stores.objects import head

_HEADS, _CHANGES = 64, 4096


class _Decoded(Struct, frozen=True):
    """Rows as decoded."""

    rows: tuple[RowChange, ...]

    def changes(self) -> Iterator[RowChange]:
        return iter(self.rows)


class _Shared:
    """A decoder that remembers what it has decoded."""

    def __init__(self, decode: Any) -> None:
        self._decode = decode

    def decode(self, data: Any) -> Any:
        return self._decode(bytes(data))


@contextmanager
def decoded_once() -> Iterator[None]:
    """Decode equal bytes once until the context ends."""
    of_rows, of_heads = tables._decoder, head._decoder

    @lru_cache(_CHANGES)
    def rows(data: bytes) -> _Decoded:
        return _Decoded(tuple(of_rows.decode(data).changes()))

    tables._decoder, head._decoder = _Shared(rows), _Shared(lru_cache(_HEADS)(of_heads.decode))  # type: ignore[assignment]
    try:
        yield
    finally:
        tables._decoder, head._decoder = of_rows, of_heads
