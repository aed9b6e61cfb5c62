"""Short forms of ids: what lists show, and what can be typed."""

from uuid import UUID

import pytest

from holdfast._core.short_ids import fits, part_of_id, short_ids

ONE = UUID("01a20386-38bd-746c-85ed-47a9829d8f2c")


@pytest.mark.parametrize(
    ("other", "short"),
    [
        ("01a20386-38bd-746c-85ed-47a9829d8f2d", "9d8f2c"),
        ("01a20386-38bd-746c-85ed-47a9839d8f2c", "829d8f2c"),
        ("01a20386-38bd-746c-85ed-47b9829d8f2c", str(ONE)),
    ],
)
def test_ids_are_as_short_as_the_page_allows(other: str, short: str) -> None:
    assert short_ids([ONE, UUID(other)])[ONE] == short


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("8f2c", "8f2c"),
        ("9D8F2C", "9d8f2c"),
        ("01a20386-38", "01a2038638"),
        ("f2c", None),
        ("xyzw", None),
        (ONE.hex, None),
        ("", None),
    ],
)
def test_a_part_of_an_id_is_at_least_four_hex_digits(text: str, part: str | None) -> None:
    assert part_of_id(text) == part


def test_a_part_fits_at_either_end_only() -> None:
    assert [fits(ONE, part) for part in ("8f2c", "01a2", "746c")] == [True, True, False]
