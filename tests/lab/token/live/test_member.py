"""A member of the live experiment operates at its turns, and tells of it."""

from __future__ import annotations

from multiprocessing import get_context

from penstock.lab.token.live.experiment import free_names
from penstock.lab.token.live.member import Told, run_member


def test_a_member_alone_tells_when_it_is_ready_and_when_it_operates() -> None:
    context = get_context("forkserver")
    (name,) = free_names(1)
    pipe, far = context.Pipe(duplex=False)
    process = context.Process(target=run_member, args=(name, [name], far, (10, 60), "swift"), daemon=True)
    process.start()
    far.close()
    try:
        told: list[Told] = []
        while len(told) < 6 and pipe.poll(60):
            told.append(pipe.recv())
    finally:
        process.kill()
        process.join()
        pipe.close()
    kinds = [what for what, _, _ in told]
    assert kinds[0] == "ready"
    assert {"token-generated", "begin", "end"} <= set(kinds)
    begins = [(at_ns, generation) for what, at_ns, generation in told if what == "begin"]
    assert all(name in generation for _, generation in begins)
