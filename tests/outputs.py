"""What all services write that a run starts, looked through for secrets when the run is over.

Whoever starts a service says here where its output goes, and whoever has a secret says so. At the
end each process of the run, under pytest-xdist each of its workers, looks through all of it.
"""

import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import pytest

SHORTEST = 12  # characters; what is shorter may stand anywhere by chance
CARRYING = frozenset({"authorization", "cookie", "x-api-key"})  # headers that receivers are sent


class Outputs:
    """Outputs of services, and the secrets that must not be in them."""

    def __init__(self) -> None:
        self._secrets: dict[str, str] = {}  # what each is called
        self._files: dict[Path, None] = {}
        self._heard: list[tuple[str, str]] = []  # who said what

    # Secrets ----------------------------------------------------------------------------------

    def keep(self, name: str, secret: str | None) -> None:
        """Have a secret that no output may show."""
        if secret is not None and len(secret) >= SHORTEST:
            self._secrets.setdefault(secret, name)

    def keep_settings(self, settings: Mapping[str, str]) -> None:
        """Have the secrets that a service is given in its environment."""
        self.keep("API_KEY", settings.get("API_KEY"))
        for secret in settings.get("SIGNING_SECRETS", "").split(","):
            self.keep("SIGNING_SECRETS", secret.strip().removeprefix("whsec_"))
        for key in settings.get("SECRETS_KEY", "").split(","):
            self.keep("SECRETS_KEY", key.strip())
        for name in ("DATABASE_URL", "EGRESS_PROXY"):
            try:
                password = urlsplit(settings.get(name, "")).password
            except ValueError:  # it is wrong on purpose
                continue
            for each in {password, password and unquote(password)}:
                self.keep(f"the password in {name}", each)

    def keep_key(self, key: str) -> None:
        """Have a key, and of one that has an id also the secret without it."""
        self.keep("an API key", key)
        mark, _, rest = key.partition("_")
        id_, _, secret = rest.partition("_")
        if mark == "dt":
            self.keep(f"the key dt_{id_}", secret)

    def keep_exchanged(self, key: str | None, sent: Any, received: Any) -> None:
        """Have the secrets that a request brings, and the key that it may be answered with."""
        if key is not None:
            self.keep_key(key)
        callback = sent.get("callback") if isinstance(sent, dict) else None
        if isinstance(callback, dict) and isinstance(callback.get("headers"), dict):
            for name, value in callback["headers"].items():
                if name.lower() in CARRYING:
                    self.keep(f"the header {name} of a callback", str(value).rpartition(" ")[2])
        if isinstance(callback, dict):
            for text in _texts(callback.get("payload")):
                self.keep("the payload of a callback", text)
        data = received.get("data") if isinstance(received, dict) else None
        for each in (sent, data):
            secret = each.get("secret") if isinstance(each, dict) else None
            if isinstance(secret, str):
                self.keep("a signing secret", secret.removeprefix("whsec_"))
        if isinstance(data, dict) and "prefix" in data and "key" in data:
            self.keep_key(data["key"])

    # Outputs ----------------------------------------------------------------------------------

    def watch(self, file: Path) -> None:
        """Look through a file when the run is over."""
        self._files[file] = None

    def hear(self, who: str, text: str) -> None:
        """Look through this as well."""
        self._heard.append((who, text))

    def findings(self) -> list[str]:
        """Each line that has a secret, by its place and what the secret is called."""
        found = []
        for file in self._files:
            if file.exists():
                found += self._in(str(file), file.read_text(errors="replace"))
            else:
                found.append(f"{file}: is gone, so nobody could look through it")
        for who, text in self._heard:
            found += self._in(who, text)
        return found

    def _in(self, where: str, text: str) -> list[str]:
        shown = [secret for secret in self._secrets if secret in text]
        return [
            f"{where}:{number}: has {self._secrets[secret]}"
            for number, line in enumerate(text.splitlines() if shown else [], 1)
            for secret in shown
            if secret in line
        ]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


OUTPUTS = Outputs()  # of this process of the run


class HeardProcess(subprocess.Popen[str]):
    """A program whose output a test reads; whatever is read is looked through as well."""

    def __init__(self, command: list[str], **options: Any) -> None:
        super().__init__(command, text=True, **options)
        self._name = " ".join(command[-3:])
        for stream in ("stdout", "stderr"):
            if (opened := getattr(self, stream)) is not None:
                setattr(self, stream, _Heard(opened, self))

    def communicate(self, _input: None = None, timeout: float | None = None) -> tuple[str, str]:
        """All that was not read yet; what lies in a buffer already is not lost, as it is else."""
        ends_at = None if timeout is None else time.monotonic() + timeout
        texts = {"stdout": "", "stderr": ""}
        readers = [
            Thread(target=lambda name=name: texts.update({name: self._rest(name)}), daemon=True)
            for name in texts
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(None if ends_at is None else max(ends_at - time.monotonic(), 0))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(None if ends_at is None else max(ends_at - time.monotonic(), 1))
        return texts["stdout"], texts["stderr"]

    def _rest(self, name: str) -> str:
        stream = getattr(self, name)
        if stream is None or stream.closed:
            return ""
        with stream:
            return str(stream.read())

    def hear(self, text: str) -> None:
        OUTPUTS.hear(self._name, text)


class _Heard:
    """A stream whose lines somebody else hears, too."""

    def __init__(self, stream: Any, process: HeardProcess) -> None:
        self._stream = stream
        self._process = process

    def readline(self) -> str:
        line: str = self._stream.readline()
        self._process.hear(line)
        return line

    def read(self) -> str:
        text: str = self._stream.read()
        self._process.hear(text)
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@pytest.fixture(scope="session", autouse=True)
def _no_secret_in_any_output() -> Iterator[None]:
    yield
    if found := OUTPUTS.findings():
        pytest.fail("services have shown secrets:\n" + "\n".join(found), pytrace=False)
