"""Inspection, verification, compaction, backup and restoration of a store in a bucket, beside processes that use it."""

import gzip
from pathlib import Path
from uuid import UUID

import pytest
from msgspec import json, structs

from holdfast._core.job import State
from holdfast._ports.bucket import Found
from holdfast.errors import ConfigurationError, SchemaMissing, SchemaTooNew, StoreUnavailable
from holdfast.stores.objects.copies import COPY
from holdfast.stores.objects.head import KEY, MOST_HEAD, read
from holdfast.stores.objects.store import ObjectStore
from tests.stores.objects_world import Scripted, World, enqueue, jobs_in, names, new, tidied

DAY = 24 * 3600.0


@pytest.fixture
def world() -> World:
    return World()


async def filled(world: World, jobs: int = 40) -> tuple[ObjectStore, Scripted]:
    """Return a store with several runs and a tail, in which some of the jobs were deleted again."""
    store, bucket = world.open(full=800)
    made = [new() for _ in range(jobs)]
    for job in made:
        await enqueue(store, job)
        await tidied(store)
    await store.delete([job.id for job in made[:10]])
    return store, bucket


async def whole(bucket: Scripted, key: str) -> bytes:
    found = await bucket._bucket.get(key)
    assert isinstance(found, Found)
    return found.body


async def test_an_inspection_names_sizes_rows_and_jobs_and_writes_nothing(world: World) -> None:
    store, bucket = await filled(world)
    head = await bucket.head()
    await bucket._bucket.put("runs/left-behind", b"1234")
    bucket.calls.clear()
    found = await store.inspect()
    assert [call for call in bucket.calls if not call.startswith("GET")] == []
    assert (found.store, found.version, found.format) == (UUID(int=1), head.version, 1)
    assert (found.unfinished, found.finished, found.rows["jobs"]) == (30, 0, 30)
    assert (found.runs, found.garbage, found.unnamed) == (len(head.runs), len(head.garbage), 1)
    assert found.tail_commits == len(head.tail)
    assert found.tail_bytes == head.tail_size
    assert found.head_bytes < found.stored_bytes
    await store.close()


async def test_a_store_that_is_whole_verifies(world: World) -> None:
    store, bucket = await filled(world)
    found = await store.verify()
    assert found.damage == ()
    assert (found.jobs, found.objects, found.version) == (30, 1 + len((await bucket.head()).runs), (await bucket.head()).version)
    await store.close()


async def test_every_damaged_object_is_named_with_its_remedy_and_the_rest_is_read(world: World) -> None:
    store, bucket = await filled(world)
    head = await bucket.head()
    first, second = head.runs[0].key, head.runs[-1].key
    assert first != second
    await bucket.delete(first)
    await bucket._bucket.put(second, b"not a run")
    found = await store.verify()
    assert [(each.key, each.problem) for each in found.damage] == [
        (first, "is missing in the bucket"),
        (second, "cannot be read"),
    ]
    assert all("restore the object" in each.remedy for each in found.damage)
    assert 0 < found.jobs < 30
    await store.close()


async def test_versions_that_no_object_has_and_commits_that_cannot_be_read_are_named(world: World) -> None:
    store, bucket = await filled(world)
    head = await bucket.head()
    damaged = structs.replace(head.tail[-1], changes=(json.encode({"unknown": 1}),))
    await bucket._bucket.put(KEY, json.encode(structs.replace(head, runs=head.runs[1:], tail=(*head.tail[:-1], damaged))))
    found = await store.verify()
    assert [each.problem for each in found.damage] == [
        f"names no object with versions 1 to {head.runs[0].until}",
        f"has a commit, version {head.version}, that cannot be read",
    ]
    await store.close()


