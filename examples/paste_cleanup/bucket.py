"""The bucket with the contents, through obstore: any S3-compatible one."""

import os
from collections.abc import Iterator, Sequence
from datetime import timedelta

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

AT_ONCE = 1000  # what one bulk delete of S3 takes


class Bucket:
    """``PASTES_BUCKET`` names it, as https://host/name; credentials come from AWS_ACCESS_KEY_ID and its kin, if they are set.

    Its calls block, and belong into threads.
    """

    def __init__(self, url: str | None = None) -> None:
        endpoint, _, name = (url or os.environ.get("PASTES_BUCKET", "http://127.0.0.1:9000/bucket")).rpartition("/")
        self._store = S3Store(
            name,
            endpoint=endpoint,
            region=os.environ.get("AWS_REGION", "us-east-1"),
            skip_signature="AWS_ACCESS_KEY_ID" not in os.environ,
            virtual_hosted_style_request=False,
            client_options={"allow_http": endpoint.startswith("http:"), "timeout": "20s"},
            # obstore sends the whole of a bulk delete again when one key of it has failed; a few keys are tried again below.
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=60)},
        )

    def put(self, name: str, text: bytes) -> None:
        """Store an object under its name."""
        obstore.put(self._store, name, text)

    def get(self, name: str) -> bytes:
        """Read the text of an object."""
        return bytes(obstore.get(self._store, name).bytes())

    def names(self) -> set[str]:
        """List the names of all objects."""
        return {found["path"] for page in obstore.list(self._store) for found in page}

    def delete(self, names: Sequence[str]) -> list[str]:
        """Return those that are gone now, or were before: one call for each thousand, unless some of them fail."""
        return [name for first in range(0, len(names), AT_ONCE) for name in self._deleted(names[first : first + AT_ONCE])]

    def _deleted(self, names: Sequence[str]) -> Iterator[str]:
        """obstore does not say which keys of a bulk delete have failed, so that each half is sent again, down to the key."""
        try:
            obstore.delete(self._store, names)
        except BaseError:
            if len(names) > 1:
                middle = len(names) // 2
                yield from self._deleted(names[:middle])
                yield from self._deleted(names[middle:])
        else:
            yield from names
