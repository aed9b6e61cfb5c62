"""The results that claimed jobs take, read with their claim."""

from uuid import UUID

from msgspec import structs

from holdfast._core.job import Claim
from holdfast.stores.sqlite import parameters as packing
from holdfast.stores.sqlite.database import StoreDatabase

MOST = 16
"""The results that one claim brings. More of them, and large ones, are read when the job begins."""


def with_results(database: StoreDatabase, claims: tuple[Claim, ...]) -> tuple[Claim, ...]:
    """Return the claims with the small results that they take."""
    wanted = [parent for claim in claims for parent in _parents_of(claim)]
    if not wanted:
        return claims
    found = dict[int, bytes](
        (place, result) for place, result in database.read("results", **packing.ids(wanted)) if type(result) is bytes
    )
    brought, place = list[Claim](), 0
    for claim in claims:
        number = len(_parents_of(claim))
        results = tuple([found.get(each) for each in range(place, place + number)])
        brought.append(structs.replace(claim, results=results) if number else claim)
        place += number
    return tuple(brought)


def _parents_of(claim: Claim) -> list[UUID]:
    return [each.parent for each in claim.inputs[:MOST]]
