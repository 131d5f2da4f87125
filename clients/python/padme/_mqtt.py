"""One MQTT connection, over paho 1.6 or 2."""

from __future__ import annotations

import json
import math
import re
import select
import socket
import ssl
import struct
import time
from collections import deque
from typing import Any, Callable, Optional

import paho.mqtt.client as mqtt

from ._errors import Denied, NoServer
from ._settings import Broker, Settings

KEEPALIVE = 5  # seconds; the broker takes a client for dead after one and a half of it
_PATIENCE = 5.0  # seconds until a broker has answered a packet


def readable(seconds: float, *sockets: Any, write: Any = None) -> bool:
    """Waits until one of the sockets can be read, or `write` be written; at most so long.

    It does not use what an epoll shares with a fork of the process, nor `select`, which
    cannot take more than 1024 files where there is `poll`.
    """
    seconds = max(0.0, seconds)
    if not hasattr(select, "poll"):
        ready = select.select(sockets, [write] if write else [], [], seconds)
        return bool(ready[0] or ready[1])
    poll = select.poll()
    for s in sockets:
        poll.register(s, select.POLLIN | (select.POLLOUT if s is write else 0))
    return bool(poll.poll(math.ceil(seconds * 1000)))


class Connection:
    """From CONNECT to its end. It belongs to one thread at a time.

    Making one blocks for some seconds at most, and raises NoServer or Denied. Later its
    methods raise OSError once the connection is lost.
    """

    def __init__(self, settings: Settings, broker: Broker, client_id: str, will: Optional[tuple[str, str]]) -> None:
        self.arrived: deque[tuple[str, bytes]] = deque()
        self._settings, self._broker = settings, broker
        self._connack: Optional[int] = None
        self._suback: Optional[bool] = None
        self._mqtt = client = _paho(client_id, "tcp" if broker.path is None else "websockets")
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = lambda _client, _data, m: self.arrived.append((m.topic, m.payload))
        if broker.path is not None:
            client.ws_set_options(path=broker.path)
        if broker.tls:
            client.tls_set_context(settings.tls)
        if settings.user is not None:
            client.username_pw_set(settings.user, settings.password)
        if will is not None:
            client.will_set(will[0], will[1], qos=1)
        try:
            client.connect(broker.host, broker.port, KEEPALIVE)
            _without_delay(client.socket())
            self._until(lambda: self._connack is not None)
        except ssl.SSLError as err:
            self.close(clean=False)
            raise NoServer(f"no TLS with the broker at {broker.url}: {err}: {_tls_remedy(err)}") from err
        except (OSError, ValueError, struct.error, mqtt.WebsocketConnectionError) as err:
            self.close(clean=False)
            if self._connack is None:
                raise NoServer(f"no broker answers at {broker.url}: {err or type(err).__name__}") from err
        if self._connack:
            raise _refused(self._connack, settings, broker)

    def _on_connect(self, _client: Any, _data: Any, _flags: Any, code: Any, *_: Any) -> None:
        self._connack = int(getattr(code, "value", code))

    def _on_subscribe(self, _client: Any, _data: Any, _mid: Any, codes: Any, *_: Any) -> None:
        self._suback = all(int(getattr(c, "value", c)) < 128 for c in codes)

    def _until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"it did not answer within {_PATIENCE:g} s")
            self.pump(left)

    def subscribe(self, topics: str) -> None:
        """Subscribes, and waits until that counts."""
        self._suback = None
        try:
            self._mqtt.subscribe(topics, 0)
            self._until(lambda: self._suback is not None)
        except (OSError, ValueError) as err:
            raise NoServer(f"the broker at {self._broker.url} does not answer: {err}") from err
        if not self._suback:
            raise Denied("not_authorized", f"not authorized: {_who(self._settings)} may not read {topics} at {self._broker.url}: {_ROLE}")

    def watch(self, topics: str, on: bool) -> None:
        """Subscribes or unsubscribes, and waits for nothing."""
        if on:
            self._mqtt.subscribe(topics, 0)
        else:
            self._mqtt.unsubscribe(topics)

    def publish(self, topic: str, payload: str) -> None:
        self._mqtt.publish(topic, payload, qos=1)

    def pump(self, seconds: float, wake: Optional[socket.socket] = None) -> None:
        """Waits for the network, or for `wake`, and handles what there is."""
        sock = self._mqtt.socket()
        if sock is None:
            raise ConnectionResetError("the connection was closed")
        waiting = getattr(sock, "pending", lambda: 0)() > 0  # within TLS
        write = sock if self._mqtt.want_write() else None
        readable(0 if waiting else seconds, *((sock,) if wake is None else (sock, wake)), write=write)
        rc = self._mqtt.loop_read() or self._mqtt.loop_write() or self._mqtt.loop_misc()
        if rc:
            raise ConnectionResetError(mqtt.error_string(rc))

    def close(self, clean: bool = True) -> None:
        """Ends the connection. The broker publishes its will unless that is clean."""
        try:
            if clean:
                self._mqtt.disconnect()
                end = time.monotonic() + 1
                while self._mqtt.want_write() and time.monotonic() < end:
                    self.pump(end - time.monotonic())
        except (OSError, ValueError):
            pass
        sock = self._mqtt.socket()
        if sock is not None:
            sock.close()