@pytest.mark.parametrize("body", [b"{", b"[" * 100_000, b" " * (MOST_HEAD + 1)], ids=["cut off", "deep", "too large"])
async def test_a_head_that_cannot_be_read_is_reported_as_damaged_and_can_be_put_back(world: World, body: bytes) -> None:
    store, bucket = await filled(world, 12)
    before = await whole(bucket, KEY)
    await bucket._bucket.put(KEY, body)
    found = await store.verify()
    assert [(each.key, each.problem) for each in found.damage] == [(KEY, "cannot be read")]
    other, _ = world.open()
    with pytest.raises(StoreUnavailable, match="cannot be read"):
        await other.counts()
    await bucket._bucket.put(KEY, before)
    assert await other.counts() == {("", State.AVAILABLE): 2}
    await store.close()
    await other.close()


async def test_a_run_that_unpacks_to_more_than_its_head_names_is_not_unpacked(world: World) -> None:
    store, bucket = await filled(world)
    run = (await bucket.head()).runs[0]
    await bucket._bucket.put(run.key, gzip.compress(b" " * 50_000_000))
    (damage,) = (await store.verify()).damage
    assert (damage.key, damage.problem) == (run.key, "cannot be read")
    await store.close()


async def test_a_bucket_without_an_answer_is_not_reported_as_damaged(world: World) -> None:
    store, bucket = await filled(world, 12)
    bucket.reads.extend(["reset"])
    with pytest.raises(StoreUnavailable, match="reset"):
        await store.verify()
    await store.close()


async def test_a_compaction_leaves_one_run_and_every_process_goes_on(world: World) -> None:
    (store, bucket), (other, _) = await filled(world), world.open()
    before = await other.counts()
    done = await store.compact()
    head = await bucket.head()
    assert (done.runs, len(head.runs), head.tail_size) == (1, 1, 0)
    assert done.runs_before > 1
    assert head.runs[0].until == head.flushed == head.version - 1
    assert await store.counts() == await other.counts() == before
    await enqueue(other, new())
    await enqueue(store, new())
    assert await jobs_in(world) == 32
    assert (await store.verify()).damage == ()
    await store.close()
    await other.close()


async def test_a_store_that_is_compact_is_not_written_again(world: World) -> None:
    store, bucket = await filled(world)
    await store.compact()
    version = (await bucket.head()).version
    await store.compact()
    assert (await bucket.head()).version == version
    await store.close()


@pytest.mark.parametrize("fault", ["lost", "cut", "late"])
async def test_a_compaction_whose_write_has_no_answer_is_made_once(world: World, fault: str) -> None:
    store, bucket = await filled(world)
    version = (await bucket.head()).version
    bucket.writes.extend([fault])
    await store.compact()
    head = await bucket.head()
    assert (head.version, len(head.runs)) == (version + 1, 1)
    assert await jobs_in(world) == 30
    await store.close()


async def test_what_another_process_flushes_beside_a_compaction_is_kept(world: World) -> None:
    (store, bucket), (other, others_bucket) = await filled(world), world.open(full=1)

    async def write() -> None:
        for _ in range(3):
            await enqueue(other, new())
            await tidied(other)

    bucket.until_answered = write
    bucket.calls.clear()
    bucket.reads.extend(["", "slow"])
    bucket.writes.extend(["cut"])
    await store.compact()
    assert bucket.calls["PUT head.json"] == 2
    assert others_bucket.calls["PUT runs"] > 0
    assert await jobs_in(world) == 33
    assert (await store.verify()).damage == ()
    await store.close()
    await other.close()


async def test_dropped_objects_and_orphans_go_after_a_day_and_nothing_else(world: World) -> None:
    store, bucket = await filled(world)
    orphan = f"runs/{1:012d}-{names.uuid4().hex}.json.gz"
    foreign = ("runs/notes.txt", "shop/head.json", "photo.jpg")
    for key in (orphan, *foreign):
        await bucket._bucket.put(key, b"")
    await store.compact()
    dropped = {each.key for each in (await bucket.head()).garbage}
    keys = {each.key for each in await bucket.list()}
    assert dropped | {orphan, *foreign} <= keys
    world.clock.advance(DAY + 1)
    done = await store.compact()
    assert (done.deleted, done.orphans) == (len(dropped), 1)
    head = await bucket.head()
    assert {each.key for each in await bucket.list()} == {KEY, *foreign, *(run.key for run in head.runs)}
    assert await jobs_in(world) == 30
    await store.close()


