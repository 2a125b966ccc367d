"""Tenants of a service under load: each is made with a key."""

import json
from typing import Any
from urllib.request import Request, urlopen

from bench import requests


def make(port: int, tenant: str, quotas: dict[str, float] | None = None) -> str:
    """Make a tenant, and tell a key with which it creates timers."""
    ask(port, "/tenants", {"name": tenant, "quotas": quotas or {}})
    made = ask(port, f"/tenants/{tenant}/keys", {"name": tenant, "role": "write"})
    return str(made["key"])


def ask(port: int, path: str, body: dict[str, Any], key: str = requests.KEY) -> dict[str, Any]:
    """Post something, and tell the data of the answer."""
    content = json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}{path}", content, {"X-API-Key": key})
    with urlopen(request, timeout=10) as answer:
        data: dict[str, Any] = json.load(answer)["data"]
        return data
