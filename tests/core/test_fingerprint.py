"""Failures with one cause share a fingerprint; another task, reason, class or origin changes it."""

import pytest

from holdfast._core.fingerprint import Frame, error_key, origin_of

OWN = Frame("/srv/shop/orders.py", "shop.orders", "sync_line")
LIBRARY = Frame("/srv/.venv/lib/python3.13/site-packages/bank/client.py", "bank.client", "call")
SYSTEM = Frame("/usr/lib/python3/dist-packages/six.py", "six", "reraise")
KEY = error_key("sync", "HANDLER_ERROR", "builtins.KeyError", [OWN])


def test_the_origin_is_the_innermost_frame_outside_installed_packages() -> None:
    assert origin_of([OWN, LIBRARY, SYSTEM]) == "shop.orders:sync_line"
    assert origin_of([Frame("/srv/shop/a.py", "shop.a", "run"), OWN]) == "shop.orders:sync_line"


def test_the_origin_is_the_innermost_frame_if_all_belong_to_packages() -> None:
    assert origin_of([LIBRARY, SYSTEM]) == "six:reraise"
    assert origin_of([]) == ""


def test_windows_paths_of_installed_packages_are_recognised() -> None:
    assert origin_of([OWN, Frame(r"C:\venv\Lib\site-packages\bank.py", "bank", "call")]) == "shop.orders:sync_line"


def test_frames_of_libraries_below_the_origin_change_nothing() -> None:
    assert error_key("sync", "HANDLER_ERROR", "builtins.KeyError", [OWN, LIBRARY]) == KEY


@pytest.mark.parametrize(
    "other",
    [
        ("sync_all", "HANDLER_ERROR", "builtins.KeyError", [OWN]),
        ("sync", "TIMED_OUT", "builtins.KeyError", [OWN]),
        ("sync", "HANDLER_ERROR", "shop.KeyError", [OWN]),
        ("sync", "HANDLER_ERROR", "builtins.KeyError", [Frame(OWN.file, OWN.module, "sync_all")]),
        ("sync", "HANDLER_ERROR", "builtins.KeyError", [Frame(OWN.file, "shop.lines", OWN.function)]),
        ("syncHANDLER_ERROR", "", "builtins.KeyError", [OWN]),
    ],
)
def test_each_part_changes_the_key(other: tuple[str, str, str, list[Frame]]) -> None:
    assert error_key(*other) != KEY


def test_a_key_is_the_same_in_every_process() -> None:
    assert KEY == "f4ab3afa2ef20e99"
