"""The OpenAPI document, from the same list of calls as the routes."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast._core.release import VERSION
from holdfast.http.operation import Operation
from holdfast.http.problems import CONTENT_TYPE, Problem

PREFIX: Final = "/api/v1"
_REFUSALS: Final = (400, 401, 403, 413, 415, 422, 501, 503)
"""The problems that any call may be answered with."""
_REFERENCE: Final = "#/components/schemas/{name}"


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the document of these calls."""
    kinds = [kind for each in operations for kind in (each.body, each.query, *each.answers.values()) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, Problem], ref_template=_REFERENCE)
    by_kind = iter(schemas)
    paths: dict[str, Any] = {}
    problem = schemas[-1]
    for each in operations:
        body = None if each.body is None else next(by_kind)
        query = None if each.query is None else _resolved(next(by_kind), components)
        answers = {status: None if kind is None else next(by_kind) for status, kind in each.answers.items()}
        paths.setdefault(PREFIX + each.path, {})[each.method.lower()] = _operation(each, body, query, answers, problem)
    for kind in {each.query.__name__ for each in operations if each.query is not None} - {"Selector"}:
        del components[kind]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": VERSION, "license": {"name": "MIT", "identifier": "MIT"}},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _operation(each: Operation, body: Any, query: Any, answers: dict[int, Any], problem: Any) -> dict[str, Any]:
    refusals = sorted({*_REFUSALS, *each.refusals})
    found: dict[str, Any] = {
        "operationId": f"{each.method.lower()}{re.sub(r'[^a-z]+', '_', each.path)}".rstrip("_"),
        "summary": each.summary,
        "responses": {
            **{str(status): _response("The answer.", schema) for status, schema in answers.items()},
            **{str(status): _response("A problem.", problem, CONTENT_TYPE) for status in refusals},
        },
    }
    parameters = [_parameter(name, "path") for name in re.findall(r"{(\w+)}", each.path)]
    for name, schema in ({} if query is None else query["properties"]).items():
        parameters.append({"name": name, "in": "query", "schema": schema})
    if each.has_key:
        parameters.append(
            {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "minLength": 1, "maxLength": 200}}
        )
    if each.has_match:
        parameters.append({"name": "If-Match", "in": "header", "schema": {"type": "string"}})
    if parameters:
        found["parameters"] = parameters
    if body is not None:
        found["requestBody"] = {"required": not each.is_body_optional, "content": {"application/json": {"schema": body}}}
    return found


def _parameter(name: str, place: str) -> dict[str, Any]:
    schema = {"type": "string", "format": "uuid"} if name == "id" else {"type": "string", "minLength": 1}
    return {"name": name, "in": place, "required": True, "schema": schema}


def _resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = components[schema["$ref"].rpartition("/")[2]]
    return found


def _response(description: str, schema: Any, content_type: str = "application/json") -> dict[str, Any]:
    if schema is None:
        return {"description": "There is none."}
    return {"description": description, "content": {content_type: {"schema": schema}}}