def _paho(client_id: str, transport: str) -> mqtt.Client:
    options: dict[str, Any] = dict(
        client_id=client_id, clean_session=True, protocol=mqtt.MQTTv311, transport=transport, reconnect_on_failure=False
    )
    if hasattr(mqtt, "CallbackAPIVersion"):  # paho 2
        return mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, **options)
    return mqtt.Client(**options)


def _without_delay(sock: Any) -> None:
    if hasattr(sock, "setsockopt"):  # a WebSocket of paho has none
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


_ROLE = "give a user with the role client (`pubsub-node broker passwd USERS NAME --role client`)"


def _who(settings: Settings) -> str:
    return "a client without a user" if settings.user is None else f'user "{settings.user}"'


def _tls_remedy(err: ssl.SSLError) -> str:
    if isinstance(err, ssl.SSLCertVerificationError):
        return "give cafile= of the authority that signed its certificate, and the host name that is in it"
    return "look whether it speaks TLS there, and whether it wants cert= and key="


def _refused(code: int, settings: Settings, broker: Broker) -> Exception:
    if code in (4, 5, 134, 135):  # paho 2 has the codes of MQTT 5
        return Denied("not_authorized", f"the broker at {broker.url} refuses {_who(settings)}: look at user= and password=")
    if code in (2, 133):
        return Denied("bad_id", f'the broker at {broker.url} refuses the client id of "{settings.name}": give another name=')
    return NoServer(f"the broker at {broker.url} refuses connections now (CONNACK {code})")


def dial(settings: Settings, client_id: str, session: str) -> Connection:
    """Connects to the first broker that answers, and reads the answers to this client.

    The will ends the session in every lock.
    """
    will = (settings.client_topic("gateway", "request"), json.dumps({"op": "gone", "session": session}))
    client_id = re.sub(r"[^A-Za-z0-9_-]", "-", client_id)
    errors = []
    for broker in settings.brokers:
        try:
            try:
                connection = Connection(settings, broker, client_id, will)
            except Denied as err:
                raise _role(settings, broker, client_id) or err
            connection.subscribe(settings.client_topic("+", "answer"))
            return connection
        except NoServer as err:
            errors.append(err)
    remedy = "start one (`pubsub-node broker`), or say where it is by broker= or PADME_BROKER"
    raise NoServer("; ".join(str(e) for e in errors) + ": " + remedy) from errors[-1]


def _role(settings: Settings, broker: Broker, client_id: str) -> Optional[Denied]:
    """A broker refuses a will in the same words as a password. Who comes in without one
    may not lock."""
    try:
        Connection(settings, broker, client_id, None).close()
    except (Denied, NoServer):
        return None
    remedy = _ROLE if settings.name == settings.user else "name= must be the user's, and the user have the role client"
    return Denied("not_authorized", f"not authorized: {_who(settings)} may connect to {broker.url}, but not lock: {remedy}")
