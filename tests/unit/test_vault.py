"""The vault keeps secrets so that only its keys, and only their purpose, open them."""

import base64
import os

import pytest

from duetime.errors import ConfigurationError
from duetime.vault import CannotOpen, Vault, parse_key

KEY, OTHER = b"k" * 32, b"o" * 32


def test_what_was_sealed_is_opened():
    vault = Vault([KEY])
    assert vault.open(vault.seal(b"hush", "a"), "a") == b"hush"


def test_a_seal_shows_nothing_and_is_never_the_same_twice():
    vault = Vault([KEY])
    first, second = vault.seal(b"hush", "a"), vault.seal(b"hush", "a")
    assert first != second
    assert base64.b64encode(b"hush").decode() not in first


def test_another_purpose_does_not_open_it():
    vault = Vault([KEY])
    with pytest.raises(CannotOpen, match="moved"):
        vault.open(vault.seal(b"hush", "tenant/a"), "tenant/b")


@pytest.mark.parametrize("at", [12, 20, -3])
def test_what_was_altered_is_not_opened(at):
    vault = Vault([KEY])
    sealed = vault.seal(b"a secret of some length", "a")
    altered = sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :]
    with pytest.raises(CannotOpen):
        vault.open(altered, "a")


@pytest.mark.parametrize("sealed", ["", "v1", "v1.", "v1..", "v2.x.y", "v1.{}.%%", "v1.{}.AAAA"])
def test_what_is_no_seal_is_not_opened(sealed):
    vault = Vault([KEY])
    name = vault.seal(b"", "a").split(".")[1]
    with pytest.raises(CannotOpen):
        vault.open(sealed.format(name), "a")


def test_keys_rotate():
    old = Vault([OTHER]).seal(b"hush", "a")
    both = Vault([KEY, OTHER])
    assert both.open(old, "a") == b"hush"
    assert not both.is_newest(old)
    assert both.is_newest(both.seal(b"hush", "a"))
    with pytest.raises(CannotOpen, match="SECRETS_KEY"):
        Vault([KEY]).open(old, "a")


def test_without_a_key_it_says_how_to_make_one():
    assert "openssl" in (Vault().problem or "")
    with pytest.raises(ConfigurationError, match="openssl"):
        Vault().seal(b"hush", "a")
    assert Vault([KEY]).problem is None


@pytest.mark.parametrize("text", ["", "short", "%%%", base64.b64encode(b"x" * 31).decode()])
def test_a_key_that_is_none_is_refused_and_not_shown(text):
    with pytest.raises(ConfigurationError, match="openssl") as caught:
        parse_key(text)
    assert not text or text not in str(caught.value)


def test_a_key_is_read():
    key = os.urandom(32)
    assert parse_key(f" {base64.b64encode(key).decode()}\n") == key
