"""Payloads of many jobs of one task, encoded and checked at once."""

from collections.abc import Sequence

from holdfast._core.payload import ENCODER, PAYLOAD_LIMIT, SORTING, PayloadType, has_only_finite


def encode_many(kind: PayloadType, payloads: Sequence[object], *, is_compared: bool = False) -> list[bytes] | None:
    """Return the payloads of calls with these arguments, by name; each is what ``kind.encode`` returns for it.

    ``None`` if one of them must be looked at by itself: it is wrong, or not plain enough. Two calls of the encoder and the decoder
    for all of them take a sixth of the time of two for each.

    >>> def resize(path: str, width: int = 800) -> None: ...
    >>> encode_many(PayloadType.of(resize, skip=0), [{"path": "a.png"}, {"path": "b.png"}])
    [b'{"path":"a.png"}', b'{"path":"b.png"}']
    """
    if {*map(type, payloads)} - {dict}:
        return None
    try:
        lines = (SORTING if is_compared else ENCODER).encode_lines(payloads)
        encoded = lines.split(b"\n")  # JSON has no other line ends: those in strings are escaped
        encoded.pop()
        if len(encoded) != len(payloads) or max(map(len, encoded), default=0) > PAYLOAD_LIMIT:
            return None
        kind.exact.decode_lines(lines)
        suspects = (payload for payload, line in zip(payloads, encoded, strict=True) if b"null" in line)
        return encoded if b"null" not in lines or all(map(has_only_finite, suspects)) else None
    except Exception:  # hooks of the user's types run here and may raise anything; the caller finds the payload that does not fit
        return None
