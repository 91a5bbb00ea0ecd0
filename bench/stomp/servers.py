"""Starts the servers that the conformance script knows, on loopback, and reads the addresses of others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.peers.activemq import ActiveMq
from bench.peers.rabbitmq import Node, RabbitMq, name_service
from bench.peers.server import running
from bench.stomp.stage import Target
from penstock.lab.demo_overlay import free_ports

__all__ = ["activemq", "parse_server", "rabbitmq"]

_HOST: Final = "127.0.0.1"
_LOGIN: Final = "known"
_PASSCODE: Final = "right"
_HOME: Final = Path("/usr/share/activemq")
_HEAP: Final = "512M"
_CONFIGURATION: Final = """\
<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
    http://www.springframework.org/schema/beans/spring-beans-2.0.xsd
    http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" brokerName="conformance"
      dataDirectory="{folder}" advisorySupport="false">
    <persistenceAdapter><kahaDB directory="{folder}/kahadb"/></persistenceAdapter>
    <plugins>
      <simpleAuthenticationPlugin>
        <users><authenticationUser username="{login}" password="{passcode}" groups="users"/></users>
      </simpleAuthenticationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp+nio://{host}:{port}"/>
    </transportConnectors>
  </broker>
</beans>
"""
_SERVER: Final = re.compile(r"(?P<name>[^=]+)=(?P<host>[^:,]+):(?P<port>\d+)(?P<options>(,\w+=[^,]*)*)")


@contextmanager
def activemq() -> Iterator[Target]:
    """ActiveMQ as it is by default, with its store, one user, and no WebSocket, for which Debian has no library."""
    with TemporaryDirectory(prefix="penstock-stomp-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (port,) = free_ports(1)
        text = _CONFIGURATION.format(folder=folder, host=_HOST, port=port, login=_LOGIN, passcode=_PASSCODE)
        (folder / "broker.xml").write_text(text, encoding="utf-8")
        classes = ":".join((ActiveMq.program, f"{_HOME}/lib/*", f"{_HOME}/lib/optional/*"))
        command = [
            "java",
            f"-Xms{_HEAP}",
            f"-Xmx{_HEAP}",
            f"-Dactivemq.home={_HOME}",
            f"-Dactivemq.base={folder}",
            "-cp",
            classes,
            "org.apache.activemq.console.Main",
            "start",
            f"xbean:file:{folder}/broker.xml",
        ]
        with running(command, port=port, folder=folder, is_apart=False):
            yield Target("ActiveMQ", _HOST, port, dead_letters="/queue/ActiveMQ.DLQ", login=_LOGIN, passcode=_PASSCODE)


@contextmanager
def rabbitmq() -> Iterator[Target]:
    """RabbitMQ with its plugins for STOMP over TCP and over WebSocket."""
    with TemporaryDirectory(prefix="penstock-stomp-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        port, names_port, links_port, stomp_port, web_port = free_ports(5)
        node = Node(folder, port, names_port=names_port, links_port=links_port)
        (folder / "plugins").write_text("[rabbitmq_stomp,rabbitmq_web_stomp].\n", encoding="utf-8")
        settings = [
            f"stomp.listeners.tcp.1 = {_HOST}:{stomp_port}",
            f"web_stomp.tcp.listener = {_HOST}:{web_port}",
            # Clients say what they dial, and it must be the name of a virtual host.
            f"default_vhost = {_HOST}",
            f"stomp.default_vhost = {_HOST}",
            f"default_user = {_LOGIN}",
            f"default_pass = {_PASSCODE}",
        ]
        (folder / "rabbitmq.conf").write_text("".join(f"{line}\n" for line in settings), encoding="utf-8")
        own = folder / node.name
        own.mkdir()
        with (
            name_service(folder, names_port),
            # It listens for WebSocket last.
            running([RabbitMq.program], port=web_port, folder=own, environment=node.environment, is_apart=False),
        ):
            yield Target(
                "RabbitMQ",
                _HOST,
                stomp_port,
                web=(_HOST, web_port),
                web_path="/ws",
                login=_LOGIN,
                passcode=_PASSCODE,
            )


def parse_server(text: str) -> Target:
    """A server that runs already: ``NAME=HOST:PORT``, then ``,ws=HOST:PORT`` and further options.

    >>> parse_server("Other=127.0.0.1:61613,ws=127.0.0.1:61614,login=me").web
    ('127.0.0.1', 61614)
    """
    found = _SERVER.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not NAME=HOST:PORT[,ws=HOST:PORT][,OPTION=VALUE]...")
    options = dict(each.split("=", 1) for each in found["options"].split(",") if each)
    web = options.pop("ws", "")
    host, _, port = web.rpartition(":")
    if web and not (host and port.isdecimal()):
        raise ValueError(f"ws={web!r} is not HOST:PORT")
    known = {"login", "passcode", "host", "path", "topics", "queues", "dead"}
    if unknown := sorted(options.keys() - known):
        raise ValueError(f"no option {unknown[0]!r}; known are ws, {', '.join(sorted(known))}")
    return Target(
        found["name"],
        found["host"],
        int(found["port"]),
        web=(host, int(port)) if web else None,
        web_path=options.get("path", "/"),
        virtual_host=options.get("host", ""),
        topic_prefix=options.get("topics", "/topic/"),
        queue_prefix=options.get("queues", "/queue/"),
        dead_letters=options.get("dead", ""),
        login=options.get("login", ""),
        passcode=options.get("passcode", ""),
    )
