"""Settings of an App: durations, environment, and all problems at once."""

import os
from collections.abc import Iterable
from typing import Final, Literal, Self

from msgspec import Struct

from holdfast._core.durations import Duration, seconds
from holdfast._core.schema_name import problems_of_schema
from holdfast._core.schemes import BROKERS, BUCKETS, MONGO, POSTGRES
from holdfast._core.timing import LeaseTiming, problems_of_intervals
from holdfast.errors import ConfigurationError


class RecoverySwitches(Struct, frozen=True, kw_only=True):
    """Which kinds of jobs are recovered without an operator; for ``App(recovery=…)``.

    Switch a kind off to look at what its workers left behind. Then nothing of it moves: supervisors report it with each pass, as the
    event ``recovery.skipped``, and ``holdfast recover --only claimed`` recovers it once.

    ``claimed``: jobs of a lost worker whose code has not begun. ``running``: those whose code has. ``overrun``: jobs far past a limit,
    which their own supervisor should have stopped. ``expired``: jobs that no worker started before they expired.
    ``workflows``: those past their deadline, and those whose bookkeeping is damaged.

    >>> RecoverySwitches(running=False).off
    ('running',)
    """

    claimed: bool = True
    running: bool = True
    overrun: bool = True
    expired: bool = True
    workflows: bool = True

    @property
    def off(self) -> tuple[str, ...]:
        """The kinds that are switched off."""
        return tuple(kind for kind in self.__struct_fields__ if not getattr(self, kind))

    @classmethod
    def only(cls, kinds: Iterable[str]) -> Self:
        """Return switches with these kinds on and all others off; raises ``ConfigurationError`` for an unknown kind."""
        wanted = set(kinds)
        if unknown := sorted(wanted - set(cls.__struct_fields__)):
            raise ConfigurationError([f"only={kind!r}: use {', '.join(cls.__struct_fields__)}" for kind in unknown])
        return cls(**{kind: kind in wanted for kind in cls.__struct_fields__})


EVERY_KIND: Final = RecoverySwitches()


LEAST_PROGRESS, MOST_PROGRESS = 0.1, 60.0


class Settings(Struct, frozen=True, kw_only=True):
    """The settings of an App, checked; durations in seconds. A worker sends them to its supervisor over the pipe."""

    url: str
    timing: LeaseTiming
    recovery_interval: float = 5.0
    poll_interval: float = 1.0
    max_block: float = 300.0
    grace: float = 20.0
    reconcile: Literal["process", "hostname", "off"] = "process"
    transport: str | None = None
    schema: str = "holdfast"
    pooler: str | None = None
    recovery: RecoverySwitches = EVERY_KIND
    beat_history: float = 86_400.0
    claimed_within: float | None = None
    progress_every: float = 1.0

    @property
    def void_after(self) -> float:
        """The seconds for which a worker may answer no ping before jobs that it claimed and did not start are returned."""
        return 2 * self.timing.beat if self.claimed_within is None else self.claimed_within

    @classmethod
    def of(
        cls,
        url: str | None,
        *,
        ttl: Duration = "30s",
        beat: Duration | None = None,
        margin: Duration | None = None,
        recovery_interval: Duration = "5s",
        poll_interval: Duration = "1s",
        max_block: Duration = "5m",
        grace: Duration = "20s",
        reconcile: str = "process",
        transport: str | None = None,
        schema: str = "holdfast",
        pooler: str | None = None,
        recovery: RecoverySwitches | None = None,
        beat_history: Duration = "24h",
        claimed_within: Duration | None = None,
        progress_every: Duration = "1s",
    ) -> Self:
        """Make settings from what the user wrote; raises ``ConfigurationError`` with every problem found."""
        # size: two lines for each setting, one to take it and one to hand it on
        reader = _Reader()
        address = url or os.environ.get("HOLDFAST_URL", "")
        if not address:
            reader.problems.append("no store: pass App('sqlite:///jobs.db') or set HOLDFAST_URL")
        if reconcile not in ("process", "hostname", "off"):
            reader.problems.append(f"reconcile={reconcile!r}: use 'process', 'hostname' or 'off'")
        if not isinstance(recovery, RecoverySwitches | None):
            reader.problems.append(f"recovery={recovery!r}: pass RecoverySwitches(claimed=False, …)")
        reader.problems += problems_of_schema(schema)
        life = reader.seconds("ttl", ttl)
        pulse = None if beat is None else reader.seconds("beat", beat)
        slack = None if margin is None else reader.seconds("margin", margin)
        recover, poll = reader.seconds("recovery_interval", recovery_interval), reader.seconds("poll_interval", poll_interval)
        claimed = None if claimed_within is None else reader.seconds("claimed_within", claimed_within)
        history = reader.seconds("beat_history", beat_history)
        every = reader.seconds("progress_every", progress_every)
        block, grace_seconds = reader.seconds("max_block", max_block), reader.seconds("grace", grace)
        timing = LeaseTiming.of(life, pulse, slack)
        # A rule that was read with a stand-in for a bad value would only confuse.
        rules = [] if reader.refused("ttl", "beat", "margin") else timing.problems()
        rules += [] if reader.refused("beat", "ttl", "claimed_within") else timing.problems_of_claims(claimed)
        rules += [] if reader.refused("progress_every") else problems_of_progress(every)
        rules += [] if reader.refused("recovery_interval", "poll_interval") else problems_of_intervals(recover, poll)
        rules += [] if reader.refused("ttl", "beat") else problems_of_interval(address, timing)
        if transport is not None:
            from holdfast._core.transport_url import problems_of_address

            rules += problems_of_address(transport, timing, recover, store=address, pooler=pooler)
        if reader.problems or rules:
            raise ConfigurationError([*reader.problems, *rules])
        return cls(
            url=address,
            timing=timing,
            recovery_interval=recover,
            poll_interval=poll,
            max_block=block,
            grace=grace_seconds,
            reconcile=reconcile,  # type: ignore[arg-type]
            transport=transport,
            schema=schema,
            pooler=pooler,
            recovery=recovery or EVERY_KIND,
            beat_history=history,
            claimed_within=claimed,
            progress_every=every,
        )


