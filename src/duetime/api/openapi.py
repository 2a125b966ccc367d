"""The description of the API, generated from the types that check the requests."""

import re
from typing import Any

import msgspec

from duetime import __version__
from duetime.api.operation import Operation
from duetime.api.request import IF_MATCH
from duetime.api.views import CanceledView, TimerDetailView, TimerView
from duetime.bulk.requests import CreateAction, RedriveTimers
from duetime.requests import (
    GROUP_NAME,
    LONGEST_CREDENTIAL,
    LONGEST_GROUP,
    LONGEST_TEXT,
    TIMER_KEY,
    Batch,
    CreateTimer,
    UpdateTimer,
)
from duetime.tenancy.credential_requests import CreateCredential, PutCredential
from duetime.tenancy.requests import (
    LONGEST_TARGET,
    LONGEST_TENANT,
    TARGET_NAME,
    CreateGroup,
    CreateKey,
    CreateSigningSecret,
    CreateTenant,
    PauseTarget,
    PutGroup,
    PutTarget,
    RotateKey,
    RotateSigningSecret,
    UpdateTenant,
)

_REF = "#/components/schemas/{name}"

_FAILURES = {
    400: "The request is wrong; the message names the field (code 2).",
    401: "No API key, or a wrong one (code 4).",
    403: "The key is not good for that, or a quota forbids it (code 10).",
    404: "There is no such thing, or it is another tenant's (code 3).",
    409: "Something stands in its way: the key is another timer's, say (code 5).",
    412: "`If-Match` names a version that is no longer the newest (code 6).",
    413: "The body is over its limit (code 8).",
    429: "A quota is used up for now (code 7).",
    500: "Something went wrong; for a write, it may or may not have been done (code 1).",
    503: "Nothing was written; try again (code 9).",
}

_TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
# Other characters are read as UTF-8, but few clients can send them in a header.
_HEADER_TEXT = {**_TEXT, "pattern": "^[!-~]([ -~]*[!-~])?$"}

_TENANT = {"type": "string", "minLength": 1, "maxLength": LONGEST_TENANT, "pattern": GROUP_NAME}

_HEADERS: dict[str, dict[str, Any]] = {
    "X-Tenant-ID": {
        "schema": _TENANT,
        "description": "The tenant to act for; with the operator's key only.",
    },
    "If-Match": {
        "schema": {"type": "string", "pattern": IF_MATCH},
        "description": "The version (`ETag`) that must still be the newest; otherwise 412.",
    },
    "Idempotency-Key": {
        "schema": _HEADER_TEXT,
        "description": "The same request again with the same key is answered with what the first "
        "one has made, and with other content 409. For a timer it does the same as `timer_id`.",
    },
    "Last-Event-ID": {
        "schema": {**_HEADER_TEXT, "maxLength": 1024},
        "description": "The `id` to go on from, as browsers send it by themselves; or `first`.",
    },
    "X-Correlation-ID": {
        "schema": _HEADER_TEXT,
        "description": "The `correlation_id`, if the body has none.",
    },
}

# How answers are to be read that are no envelope.
_NOT_JSON = {
    "application/x-ndjson": "One to a line.",
    "text/event-stream": "The `data` of each event; the last may be an `error`.",
}

# What carries the version of one timer.
_VERSIONED = {TimerView, TimerDetailView, CanceledView}
_ETAG = {
    "required": True,
    "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    "description": "The timer's version, for `If-Match`.",
}
_RETRY_AFTER = {
    "required": True,
    "schema": {"type": "integer"},
    "description": "Seconds after which it is worth trying again.",
}

_PATH_PARAMETERS: dict[str, dict[str, Any]] = {
    "id": {"schema": {"type": "string", "format": "uuid"}, "description": "The timer's id."},
    "group": {
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_GROUP,
            "pattern": GROUP_NAME,
        },
        "description": "The group.",
    },
    "timer_id": {
        "schema": {**_TEXT, "pattern": TIMER_KEY},
        "description": "Your own key for the timer.",
    },
    "node": {"schema": _TEXT, "description": "The name of the node."},
    "action": {
        "schema": {"type": "string", "format": "uuid"},
        "description": "The action's id.",
    },
    "tenant": {"schema": _TENANT, "description": "The tenant."},
    "credential": {
        "schema": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_CREDENTIAL,
            "pattern": GROUP_NAME,
        },
        "description": "The credential.",
    },
    "target": {
        "schema": {**_TEXT, "maxLength": LONGEST_TARGET, "pattern": TARGET_NAME},
        "description": "The receiver, by its host and port: `api.example.com:8443`. Without a port "
        "it is 443. `nats` is that of all NATS callbacks.",
    },
    "key": {
        "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "description": "The key's id.",
    },
    "secret": {
        "schema": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
        "description": "The signing secret's id.",
    },
}


