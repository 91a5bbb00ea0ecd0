"""Runs one attack as a process: ``python -m bench.hostile.attacker NAME``, with the stage as JSON on standard input."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from bench.hostile.catalogue import ATTACKS
from bench.hostile.stage import Stage, Told
from bench.hostile.wire import Peer, Rejected

__all__ = ["main"]


def main() -> int:
    """Attack, and print the result."""
    stage = msgspec.json.decode(sys.stdin.buffer.read(), type=Stage)
    sys.stdout.write(msgspec.json.encode(asyncio.run(_told(sys.argv[1], stage))).decode() + "\n")
    return 0


async def _told(name: str, stage: Stage) -> Told:
    try:
        async with asyncio.timeout(ATTACKS[name].limit_s):
            return await ATTACKS[name].run(stage)
    except Rejected as rejected:
        return Told(f"refused: {rejected}")
    except TimeoutError:
        return Told("no answer in time")
    except OSError as error:
        return Told(f"cut off: {error}")
    finally:
        await Peer.leave()


if __name__ == "__main__":
    sys.exit(main())