async def test_a_run_that_came_into_the_head_after_the_list_is_not_deleted(world: World) -> None:
    store, bucket = await filled(world)
    await store.compact()
    world.clock.advance(DAY + 1)
    head, listing = await bucket.head(), bucket.list
    late = structs.replace(head.runs[0], key=f"runs/{1:012d}-{names.uuid4().hex}.json.gz")
    await bucket._bucket.put(late.key, await whole(bucket, head.runs[0].key))
    world.clock.advance(DAY + 1)

    async def list_first(folder: str = "") -> object:
        found = await listing(folder)
        named = structs.replace(await bucket.head(), version=head.version + 9, runs=(late,))
        await bucket._bucket.put(KEY, json.encode(named))
        return found

    bucket.list = list_first  # type: ignore[assignment,method-assign]
    assert (await store.compact()).orphans == 1
    assert late.key in {each.key for each in await listing("runs")}
    await store.close()


@pytest.mark.parametrize("is_folder", [True, False], ids=["folder", "prefix"])
async def test_a_backup_is_restored_to_another_prefix(world: World, tmp_path: Path, *, is_folder: bool) -> None:
    store, _ = await filled(world)
    place = str(tmp_path / "copy") if is_folder else f"memory-object://{names.uuid4()}"
    copied = await store.back_up(place)
    assert (copied.jobs, copied.size > 0) == (30, True)
    await enqueue(store, new())
    another = ObjectStore(f"memory-object://{names.uuid4()}", clock=world.clock, chance=names)
    assert (await another.restore(place)).jobs == 30
    assert await another.counts() == {("", State.AVAILABLE): 30}
    assert (await another.inspect()).store != (await store.inspect()).store
    assert (await another.verify()).damage == ()
    assert (await another.inspect()).epoch >= 1_000_000
    await enqueue(another, new())
    for each in (store, another):
        await each.close()


async def test_a_copy_cannot_be_used_as_a_store(world: World) -> None:
    store, _ = await filled(world, 12)
    place = f"memory-object://{names.uuid4()}"
    await store.back_up(place)
    copy = ObjectStore(place, clock=world.clock, chance=names)
    with pytest.raises(SchemaMissing):
        await copy.counts()
    await store.close()
    await copy.close()


async def test_a_backup_replaces_nothing(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world, 12)
    await store.back_up(str(tmp_path))
    before = {each.key for each in await bucket.list()}
    with pytest.raises(ConfigurationError, match="there is a backup already, and a backup replaces nothing: name another place"):
        await store.back_up(str(tmp_path))
    with pytest.raises(ConfigurationError, match="there is a store already, and a backup replaces nothing: name another place"):
        await store.back_up(world.name)
    assert {each.key for each in await bucket.list()} == before
    await store.close()


async def test_a_backup_of_a_damaged_store_is_refused_and_names_the_object(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world)
    run = (await bucket.head()).runs[0]
    await bucket._bucket.put(run.key, b"")
    with pytest.raises(StoreUnavailable, match=f"{run.key} cannot be read: restore the object"):
        await store.back_up(str(tmp_path))
    assert not (tmp_path / COPY).exists()
    await store.close()


async def test_a_folder_that_cannot_be_written_is_an_error_with_a_remedy(world: World, tmp_path: Path) -> None:
    store, _ = await filled(world, 12)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="name a folder that may be written"):
        await store.back_up(str(tmp_path / "file"))
    await store.close()


