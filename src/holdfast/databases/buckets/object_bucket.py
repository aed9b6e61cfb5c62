"""A bucket of a cloud or an S3-compatible server, through obstore.

Its blocking calls run in one thread: its asynchronous ones abort some processes as they exit.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from holdfast._core.bucket_url import BucketUrl
from holdfast._forks import Forked, register
from holdfast._ports.bucket import ABSENT, UNCHANGED, Absent, BucketProblem, BucketUnavailable, Found, Listed, Unchanged
from holdfast.databases.buckets.driver import RUNTIME, open_client
from holdfast.databases.buckets.errors import is_missing_bucket, unavailable
from holdfast.databases.call_thread import CallThread, Closed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import GetOptions, ObjectMeta, PutMode, PutResult


TIMEOUT = 5.0
_PAGE = 1000
_NO_STORE = {"Cache-Control": "no-store"}
"""Public objects of Google are cached for an hour without it."""

Result = TypeVar("Result")


class ObjectBucket(Forked):
    """Objects below the prefix of a URL. ``timeout``: seconds for one call with its body.

    Calls of one bucket wait for each other: open a second one for large objects beside small ones.
    """

    def __init__(self, url: BucketUrl, *, timeout: float = TIMEOUT) -> None:
        self._url, self._client, self._thread = url, open_client(url, timeout), CallThread("holdfast-bucket")
        register(self)

    async def get(self, key: str, unless: str | None = None) -> Found | Absent | Unchanged:
        import obstore
        from obstore.exceptions import NotModifiedError

        options: GetOptions = {} if unless is None else {"if_none_match": self._parts(unless)[1]}

        def read() -> Found | Absent | Unchanged:
            try:
                answer = obstore.get(self._client, key, options=options)
                return Found(bytes(answer.bytes()), self._etag(answer.meta), answer.meta["last_modified"])
            except NotModifiedError:
                return UNCHANGED
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return ABSENT

        return await self._run(f"GET {key}", read)

    async def put(self, key: str, body: bytes, match: str | Absent | None = None) -> str:
        import obstore

        mode = self._mode(match)
        return await self._run(
            f"PUT {key}",
            lambda: self._etag(obstore.put(self._client, key, body, attributes=_NO_STORE, mode=mode, use_multipart=False)),
        )

    async def delete(self, key: str) -> None:
        import obstore

        def remove() -> None:
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise

        await self._run(f"DELETE {key}", remove)

    async def list(self, folder: str = "") -> tuple[Listed, ...]:
        import obstore

        pages = await self._run("LIST", lambda: obstore.list(self._client, folder or None, chunk_size=_PAGE))
        found: list[Listed] = []
        # One page a call, so that writes between them need not wait for a long list.
        while (page := await self._run("LIST", lambda: _next(pages))) is not None:
            found += [Listed(each["path"], each["size"], each["last_modified"]) for each in page]
        return tuple(sorted(found, key=lambda each: each.key))

    async def close(self) -> None:
        self._thread.end()

    def after_fork_in_child(self) -> None:
        """Start a thread in the child, which inherits none."""
        self._thread = CallThread("holdfast-bucket")

    async def _run(self, call: str, act: Callable[[], Result]) -> Result:
        from obstore.exceptions import BaseError

        RUNTIME.use()

        def run() -> Result:
            try:
                return act()
            except (BaseError, OSError) as error:
                failed = unavailable(error, self._url, call)
            # Raised here, without a context: the driver's text quotes requests and answers.
            raise failed

        try:
            return await self._thread.run(run)
        except Closed:
            problem = f"{self._url.public}: {call}: this bucket is closed: open another one"
            raise BucketUnavailable(problem, BucketProblem.UNREACHABLE) from None

    def _etag(self, meta: "ObjectMeta | PutResult") -> str:
        """Return what later conditions name. Google's writes compare the generation, its reads the ETag."""
        etag = meta["e_tag"]
        if etag is None:
            raise OSError("no ETag")
        return f"{meta['version']}/{etag}" if self._url.scheme == "gs" else etag

    def _parts(self, etag: str) -> tuple[str | None, str]:
        """Return the generation, which only Google has, and the ETag of the server."""
        if self._url.scheme != "gs":
            return None, etag
        generation, _, rest = etag.partition("/")
        return generation, rest

    def _mode(self, match: str | Absent | None) -> "PutMode":
        if match is None:
            return "overwrite"
        if match is ABSENT:
            return "create"
        generation, etag = self._parts(match)
        return {"e_tag": etag} if generation is None else {"e_tag": etag, "version": generation}


def _next(pages: "Iterator[Sequence[ObjectMeta]]") -> "Sequence[ObjectMeta] | None":
    return next(pages, None)
