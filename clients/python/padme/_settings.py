"""Where the broker is, and who asks."""

from __future__ import annotations

import os
import re
import socket
import ssl
import unicodedata
import uuid
from dataclasses import dataclass
from typing import Optional
from urllib.parse import urlsplit

_PORTS = {"mqtt": 1883, "tcp": 1883, "mqtts": 8883, "ssl": 8883, "ws": 80, "wss": 443}
_LONGEST_LOCK = 120  # bytes
_REMEDY = 'write it as "mqtt://host:1883" (or mqtts, ws, wss)'


@dataclass(frozen=True)
class Broker:
    """One URL."""

    url: str
    host: str
    port: int
    tls: bool
    path: Optional[str]  # of a WebSocket


@dataclass(frozen=True)
class Settings:
    """What `connect` was given, checked."""

    brokers: tuple[Broker, ...]
    user: Optional[str]
    password: Optional[str]
    name: str
    tls: Optional[ssl.SSLContext]  # if a broker speaks TLS
    root: str  # of all topics
    patience: float  # seconds

    @property
    def where(self) -> str:
        return ",".join(b.url for b in self.brokers)

    def client_topic(self, lock: str, family: str) -> str:
        """The topic of this client's requests for a lock, or of its answers."""
        return f"{self.root}/lock/{lock}/client/{level(self.name, 'name')}/{family}"


def settings(
    broker: Optional[str], user: Optional[str], password: Optional[str], name: Optional[str],
    cafile: Optional[str], cert: Optional[str], key: Optional[str],
    domain: str, prefix: str, patience: float,
) -> Settings:
    """Checks what `connect` was given, and adds what the environment says."""
    text = broker or os.environ.get("PADME_BROKER") or "mqtt://127.0.0.1:1883"
    brokers = tuple(parse_url(u.strip()) for u in text.split(","))
    if user is None:
        user = os.environ.get("PADME_USER") or None
    if user is None and password is not None:
        raise ValueError("password= belongs to a user: give user=, too")
    if user is not None and password is None:
        password = os.environ.get("PADME_PASSWORD")
    if (cert is None) != (key is None):
        raise ValueError("cert= and key= belong together: give both")
    if not patience > 0:
        raise ValueError(f"patience={patience!r}: give seconds above 0")
    tls = None
    if any(b.tls for b in brokers):
        try:
            tls = ssl.create_default_context(cafile=cafile)
            tls.minimum_version = ssl.TLSVersion.TLSv1_2
            if cert is not None:
                tls.load_cert_chain(cert, key)
        except OSError as err:  # also what is no PEM
            raise ValueError(f"cafile={cafile!r}, cert={cert!r}, key={key!r} cannot be read: {err}") from err
    elif cafile or cert:
        raise ValueError("cafile= and cert= are for TLS: give a broker of mqtts:// or wss://")
    if name is None:
        name = user or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:4]}"
    name_level(name, "name")
    root = f"{level(prefix, 'prefix')}/v1/{level(domain, 'domain')}"
    return Settings(brokers, user, password, name, tls, root, patience)


def parse_url(url: str) -> Broker:
    parts = urlsplit(url if "://" in url else "mqtt://" + url)
    try:
        port = parts.port
    except ValueError as err:
        raise ValueError(f'broker "{url}": {err}: {_REMEDY}') from None
    if parts.scheme not in _PORTS:
        raise ValueError(f'broker "{url}" has the unknown scheme "{parts.scheme}": {_REMEDY}')
    if not parts.hostname:
        raise ValueError(f'broker "{url}" names no host: {_REMEDY}')
    if parts.username is not None or parts.password is not None:
        raise ValueError("the broker's URL has a user or password in it: give user= and password=")
    path = (parts.path or "/mqtt") if parts.scheme in ("ws", "wss") else None
    return Broker(url, parts.hostname, port or _PORTS[parts.scheme], parts.scheme in ("mqtts", "ssl", "wss"), path)


def level(name: str, what: str, most: int = 128) -> str:
    """A name as one level of a topic, as all clients and servers encode it."""
    if not isinstance(name, str):
        raise TypeError(f"{what}={name!r}: give a str")
    size = len(name.encode("utf-8", "surrogatepass"))
    if not 1 <= size <= most:
        raise ValueError(f'{what} "{name:.40}" has {size} bytes: give 1 to {most}')
    for c in name:
        if unicodedata.category(c) in ("Cc", "Cs") or ord(c) & 0xFFFE == 0xFFFE or 0xFDD0 <= ord(c) <= 0xFDEF:
            raise ValueError(f"{what} {name!r} contains U+{ord(c):04X}, which brokers refuse: remove it")
    return re.sub(r"[ .*$+#/>%~]", lambda m: f"%{ord(m[0]):02X}", name)


def name_level(name: str, what: str, most: int = 128) -> str:
    """A name as one level of a subscription, which servers must not take for a wildcard."""
    encoded = level(name, what, most)
    if name in ("+", "#"):
        raise ValueError(f'{what} "{name}" is a wildcard of MQTT, not a name: give another')
    if name.isspace():
        raise ValueError(f"{what} {name!r} is blank: choose a name that can be seen")
    return encoded


def lock_level(name: str) -> str:
    """The name of a lock as a level of a topic."""
    if isinstance(name, str) and "/" in name:
        first, _, rest = name.partition("/")
        raise ValueError(f'lock "{name:.80}": what comes after a slash is a resource: give lock("{first:.40}", resource="{rest:.40}")')
    if name in ("gateway", "*", "join", "client", "member"):
        raise ValueError(f'lock "{name}": the name has a meaning of its own in the topics: give another')
    return name_level(name, "lock", _LONGEST_LOCK)
