"""Requests that are made from the OpenAPI document of a running broker, and checks of the answers."""

from typing import Any

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS: list[CheckFunction] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def check_answers(document: str, path: str, method: str, *, is_right: bool) -> None:
    """Send requests for one call, right or wrong ones, and check that each answer is one that the document promises."""
    call = schemathesis.openapi.from_url(document)[path][method]
    mode = GenerationMode.POSITIVE if is_right else GenerationMode.NEGATIVE
    if not is_right and not (call.body or call.query or "{id}" in path):
        mode = GenerationMode.POSITIVE  # it takes nothing that could be wrong

    @given(case=call.as_strategy(generation_mode=mode))
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    def check(case: Any) -> None:
        if isinstance(case.body, dict) and "wait" in case.body:
            case.body["wait"] = 0
        case.call_and_validate(checks=CHECKS)

    check()
