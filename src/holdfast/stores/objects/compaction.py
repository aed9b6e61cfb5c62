"""Everything that a store has as one run, and the end of objects that no process can need any more."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec import Struct, json, structs

from holdfast._ports.bucket import Bucket, BucketUnavailable
from holdfast._ports.clock import Clock, Randomness
from holdfast._ports.upkeep import Compaction
from holdfast.errors import StoreUnavailable
from holdfast.stores.objects.archives import named_in
from holdfast.stores.objects.head import KEY, Commit, Dropped, Past
from holdfast.stores.objects.orphans import old_objects
from holdfast.stores.objects.pieces import KEPT, RUNS, NewRun, collect, flush, merge
from holdfast.stores.objects.replica import Replica
from holdfast.stores.objects.wall_clock import bucket_time

_OUR_RUN = re.compile(rf"{RUNS}/\d{{12,}}-[0-9a-f]{{32}}\.json\.gz")
"""Nothing else below the prefix is deleted: it may belong to another program, or to a store below this one."""
_TRIES = 20
_PAUSE = 0.2  # seconds after a write without success: another process has just written, or the bucket had no answer


class Compacting(Struct, frozen=True):
    """A compaction of one store, beside the processes that use it."""

    bucket: Bucket
    name: str
    clock: Clock
    chance: Randomness

    async def run(self) -> Compaction:
        """Merge all, and delete what may be deleted. ``StoreUnavailable``: others wrote all the time; what is done stays done."""
        replica = Replica(self.bucket, self.name)
        await replica.look()
        runs_before = len(replica.head.runs)
        for _ in range(_TRIES):
            merged = await self._merged(replica)
            deleted = await collect(self.bucket, replica.head, self._now())
            if (not merged and not deleted) or await self._publish(replica, merged, deleted):
                break
        else:
            raise StoreUnavailable(f"{self.name}: other processes merged runs all the time: try again")
        orphans = await self._delete_orphans(replica)
        size = sum(run.size for run in replica.head.runs)
        return Compaction(
            runs_before=runs_before, runs=len(replica.head.runs), run_bytes=size, deleted=len(deleted), orphans=orphans
        )

    async def _merged(self, replica: Replica) -> tuple[NewRun, ...]:
        """Write the tail as a run, and all runs as one; return what was written."""
        head, made = replica.head, list[NewRun]()
        if any(commit.changes for commit in head.tail):
            made.append(await flush(self.bucket, head, self.chance.uuid4()))
            head = made[0].put_into(head, self._now())
        if len(head.runs) > 1:
            made.append(await merge(self.bucket, head, head.runs, self.chance.uuid4()))
        return tuple(made)

    async def _publish(self, replica: Replica, made: Sequence[NewRun], deleted: Sequence[Dropped]) -> bool:
        """Put the runs into the head; return whether they are in it. They are not if another process has flushed or merged by now."""
        nonces = set[str]()
        for _ in range(_TRIES):
            base, now = replica.head, self._now()
            head = base
            for run in made:
                after = run.put_into(head, now)
                if after is head:
                    return False
                head = after
            commit = Commit(base.version + 1, self.chance.uuid4().hex[:16], now, ())
            nonces.add(commit.nonce)
            garbage = tuple(each for each in head.garbage if each not in deleted)
            head = structs.replace(head.followed_by(commit), garbage=garbage)
            try:
                replica.adopt(head, await self.bucket.put(KEY, json.encode(head), replica.etag))
                return True
            except BucketUnavailable:
                await self.clock.sleep(_PAUSE)
            await replica.look()  # only a read decides what became of the write
            newest: tuple[Past | Commit, ...] = (*replica.head.ring, *replica.head.tail)
            if nonces & {each.nonce for each in newest}:
                return True
        return False

    async def _delete_orphans(self, replica: Replica) -> int:
        """Delete objects that nothing names. The head is read after the list: one that was listed may be named only now."""
        listed, old = await self.bucket.list(RUNS), await old_objects(self.bucket, self.chance)
        await replica.look()
        latest = await bucket_time(self.bucket, self.chance)
        runs = {each.key for each in listed if latest - each.modified > KEPT and _OUR_RUN.fullmatch(each.key)}
        named = await named_in(self.bucket, replica.book.contents())
        orphans = sorted((runs - replica.head.keys) | (old - named))
        for key in orphans:
            await self.bucket.delete(key)
        return len(orphans)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall(), UTC)
