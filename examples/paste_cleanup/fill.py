"""Pastes by the thousand, or the million: ``python fill.py --expired 1000000 --contents 100000``."""

import argparse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

from bucket import Bucket
from cache import Cache
from paste import digest
from tables import connected, create, insert

EXPIRED, LATER = "2001-01-01 00:00:00", "2999-01-01 00:00:00"
CACHED = 100  # every so many-th paste is in the cache


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expired", type=int, default=20_000, help="pastes that are to go")
    parser.add_argument("--live", type=int, default=1_000, help="pastes that are to stay")
    parser.add_argument("--contents", type=int, default=2_000, help="contents that they share")
    asked = parser.parse_args()
    if not 0 < asked.contents <= asked.expired:
        parser.error("each content has one expired paste at least: --contents is 1 … --expired")
    content_of = contents_of(asked.expired + asked.live, asked.contents)
    store(asked.contents, content_of, asked.expired)
    with connected() as connection:
        create(connection)
        uses = Counter(content_of)
        insert(
            connection, "contents", ((each, digest(text(each)), name(each), uses[each], "LIVE") for each in range(asked.contents))
        )
        insert(connection, "pastes", pastes(content_of, asked.expired))
    print(f"{asked.expired:,} expired and {asked.live:,} live pastes share {asked.contents:,} contents")


def contents_of(pastes: int, contents: int) -> list[int]:
    """Choose the content of each paste: each content has one, the others by chance, the same at each call."""
    chance = Random(pastes)
    return [*range(contents), *(chance.randrange(contents) for _ in range(pastes - contents))]


def pastes(content_of: list[int], expired: int) -> Iterator[tuple[int, int, str, str]]:
    for paste, content in enumerate(content_of):
        yield paste, content, EXPIRED if paste < expired else LATER, "LIVE"


def store(contents: int, content_of: list[int], expired: int) -> None:
    """Objects before the rows that name them."""
    bucket, cache = Bucket(), Cache()
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(lambda each: bucket.put(name(each), text(each)), range(contents)):
            pass
    for paste in (*range(0, len(content_of), CACHED), expired):
        if paste < len(content_of):
            cache.keep(paste, text(content_of[paste]))


def text(content: int) -> bytes:
    return f"This is content {content}.\n".encode()


def name(content: int) -> str:
    return f"contents/{content:016x}"


if __name__ == "__main__":
    main()
