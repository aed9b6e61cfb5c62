"""The URL of a bucket and a prefix in it: checked, and without secrets, which come from the environment.

It is read without any driver, so that a wrong URL is reported as a problem of the settings.
"""

import re
from typing import Literal, Self
from urllib.parse import SplitResult, parse_qsl, urlsplit

from msgspec import Struct

from holdfast._core.durations import seconds
from holdfast._core.schemes import BUCKETS
from holdfast._core.write_budget import DAY, LEAST, MINUTE, apart

Scheme = Literal["s3", "gs", "az", "memory-object"]
Broker = Literal["auto", "require", "never"]

_LOOKS = "s3://bucket/prefix?region=eu-central-1, gs://bucket/prefix, az://account/container/prefix or memory-object://name"
_BROKER = ("auto", "require", "never")
_WRITES = {"writes_per_minute": MINUTE, "writes_per_day": DAY}
_COMMON = ("broker", "interval", *_WRITES)
_OPTIONS = {
    "s3": ("endpoint", "profile", "region", *_COMMON),
    "gs": ("endpoint", *_COMMON),
    "az": ("endpoint", *_COMMON),
    "memory-object": _COMMON,
}
_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or name a profile with ?profile=",
    "gs": "set GOOGLE_APPLICATION_CREDENTIALS in the environment to the path of a key file",
    "az": "set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN in the environment",
    "memory-object": "a bucket in memory needs none",
}
_BUCKET = {
    "s3": re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"),
    "gs": re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]"),
    "az": re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]"),
    "memory-object": re.compile(r"[A-Za-z0-9_.-]{1,63}"),
}
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_SEGMENT = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.=-]{1,200}")
_COUNT = re.compile(r"[0-9]{1,9}")
_WORD = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# A name that is shown must not be a secret that was pasted in the wrong place.
_SHOWN = re.compile(r"[a-z][a-z_-]{0,23}")
_SECRET = re.compile(r"key|secret|token|password|passwd|credential|sas|sig(nature)?", re.IGNORECASE)


class BucketUrl(Struct, frozen=True, kw_only=True):
    """A checked URL. ``bucket``: on Azure, the container of ``account``. ``interval``: the least seconds between two writes of one key;
    Google and R2 allow one write per second. ``writes``: how many the user allows, by the seconds in which."""

    scheme: Scheme
    bucket: str
    account: str = ""
    prefix: str = ""
    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    broker: Broker = "auto"
    interval: float = 0.0
    writes: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, url: str) -> Self:
        """Parse a URL in which ``problems_of_bucket_url`` finds no problem.

        >>> BucketUrl.of("s3://jobs/shop/eu?region=eu-central-1").prefix
        'shop/eu'
        >>> BucketUrl.of("az://acme/jobs/shop").public
        'az://acme/jobs/shop'
        """
        parts = urlsplit(url)
        account, bucket, prefix = _places(parts)
        asked = dict(parse_qsl(parts.query))
        is_paced = parts.scheme == "gs" or ".r2.cloudflarestorage.com" in asked.get("endpoint", "")
        return cls(
            scheme=parts.scheme,  # type: ignore[arg-type]
            bucket=bucket,
            account=account,
            prefix=prefix,
            region=asked.get("region"),
            endpoint=asked["endpoint"].rstrip("/") if "endpoint" in asked else None,
            profile=asked.get("profile"),
            broker=asked.get("broker", "auto"),  # type: ignore[arg-type]
            interval=seconds(asked["interval"]) if "interval" in asked else float(is_paced),
            writes=tuple((int(asked[name]), time) for name, time in _WRITES.items() if name in asked),
        )

    @property
    def pace(self) -> float:
        """The seconds between two writes in the long run, at least.

        >>> BucketUrl.of("s3://jobs?interval=1s&writes_per_minute=60").pace
        1.2
        """
        return max(self.interval, *(apart(most, time) for most, time in self.writes), 0.0)

    @property
    def public(self) -> str:
        """The URL without options, for people."""
        return f"{self.scheme}://{'/'.join(filter(None, (self.account, self.bucket, self.prefix)))}"

    @property
    def server(self) -> str:
        """The server that keeps the bucket, for people."""
        return self.endpoint or {"s3": "Amazon S3", "gs": "Google Cloud Storage", "az": "Azure Blob Storage"}.get(
            self.scheme, "memory"
        )

    @property
    def credentials(self) -> str:
        """How a user gives credentials for it."""
        return _CREDENTIALS[self.scheme]


