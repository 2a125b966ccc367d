"""Tenants of a service under load: each is made with a key."""

import json
from typing import Any
from urllib.request import Request, urlopen

from duetime.benching import requests


def make(port: int, tenant: str, quotas: dict[str, float] | None = None) -> str:
    """Make a tenant, and tell a key with which it creates timers."""
    ask(port, "/tenants", {"name": tenant, "quotas": quotas or {}})
    made = ask(port, f"/tenants/{tenant}/keys", {"name": tenant, "role": "write"})
    return str(made["key"])


def ask(
    port: int, path: str, body: dict[str, Any], key: str = requests.KEY, method: str = "POST"
) -> dict[str, Any]:
    """Post or put something, and tell the data of the answer."""
    content = json.dumps(body).encode()
    url = f"http://127.0.0.1:{port}{path}"
    request = Request(url, content, {"X-API-Key": key}, method=method)
    with urlopen(request, timeout=10) as answer:
        data: dict[str, Any] = json.load(answer)["data"]
        return data
