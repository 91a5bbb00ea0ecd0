"""Objects that are told of a fork, in the child."""

from __future__ import annotations

import gc
import os
import socket

from forked import Child, in_child
from penstock.system.forking import let_go, tell_after_fork, where_opened


class Told:
    def __init__(self) -> None:
        self.processes: list[int] = []

    def on_forked(self) -> None:
        self.processes.append(os.getpid())


def test_the_copy_in_the_child_is_told_and_the_parent_is_not() -> None:
    told = Told()
    tell_after_fork(told)
    assert in_child(lambda: told.processes == [os.getpid()])
    assert told.processes == []


def test_a_child_of_a_child_is_told_again() -> None:
    told = Told()
    tell_after_fork(told)
    assert in_child(lambda: in_child(lambda: len(told.processes))) == 2


def test_whoever_is_forgotten_is_not_kept() -> None:
    gone: list[int] = []

    class Counted(Told):
        def on_forked(self) -> None:
            gone.append(1)

    tell_after_fork(Counted())
    gc.collect()
    assert in_child(lambda: gone) == []


def test_a_socket_that_was_let_go_is_still_the_parents() -> None:
    one, other = socket.socketpair()
    with one, other:

        def child() -> None:
            let_go(one.fileno())
            other.close()
            one.close()

        in_child(child)
        one.sendall(b"still here")
        assert other.recv(100) == b"still here"
        one.shutdown(socket.SHUT_WR)
        assert other.recv(100) == b""


def test_the_end_of_the_parent_is_heard_although_the_child_goes_on() -> None:
    one, other = socket.socketpair()
    with other:
        reading, writing = os.pipe()

        def child() -> bytes:
            let_go(one.fileno())
            os.write(writing, b"x")
            # Until the other end hears that the parent's copy was the last.
            return other.recv(100)

        running = Child(child)
        os.read(reading, 1)
        one.close()
        assert running.result() == b""
        os.close(reading)
        os.close(writing)


def test_a_copy_says_where_it_comes_from() -> None:
    assert where_opened("client", 7) == (
        f"this client was opened in process 7, and this is process {os.getpid()}: open one after each fork"
    )
