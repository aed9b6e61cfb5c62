"""The store accepts a file on a disk of this machine, and refuses one on a network file system with the reason."""

from pathlib import Path

import pytest

from holdfast.databases.sqlite import file_location as location
from holdfast.databases.sqlite.file_location import file_system_of, require_local_disk
from holdfast.errors import ConfigurationError
from tests.stores.support import store_on, using

MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /proc rw - proc proc rw
30 22 0:40 / /mnt/share rw shared:3 master:2 - nfs4 server:/export rw,vers=4.2
31 30 0:41 / /mnt/share/local rw - xfs /dev/sdb1 rw
32 22 0:42 / /mnt/with\040space rw - cifs //server/share rw
33 22 0:43 / /srv rw - ext4 /dev/sdc rw
34 22 0:44 / /srv rw - fuse.sshfs host:/srv rw
35 22 0:45 / /mnt/back\134slash rw - 9p host rw
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/home/me", "ext4"),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/a/b", "nfs4"),
        ("/mnt/share/local/a", "xfs"),
        ("/mnt/shared", "ext4"),
        ("/mnt/with space/a", "cifs"),
        ("/srv/data", "fuse.sshfs"),
        ("/mnt/back\\slash", "9p"),
    ],
)
def test_the_deepest_and_last_mount_counts(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), MOUNTS) == kind


def test_nothing_is_known_without_mounts() -> None:
    assert file_system_of(Path("/home"), "") == ""


def test_network_file_systems_are_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(location, "_MOUNTS", mounts)
    for kind in ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre"):
        mounts.write_text(f"30 22 0:40 / / rw - {kind} server rw\n")
        with pytest.raises(ConfigurationError, match=f"network file system \\({kind}\\).*put it on a disk"):
            require_local_disk(tmp_path / "jobs.db")
    for kind in ("ext4", "xfs", "btrfs", "overlay", "tmpfs", "zfs", "apfs"):
        mounts.write_text(f"30 22 0:40 / / rw - {kind} disk rw\n")
        require_local_disk(tmp_path / "jobs.db")
    mounts.unlink()
    require_local_disk(tmp_path / "jobs.db")


def test_a_link_to_a_network_folder_is_seen_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"30 22 0:40 / {tmp_path.resolve()}/far rw - nfs server rw\n")
    monkeypatch.setattr(location, "_MOUNTS", mounts)
    with pytest.raises(ConfigurationError, match="nfs"):
        require_local_disk(tmp_path / "near" / "jobs.db")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    store = store_on(tmp_path / "none" / "jobs.db")
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/none does not exist"):
        using(store, lambda store: store.counts())
    with pytest.raises(ConfigurationError, match="is a folder"):
        using(store_on(tmp_path), lambda store: store.counts())


def test_a_store_opens_nothing_before_its_first_verb(tmp_path: Path) -> None:
    store_on(tmp_path / "jobs.db")
    store_on(tmp_path / "none" / "jobs.db")
    assert list(tmp_path.iterdir()) == []