async def test_a_backup_holds_one_moment_although_others_write_and_merge(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world)
    reading, others = bucket.get, world.open(full=1)[0]

    async def get(key: str, unless: str | None = None) -> object:
        if key.startswith("runs/"):
            await enqueue(others, new())
            await tidied(others)
        return await reading(key, unless)

    bucket.get = get  # type: ignore[assignment,method-assign]
    copied = await store.back_up(str(tmp_path))
    assert copied.jobs == 30
    assert await jobs_in(world) > 30
    for each in (store, others):
        await each.close()


async def test_a_restoration_refuses_a_prefix_with_a_store_and_force_ends_its_processes(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world)
    await store.back_up(str(tmp_path))
    old = await bucket.head()
    await enqueue(store, new())
    with pytest.raises(ConfigurationError, match="there is a store already: restore to another prefix, or pass --force"):
        await store.restore(str(tmp_path))
    assert await jobs_in(world) == 31
    restorer, _ = world.open()
    await restorer.restore(str(tmp_path), is_forced=True)
    head = await bucket.head()
    assert (head.version, head.garbage) == (old.version, ())
    assert head.store != old.store
    for call in (store.counts, lambda: enqueue(store, new())):
        with pytest.raises(ConfigurationError, match="replaced or restored since this process started: start the process again"):
            await call()
    assert await jobs_in(world) == 30
    for each in (store, restorer):
        await each.close()


async def test_a_restoration_without_a_backup_or_with_a_damaged_one_writes_no_head(world: World, tmp_path: Path) -> None:
    store, _ = await filled(world)
    another = ObjectStore(f"memory-object://{names.uuid4()}", clock=world.clock, chance=names)
    with pytest.raises(ConfigurationError, match="there is no backup here"):
        await another.restore(str(tmp_path))
    await store.back_up(str(tmp_path))
    run = read((tmp_path / COPY).read_bytes()).runs[-1].key
    (tmp_path / run).unlink()
    with pytest.raises(StoreUnavailable, match=f"{run} is missing"):
        await another.restore(str(tmp_path))
    with pytest.raises(SchemaMissing):
        await another.counts()
    for each in (store, another):
        await each.close()


async def test_a_key_of_a_damaged_head_leads_out_of_no_folder(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world)
    head = await bucket.head()
    outside = structs.replace(head.runs[0], key="../outside")
    await bucket._bucket.put("../outside", await whole(bucket, head.runs[0].key))
    await bucket._bucket.put(KEY, json.encode(structs.replace(head, runs=(outside, *head.runs[1:]))))
    with pytest.raises(StoreUnavailable, match="not the name of an object"):
        await store.back_up(str(tmp_path / "copy"))
    assert not (tmp_path / "outside").exists()
    await store.close()


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_restoration_whose_last_write_has_no_answer_is_judged_by_a_read(
    world: World, tmp_path: Path, *, is_lost: bool
) -> None:
    store, _ = await filled(world, 12)
    await store.back_up(str(tmp_path))
    name = f"memory-object://{names.uuid4()}"
    bucket = Scripted(name, world.clock)
    another = ObjectStore(name, clock=world.clock, chance=names, bucket=bucket)
    bucket.writes.extend(["lost" if is_lost else "cut"])
    if is_lost:
        assert (await another.restore(str(tmp_path))).jobs == 2
    else:
        with pytest.raises(StoreUnavailable):
            await another.restore(str(tmp_path))
        with pytest.raises(SchemaMissing):
            await another.counts()
    for each in (store, another):
        await each.close()


async def test_a_store_of_a_newer_release_is_neither_copied_nor_verified(world: World, tmp_path: Path) -> None:
    store, bucket = await filled(world, 12)
    await bucket._bucket.put(KEY, json.encode(structs.replace(await bucket.head(), needs=9)))
    for call in (store.verify, store.inspect, store.compact, lambda: store.back_up(str(tmp_path))):
        with pytest.raises(SchemaTooNew, match="newer release"):
            await call()
    await store.close()
