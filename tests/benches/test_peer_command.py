from __future__ import annotations

import pytest
from bench.live_driver import DriverError
from bench.peers.__main__ import _Case, _outcome, main


def lossy() -> dict[str, float]:
    raise DriverError("9 deliveries of 10 came back")


def test_a_run_with_a_missing_delivery_is_invalid_and_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = _outcome(_Case("topics", "20 → 50", "NATS", "NATS", lossy), 0, 1)
    assert (found.figures, found.invalid) == ({}, "9 deliveries of 10 came back")
    assert "invalid: 9 deliveries of 10 came back" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no-such-group"], ["--rounds", "0"], ["--rounds", "x"]])
def test_misuse_ends_with_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[-1] in capsys.readouterr().err