_TIMER = {
    "delay": "10s",
    "callback": {
        "type": "http",
        "url": "https://api.example.com/webhook",
        "payload": {"event": "timer_triggered", "user_id": "user123"},
    },
}
_EXAMPLES: dict[type, dict[str, Any]] = {
    CreateTimer: _TIMER,
    Batch: {"timers": [_TIMER, {**_TIMER, "timer_id": "user-reminder-123"}]},
    UpdateTimer: {"delay": "1h"},
    CreateTenant: {"name": "acme", "title": "Acme Inc.", "quotas": {"creates_per_second": 100}},
    UpdateTenant: {"quotas": {"pending": 100_000}},
    CreateKey: {"name": "billing service", "role": "write", "expires_in": "90d"},
    RotateKey: {"valid_for": "24h"},
    CreateSigningSecret: {"group": "billing", "expires_in": "365d"},
    RotateSigningSecret: {"valid_for": "24h"},
    CreateAction: {"action": "cancel", "filter": {"status": "pending", "tags": ["trial"]}},
    RedriveTimers: {"filter": {"group": "billing", "last_error": "503"}, "dry_run": True},
    CreateGroup: {"name": "billing", "num_shards": 64, "retry_policy": {"max_attempts": 5}},
    PutTarget: {"limits": {"per_second": 50, "concurrency": 10}},
    PauseTarget: {"for": "30m", "reason": "they are moving to another data centre"},
    PutGroup: {"retry_policy": {"max_attempts": 5}, "retention": "7d"},
    CreateCredential: {
        "name": "bank",
        "type": "bearer",
        "token": "3d1f-the-token-of-the-bank",
        "hosts": ["api.bank.example"],
    },
    PutCredential: {"token": "9a7c-the-next-token-of-the-bank"},
}


def describe(operations: list[Operation]) -> dict[str, Any]:
    """The OpenAPI document."""
    types = [op.answer for op in operations]
    types += [op.body for op in operations if op.body is not None]
    types += [op.parameters for op in operations if op.parameters is not None]
    distinct = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(distinct, ref_template=_REF)
    schema_of = dict(zip(distinct, schemas, strict=True))
    # The items of a batch are decoded one by one, so that each has its own errors.
    components["Batch"]["properties"]["timers"]["items"] = schema_of[CreateTimer]
    components["CreateAction"]["properties"]["update"] |= schema_of[UpdateTimer]
    components["Error"] = {
        "title": "Error",
        "type": "object",
        "description": "What went wrong.",
        "properties": {
            "code": {"type": "integer", "description": "What kind of failure it is."},
            "message": {"type": "string", "description": "What went wrong, naming the field."},
            "data": {"description": "null, but for the health checks."},
        },
        "required": ["code", "message", "data"],
    }
    paths: dict[str, Any] = {}
    for operation in operations:
        path = operation.path.replace(":key", "")
        described = _operation(operation, schema_of, components)
        paths.setdefault(path, {})[operation.method.lower()] = described
    parameter_types = {op.parameters.__name__ for op in operations if op.parameters}
    for name in parameter_types:
        del components[name]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Duetime",
            "version": __version__,
            "description": "A durable timer service. Every answer is an envelope "
            '`{"code", "message", "data"}`; code 0 is success.',
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "security": [{"api_key": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(
    operation: Operation, schema_of: dict[Any, Any], components: dict[str, Any]
) -> dict[str, Any]:
    words = re.sub(r"[^a-z]+", "_", operation.summary.lower()).strip("_")
    described: dict[str, Any] = {
        "operationId": words,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": _responses(operation, schema_of),
    }
    if parameters := _parameters(operation, components):
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": not operation.is_body_optional,
            "content": {
                "application/json": {
                    "schema": schema_of[operation.body],
                    "example": _EXAMPLES[operation.body],
                }
            },
        }
    if operation.role is None:
        described["security"] = []
    return described


def _responses(operation: Operation, schema_of: dict[Any, Any]) -> dict[str, Any]:
    success = _response("Success.", schema_of[operation.answer])
    if operation.content_type != "application/json":
        schema = schema_of[operation.answer]
        described = {"description": _NOT_JSON[operation.content_type], "schema": schema}
        success = {"description": "Success.", "content": {operation.content_type: described}}
    if operation.answer in _VERSIONED:
        success["headers"] = {"ETag": _ETAG}
    responses = {str(status): success for status in operation.success}
    # A request may say twice who asks, or name a tenant that there is not with the operator's key.
    always = {413} if operation.role is None else {400, 401, 403, 404, 413}
    if operation.makes or operation.changes:
        always.add(409)
    for status in sorted(always | set(operation.failures)):
        responses[str(status)] = {
            "description": _FAILURES[status],
            "content": {"application/json": {"schema": {"$ref": _REF.format(name="Error")}}},
        }
        if status in {429, 503}:
            responses[str(status)]["headers"] = {"Retry-After": _RETRY_AFTER}
    return responses


def _response(description: str, data: Any) -> dict[str, Any]:
    return {
        "description": description,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "code": {"const": 0},
                        "message": {"type": "string"},
                        "data": data,
                    },
                    "required": ["code", "message", "data"],
                }
            }
        },
    }


def _parameters(operation: Operation, components: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = [
        {"name": name, "in": "path", "required": True, **_PATH_PARAMETERS[name]}
        for name in re.findall(r"{(\w+)", operation.path)
    ]
    if operation.parameters is not None:
        properties = components[operation.parameters.__name__]["properties"]
        parameters += [_query_parameter(name, schema) for name, schema in properties.items()]
    always = () if operation.role is None else ("X-Tenant-ID",)
    parameters += [
        {"name": name, "in": "header", "required": False, **_HEADERS[name]}
        for name in (*operation.headers, *always)
    ]
    return parameters


def _query_parameter(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    described = {"name": name, "in": "query", "required": False, "schema": _not_null(schema)}
    if schema.get("type") == "array":  # given once for each
        items = {key: value for key, value in schema.items() if key != "default"}
        described |= {"schema": items, "style": "form", "explode": True}
    return described


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is optional is left out, never null."""
    choices = [each for each in schema.get("anyOf", []) if each != {"type": "null"}]
    if len(choices) != 1:
        return schema
    rest = {k: v for k, v in schema.items() if k not in {"anyOf", "default"}}
    return {**rest, **choices[0]}
