from __future__ import annotations

from penstock.session.changes import Changes


def test_nothing_has_changed_unless_something_says_so() -> None:
    changes = Changes()
    assert not any((changes.inboxes, changes.answers, changes.missing, changes.publishing, changes.lost))
    assert (changes.welcome, changes.goodbye, changes.order) == (None, None, None)
