"""Coverage-guided fuzzing of selectors with atheris: ``python -m bench.guided -max_total_time=60`` (libFuzzer flags).

Atheris mutates texts towards branches not yet taken, which random texts rarely find. It is not among the development
tools because it has no build for every platform: ``.venv/bin/pip install atheris`` first. Memory growth and hangs are
libFuzzer's to report (``-rss_limit_mb``, ``-timeout``).
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> int:
    """Fuzz until the flags end it, or a fault is found."""
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: .venv/bin/pip install atheris", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=["penstock"]):
        from penstock.selectors import Selector, SelectorError

    def one_input(data: bytes) -> None:
        """Any text parses or is refused; a parsed one prints as text with the same meaning, and can be matched."""
        provider = atheris.FuzzedDataProvider(data)
        value = provider.ConsumeUnicode(20)
        text = provider.ConsumeUnicode(provider.remaining_bytes())
        try:
            selector = Selector.parse(text)
        except SelectorError:
            return
        again = Selector.parse(str(selector))
        assert again == selector, f"{text!r} prints as {str(selector)!r}"
        for message in ({"a": value}, {"a": len(value), "b": value}, {}):
            assert again.matches(message) == selector.matches(message)

    atheris.Setup([*sys.argv, "-max_len=400", "-timeout=10", "-rss_limit_mb=1024", "-print_final_stats=1"], one_input)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