def problems_of_bucket_url(url: str) -> list[str]:
    """Return what is wrong with a URL, naming the remedy and no secret.

    >>> problems_of_bucket_url("s3://jobs?broker=maybe")
    ["the bucket's URL: broker= is one of auto, require, never"]
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return [f"the bucket's URL cannot be read; write {_LOOKS}"]
    if parts.scheme not in BUCKETS or not url.startswith(f"{parts.scheme}://"):
        return [f"the bucket's URL: its scheme is not one of {', '.join(BUCKETS)}; write {_LOOKS}"]
    if "@" in url:
        # The checks below would show a part of the secret.
        return [f"the bucket's URL: it must not hold a user, a key or a secret; {_CREDENTIALS[parts.scheme]}"]
    if parts.fragment:
        return [f"the bucket's URL: nothing follows a #; write {_LOOKS}"]
    return [*_problems_of_place(parts), *_problems_of_options(parts)]


def _places(parts: SplitResult) -> tuple[str, str, str]:
    """Return account, bucket and prefix."""
    path = parts.path.strip("/")
    if parts.scheme != "az":
        return "", parts.netloc, path
    container, _, prefix = path.partition("/")
    return parts.netloc, container, prefix


def _problems_of_place(parts: SplitResult) -> list[str]:
    account, bucket, prefix = _places(parts)
    found = []
    if parts.scheme == "az" and not _ACCOUNT.fullmatch(account):
        found.append("the bucket's URL: an Azure account is 3 to 24 lower-case letters and digits: az://account/container/prefix")
    if not _BUCKET[parts.scheme].fullmatch(bucket):
        found.append(
            f"the bucket's URL: {bucket!r} cannot be the name of a {'container' if parts.scheme == 'az' else 'bucket'}; write {_LOOKS}"
        )
    if parts.scheme == "memory-object" and prefix:
        found.append("the bucket's URL: a bucket in memory has a name only: memory-object://name")
    elif prefix and not all(_SEGMENT.fullmatch(segment) for segment in prefix.split("/")):
        found.append("the bucket's URL: a prefix consists of letters, digits, _ . = and -, with a / between its parts")
    return found


def _problems_of_options(parts: SplitResult) -> list[str]:
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True) if parts.query else []
    except ValueError:
        return ["the bucket's URL: write options as name=value, & between, for example ?region=eu-central-1&interval=1s"]
    known = _OPTIONS[parts.scheme]
    found = [_unknown(name, parts.scheme) for name, _ in pairs if name not in known]
    asked = {name: value for name, value in pairs if name in known}
    if len({name for name, _ in pairs}) < len(pairs):
        found.append("the bucket's URL: an option is given twice; give each once")
    for name in ("region", "profile"):
        if not _WORD.fullmatch(asked.get(name, "-")):
            found.append(f"the bucket's URL: {name}= is a name of 1 to 64 letters, digits, _ . and -")
    if "endpoint" in asked and not _is_endpoint(asked["endpoint"]):
        found.append("the bucket's URL: write endpoint=https://host:port, without a path, a user or options")
    if asked.get("broker", "auto") not in _BROKER:
        found.append(f"the bucket's URL: broker= is one of {', '.join(_BROKER)}")
    for name in _WRITES:
        if not _COUNT.fullmatch(asked.get(name, "100")) or int(asked.get(name, "100")) < LEAST:
            found.append(f"the bucket's URL: {name}= is a whole number of writes, for example writes_per_day=60000")
    try:
        seconds(asked.get("interval", 0))
    except ValueError:
        found.append("the bucket's URL: interval= is a duration: use a number and a unit (ms s m h d), for example interval=1s")
    return found


def _unknown(name: str, scheme: str) -> str:
    if _SECRET.search(name):
        return f"the bucket's URL: it must not hold a key, a token or a secret; {_CREDENTIALS[scheme]}"
    shown = repr(name) if _SHOWN.fullmatch(name) else "of that name"
    return f"the bucket's URL: there is no option {shown} for {scheme}://; use {', '.join(_OPTIONS[scheme])}"


def _is_endpoint(text: str) -> bool:
    try:
        parts = urlsplit(text)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = not (parts.path.strip("/") or parts.query or parts.fragment)
    return has_port and is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)
