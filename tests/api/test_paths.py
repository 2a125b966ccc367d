"""Paths that are none, and methods that a path does not have."""

import pytest

from tests.api.client import Api


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/timer",
        "/timers/",
        "//timers",
        "/v1/timers",
        "/timers/a/b/c",
        "/group",
        "/favicon.ico",
    ],
)
async def test_no_such_path(quick_api: Api, path: str):
    """A path that is none is 404 in the envelope, never HTML and never a redirect."""
    answer = await quick_api.get(path)
    assert answer.summary == (404, 3, "no such path; /docs lists what there is")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/timers", "GET, HEAD, POST"),
        ("/timers/batch", "POST"),
        ("/timers/01977420-dc00-7012-9f7e-3d5f520271b1", "DELETE, GET, HEAD, PUT"),
        ("/timers/01977420-dc00-7012-9f7e-3d5f520271b1/fire", "POST"),
        ("/timers/01977420-dc00-7012-9f7e-3d5f520271b1/attempts", "GET, HEAD"),
        ("/groups/default/timers/x", "DELETE, GET, HEAD, PUT"),
        ("/healthz", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
        ("/docs", "GET, HEAD"),
    ],
)
@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "TRACE", "NONSENSE"])
async def test_method_not_allowed(quick_api: Api, path: str, allow: str, method: str):
    """A method that a path does not have is 405 in the envelope, with those that it has."""
    answer = await quick_api.call(method, path)
    assert answer.summary == (405, 2, "method not allowed")
    assert answer.headers["allow"] == allow
