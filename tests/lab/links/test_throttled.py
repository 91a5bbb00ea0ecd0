"""A relay as a process: it obeys, tells its figures, and does not outlive its owner."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

import pytest

from penstock.lab.demo_overlay import free_ports
from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.throttled import LinkProcessError, ThrottledLink

LIMIT_S = 30.0


def is_gone(port: int) -> bool:
    """Whether nobody listens there any more, at the latest after a while."""
    pause = threading.Event()
    for _ in range(int(LIMIT_S / 0.01)):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            # It is there, but nobody is behind it.
            pass
        pause.wait(0.01)
    return False


def test_a_link_relays_obeys_and_tells_its_figures() -> None:
    port, target_port = free_ports(2)
    with (
        socket.create_server(("127.0.0.1", target_port)) as server,
        ThrottledLink(port, target_port, LinkLimits(back_bytes_s=1e6)) as link,
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as near:
            far, _ = server.accept()
            with far:
                far.settimeout(LIMIT_S)
                near.sendall(b"there")
                assert far.recv(5, socket.MSG_WAITALL) == b"there"
                link.limit(there_bytes_s=1e6, delay_ms=1.0)
                assert link.limits == LinkLimits(there_bytes_s=1e6, back_bytes_s=1e6, delay_ms=1.0)
                far.sendall(b"back")
                assert near.recv(4, socket.MSG_WAITALL) == b"back"
                figures = link.figures()
                assert (figures.passed_bytes, figures.connections) == ({"there": 5, "back": 4}, 1)
                link.cut()
                with pytest.raises(ConnectionResetError):
                    near.recv(1)
        link.restore()
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as near:
            far, _ = server.accept()
            with far:
                link.cut(silent=True)
                link.restore()
                near.sendall(b"again")
                assert far.recv(5, socket.MSG_WAITALL) == b"again"
    assert is_gone(port)


def test_a_port_that_is_taken_is_said_so() -> None:
    (port,) = free_ports(1)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(LinkProcessError, match="in use"):
        ThrottledLink(port, port + 1).__enter__()


def test_a_relay_ends_with_whoever_started_it() -> None:
    port, target_port = free_ports(2)
    script = (
        "import os; from penstock.lab.links.throttled import ThrottledLink\n"
        f"link = ThrottledLink({port}, {target_port}).__enter__()\n"
        "print(link._process.pid, flush=True); os._exit(0)"
    )
    # The relay inherits no standard output of ours, so reading ends only if it does not hold the pipe either.
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=LIMIT_S)
    assert int(done.stdout) > 0
    assert is_gone(port)
