"""Hints on the wire between a broker and the workers and producers that reach it over HTTP."""

from typing import Final

import msgspec
from msgspec import Struct

from holdfast._ports.transport import Hint

PATH: Final = "/hints/v1"
LONGEST_WAIT: Final = 25.0
"""Seconds for which a broker holds back an answer without hints."""


class HintsAnswer(Struct, frozen=True):
    """The hints since a position, and the position after them; it names the broker's process, because a new one counts from 0."""

    position: str
    hints: tuple[Hint, ...]


encode = msgspec.msgpack.Encoder(uuid_format="bytes").encode
decode_published = msgspec.msgpack.Decoder(tuple[Hint, ...]).decode
decode_answer = msgspec.msgpack.Decoder(HintsAnswer).decode