def problems_of_progress(every: float) -> list[str]:
    """Return what is wrong with how often a worker writes the progress of its jobs."""
    if LEAST_PROGRESS <= every <= MOST_PROGRESS:
        return []
    return [
        f"progress_every={every:g}s: use a duration from {LEAST_PROGRESS:g}s to {MOST_PROGRESS:g}s: each write is one for all jobs"
    ]


def problems_of_url(url: str, pooler: str | None = None) -> list[str]:
    """List what is wrong with a store's URL, each with the remedy."""
    if not isinstance(url, str):
        return [f"{url!r} is not a store URL: pass a string such as 'sqlite:///jobs.db'"]
    scheme, found, rest = url.partition("://")
    if found and scheme in POSTGRES:
        from holdfast._core.postgres_url import problems_of_location

        return problems_of_location(url, pooler)
    if found and scheme in (*BROKERS, *BUCKETS, *MONGO):
        return [*problems_of_pooler(pooler), *_problems_of_server(url, scheme)]
    if not found or scheme not in ("sqlite", "memory"):
        there_are = (
            "there are sqlite:///relative.db, sqlite:////absolute.db, postgresql://user@host/database, "
            "mongodb://host/database?replicaSet=rs0, s3://bucket/prefix, "
            "http://broker:7700 and memory://"
        )
        return [f"{public_url(url)!r} is not a store URL: {there_are}"]
    problems = problems_of_pooler(pooler)
    path = rest.removeprefix("/")
    if scheme == "memory" and rest:
        problems.append(f"{public_url(url)!r}: write memory:// and nothing behind it")
    elif scheme == "sqlite" and (not rest.startswith("/") or not path or path.startswith(":") or "?" in path):
        problems.append(f"{_without_options(url)!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db")
    return problems


def _problems_of_server(url: str, scheme: str) -> list[str]:
    """List what is wrong with the URL of a broker, a bucket or MongoDB."""
    if scheme in BROKERS:
        from holdfast._core.broker_url import problems_of_broker_url

        return problems_of_broker_url(url)
    if scheme in BUCKETS:
        from holdfast._core.bucket_url import problems_of_bucket_url

        return problems_of_bucket_url(url)
    from holdfast._core.mongo_url import problems_of_mongo_url

    return problems_of_mongo_url(url)


def problems_of_interval(url: str, timing: LeaseTiming) -> list[str]:
    """List what is wrong with the pause between two writes of a bucket: beats would come too late."""
    if not isinstance(url, str) or url.partition("://")[0] not in BUCKETS:
        return []
    from holdfast._core.bucket_url import BucketUrl, problems_of_bucket_url

    if problems_of_bucket_url(url):
        return []
    bucket = BucketUrl.of(url)
    if timing.beat >= 4 * bucket.pace:
        return []
    if bucket.pace == bucket.interval:
        return [f"beat >= 4 * interval is broken: {timing.beat:g}s, {bucket.interval:g}s; raise ttl and beat, or lower interval="]
    remedy = "raise ttl and beat, or the writes that the bucket's URL allows"
    return [f"the bucket's URL allows a write each {bucket.pace:.3g}s, too few for a beat each {timing.beat:g}s: {remedy}"]


def problems_of_pooler(pooler: str | None) -> list[str]:
    """List what is wrong with a pooler of a store that has none."""
    return [] if pooler is None else [f"pooler={pooler!r}: leave it out, only a postgresql:// store is reached through one"]


def public_url(url: str) -> str:
    """Return the URL as it may be logged: without password, token and options. URLs of SQLite and memory stay as they are."""
    if url.startswith(("sqlite://", "memory://")):
        return url
    if url.partition("://")[0] in BUCKETS:
        from holdfast._core.bucket_url import BucketUrl, problems_of_bucket_url

        if not problems_of_bucket_url(url):
            return BucketUrl.of(url).public
    from holdfast._core import postgres_url

    return postgres_url.public_url(url)


def _without_options(url: str) -> str:
    """Return the URL of a file without what follows a ?, which may be a key."""
    path, asked, _ = url.partition("?")
    return f"{path}{'?…' if asked else ''}"


class _Reader:
    """Reads durations and keeps every problem, so that a user can fix all of them at once."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def refused(self, *names: str) -> bool:
        """Return whether the value of any of them was not a duration."""
        return any(problem.startswith(f"{name}: ") for problem in self.problems for name in names)

    def seconds(self, name: str, value: Duration) -> float:
        """Read the value in seconds; if it is not a duration, note a problem and return any number."""
        try:
            return seconds(value)
        except ValueError as error:
            self.problems.append(f"{name}: {error}")
            return 1.0


def stream_of(url: str, schema: str) -> str:
    """Name a stream for each store: many files, and every memory store, have the same schema."""
    from hashlib import sha256

    match url.partition("://")[0]:
        case "sqlite":
            return f"{schema}-{sha256(os.fsencode(os.path.realpath(url.removeprefix('sqlite:///')))).hexdigest()[:12]}"
        case "memory":
            return f"{schema}-memory-{os.getpid()}"
        case scheme if scheme in BUCKETS:
            from holdfast._core.bucket_url import BucketUrl

            return f"{schema}-{sha256(BucketUrl.of(url).public.encode()).hexdigest()[:12]}"
        case _:
            return schema
