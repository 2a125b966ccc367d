"""Java, and the programs that are written in it, without either being installed."""

import hashlib
import os
import shutil
import ssl
import struct
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tests.servers import debian
from tests.servers.account import Account
from tests.servers.debian import CACHE
from tests.servers.install import Install
from tests.servers.kept import folder_within_reach, within_reach
from tests.servers.unavailable import Unavailable

_MAVEN = Path("usr/share/maven/bin")
_COPIED_BY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


@dataclass(frozen=True)
class JavaInstall:
    """A program in jars, and the Java that runs it."""

    java: Install
    jars: Path

    @classmethod
    def fetched(cls, *coordinates: str) -> "JavaInstall":
        """What these artifacts are of; see ``jars``."""
        return cls(java(), jars(*coordinates))

    def within_reach(self, account: Account, folder: Path) -> "JavaInstall":
        """Itself as far as the account can reach it, and copies in the folder of the rest."""
        return JavaInstall(
            within_reach(self.java, "java", account, folder),
            folder_within_reach(self.jars, account, folder),
        )


def java() -> Install:
    """A Java 17 runtime, from Debian."""

    def programs(root: Path) -> Path:
        found = sorted(root.glob("usr/lib/jvm/java-17-openjdk-*/bin"))
        return found[0].relative_to(root) if found else Path("usr/lib/jvm/java-17-openjdk/bin")

    def check(root: Path) -> None:
        Install(root, programs(root)).check("java")

    root = debian.unpacked(["openjdk-17-jre-headless"], check)
    return Install(root, programs(root))


def jars(*coordinates: str) -> Path:
    """The folder with these artifacts ("group:artifact:version") and all that they need.

    Maven fetches them, so that the mirrors in the user's settings are obeyed.
    """
    _, artifact, version = coordinates[0].split(":")
    folder = CACHE / "jars" / f"{artifact}-{version}"
    if folder.exists():
        return folder
    runtime, maven = java(), _maven()
    with debian.locked(folder):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE, prefix="fetching-") as unfinished:
                _fetch(coordinates, Path(unfinished), runtime, maven).rename(folder)
    return folder


def _maven() -> Install:
    def check(root: Path) -> None:
        if not (root / _MAVEN / "mvn").exists():
            raise Unavailable("Debian's package of Maven has no mvn")

    return Install(debian.unpacked(["maven"], check), _MAVEN)


def _fetch(coordinates: Sequence[str], folder: Path, runtime: Install, maven: Install) -> Path:
    debian.say(f"fetching {', '.join(coordinates)} with Maven")
    project, trusted, fetched = folder / "pom.xml", folder / "trusted", folder / "fetched"
    project.write_text(_project(coordinates))
    trusted.write_bytes(trust_store(ssl.create_default_context().get_ca_certs(binary_form=True)))
    trust = f"-Djavax.net.ssl.trustStore={trusted} -Djavax.net.ssl.trustStoreType=JKS"
    debian.run(
        maven.program("mvn"),
        "--batch-mode",
        "--quiet",
        f"--file={project}",
        f"-Dmaven.repo.local={folder / 'repository'}",
        f"-DoutputDirectory={fetched}",
        "-DincludeScope=runtime",
        _COPIED_BY,
        environment={
            **os.environ,
            "JAVA_HOME": str(runtime.program("java").parents[1]),
            "MAVEN_OPTS": f"{os.environ.get('MAVEN_OPTS', '')} {trust}",
            "LD_LIBRARY_PATH": runtime.environment["LD_LIBRARY_PATH"],
        },
    )
    shutil.rmtree(folder / "repository")
    return fetched


def _project(coordinates: Sequence[str]) -> str:
    """A project that depends on them, and is nothing else."""
    return (
        "<project><modelVersion>4.0.0</modelVersion><packaging>pom</packaging>"
        "<groupId>duetime</groupId><artifactId>servers</artifactId><version>1</version>"
        f"<dependencies>{''.join(map(_dependency, coordinates))}</dependencies></project>"
    )


def _dependency(coordinate: str) -> str:
    group, artifact, version = (escape(part) for part in coordinate.split(":"))
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def trust_store(certificates: Sequence[bytes]) -> bytes:
    """The authorities that Python trusts, as a file for Java: Debian makes one when it installs."""

    def entries() -> Iterator[bytes]:
        yield struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
        for number, certificate in enumerate(certificates):
            yield struct.pack(">I", 2) + _text(str(number)) + struct.pack(">Q", 0)
            yield _text("X.509") + struct.pack(">I", len(certificate)) + certificate

    content = b"".join(entries())
    # The seal is by a password that everybody knows, and by these two words.
    seal = hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + content)
    return content + seal.digest()


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
