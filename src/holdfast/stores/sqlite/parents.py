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
    wanted = list(dict.fromkeys(parent for claim in claims for parent in _parents_of(claim)))
    if not wanted:
        return claims
    read = database.read("results", **packing.ids(wanted))
    found = {wanted[place]: result for place, result in read if isinstance(result, bytes)}
    return tuple(_with_results(claim, found) if claim.inputs else claim for claim in claims)


def _with_results(claim: Claim, found: dict[UUID, bytes]) -> Claim:
    return structs.replace(claim, results={parent: found[parent] for parent in _parents_of(claim) if parent in found})


def _parents_of(claim: Claim) -> list[UUID]:
    return [each.parent for each in claim.inputs[:MOST]]
