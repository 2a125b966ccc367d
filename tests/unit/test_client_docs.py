"""docs/client.md knows every method of the clients, which have the same."""

import inspect
from pathlib import Path

from duetime.client import AsyncClient, Client

DOCS = (Path(__file__).parents[2] / "docs" / "client.md").read_text()


def methods(client):
    functions = inspect.getmembers(client, inspect.isfunction)
    return {name for name, _ in functions if not name.startswith("_")}


def test_both_clients_have_the_same_methods():
    """Method by method the same."""
    assert methods(Client) == methods(AsyncClient)


def test_every_method_is_documented():
    """docs/client.md names every method."""
    assert {name for name in methods(Client) if f"`{name}`" not in DOCS} == set()


def test_every_option_is_documented():
    """docs/client.md names what a client can be given."""
    for client in (Client, AsyncClient):
        options = list(inspect.signature(client).parameters)
        assert options == ["url", "api_key", "tenant", "timeout"]
        assert all(f"| `{name}` |" in DOCS for name in options)
