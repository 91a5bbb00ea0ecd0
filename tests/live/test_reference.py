"""Every setting of an overlay file is described, with its default as it would stand in the file."""

from __future__ import annotations

import tomllib

import pytest

from penstock.live.reference import SECTIONS, Section, settings_of

SETTINGS = {section.table: {each.name: each for each in settings_of(section)} for section in SECTIONS}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda each: each.table)
def test_every_setting_says_what_it_is(section: Section) -> None:
    found = settings_of(section)
    assert found
    assert [each.name for each in found if not each.help] == []


def test_defaults_are_written_as_in_the_file() -> None:
    for section in SECTIONS:
        tomllib.loads("\n".join(f"{each.name} = {each.default}" for each in settings_of(section) if each.default))
    assert SETTINGS["[defaults]"]["client_outbox_bytes"].default == "67_108_864"
    assert SETTINGS["[defaults]"]["retain_policy"].default == '"hold"'
    assert SETTINGS["[congestion]"]["pdcc"].default == "true"
    assert SETTINGS["[ship]"]["lake"].default == ""


def test_units_come_from_the_class_or_from_the_name() -> None:
    assert SETTINGS["[congestion]"]["increase_min_msg_s"].unit == "msg/s"
    assert SETTINGS["[defaults]"]["heartbeat_ms"].unit == "ms"
    assert SETTINGS["[defaults]"]["retain_bytes_max"].unit == "bytes"
    assert SETTINGS["[defaults]"]["catch_ups_max"].unit == ""


def test_only_what_a_file_may_have_is_listed() -> None:
    assert "access" not in SETTINGS["[defaults]"]
    assert "number" not in SETTINGS["[defaults]"]
