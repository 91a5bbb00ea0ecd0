from __future__ import annotations

import pytest

from live.support import place_of, run
from penstock.live.errors import ConfigError
from penstock.live.listening import listen


def test_an_address_that_is_taken_is_named() -> None:
    async def scenario() -> None:
        (listening,) = await listen(place_of("b1", 1))
        with listening:
            port = listening.getsockname()[1]
            place = place_of("b2", 2)
            object.__setattr__(place, "port", port)
            complaint = f"broker b2 cannot listen at 127.0.0.1:{port}: Address already in use"
            with pytest.raises(ConfigError, match=complaint):
                await listen(place)

    run(scenario())


@pytest.mark.parametrize("host", ["a..b", "x" * 64 + ".example"])
def test_what_is_no_address_is_named(host: str) -> None:
    async def scenario() -> None:
        place = place_of("b1", 1)
        object.__setattr__(place, "host", host)
        object.__setattr__(place, "bind", host)
        with pytest.raises(ConfigError, match="that is no address"):
            await listen(place)

    run(scenario())
