"""What the network throws, and what is missing: each store says it in the same way."""

import sys
from importlib import import_module

import pytest

from duetime.errors import ConfigurationError
from duetime.stores.opening import KINDS, open_store
from tests.stores.translations import NETWORK_ERRORS, translation

SERVED = [kind for kind in KINDS if kind.extra]
TRANSLATED = ["postgres", "mysql", "mongodb", "cassandra", "redis"]  # by their drivers' errors


@pytest.fixture(params=TRANSLATED)
def translated(request):
    """What a store puts around all that it asks of its driver."""
    return import_module(f"duetime.stores.{request.param}.errors").translated


@pytest.mark.parametrize("error", NETWORK_ERRORS, ids=lambda error: type(error).__name__)
def test_each_error_of_the_network_is_mapped(translated, error):
    """Whatever breaks on the way to the server is StoreUnavailable, and never without a word."""
    engine, _, words = translation(translated, error).partition(": ")
    assert engine in {kind.traits.engine for kind in KINDS}
    assert words


def test_an_error_of_ours_is_not_hidden(translated):
    """A bug is not a database that is away."""
    with pytest.raises(KeyError), translated():
        raise KeyError("bug")


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.extra)
def test_a_missing_driver_is_named(kind, monkeypatch):
    """Whoever installed without the driver is told how to get it."""
    for name in [*sys.modules]:
        if name.startswith((f"duetime.stores.{kind.extra}.", f"{kind.driver}.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, kind.driver, None)
    with pytest.raises(ConfigurationError, match=rf"pip install 'duetime\[{kind.extra}\]'"):
        open_store(kind.example.partition(" ")[0])


@pytest.mark.parametrize("kind", SERVED, ids=lambda kind: kind.extra)
def test_traits_need_no_driver(kind, monkeypatch):
    """What an engine can do is known without its driver."""
    monkeypatch.delitem(sys.modules, f"duetime.stores.{kind.extra}.traits", raising=False)
    monkeypatch.setitem(sys.modules, kind.driver, None)
    assert import_module(f"duetime.stores.{kind.extra}.traits").TRAITS.engine == kind.traits.engine
