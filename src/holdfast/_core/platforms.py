"""What works on which system. Linux is tested; the rest is refused with a remedy, or works with limits that are named."""

from typing import Final

REMEDY: Final = (
    "run it in WSL 2 (wsl --install), in a container, or on Linux or macOS, on a store that both reach such as postgresql://"
)


def refusal_of_worker(platform: str) -> str | None:
    """Return why `holdfast worker` cannot run on this system, with a remedy; ``platform`` as in ``sys.platform``.

    >>> refusal_of_worker("linux"), refusal_of_worker("darwin")
    (None, None)
    >>> refusal_of_worker("win32").partition(":")[0]  # type: ignore[union-attr]
    '`holdfast worker` does not run on Windows, which has no signals and sessions by which it ends code'
    """
    if platform != "win32":
        return None
    return f"`holdfast worker` does not run on Windows, which has no signals and sessions by which it ends code: {REMEDY}"


def limits_of(platform: str, *, sees_processes: bool) -> tuple[str, str] | None:
    """Return what this system cannot do for workers, and what to do about it; ``None`` if it does all.

    >>> limits_of("linux", sees_processes=True)
    >>> limits_of("linux", sees_processes=False)[0]  # type: ignore[index]
    'no /proc shows the processes of this machine: a dead worker is not proven dead, and its jobs wait for its ttl'
    """
    if (refusal := refusal_of_worker(platform)) is not None:
        found, _, remedy = refusal.partition(": ")
        return found, remedy
    if platform == "linux" and sees_processes:
        return None
    if platform == "linux":
        missing, remedy = "no /proc shows the processes of this machine", "mount /proc in the container, without hidepid"
    else:
        missing, remedy = f"{platform} has no /proc and is not tested", "use it for development, and Linux for production"
    return f"{missing}: a dead worker is not proven dead, and its jobs wait for its ttl", remedy
