"""The judge sees jobs that are lost or doubled, and excuses only what was in doubt."""

from __future__ import annotations

from pathlib import Path

from penstock.lab.work.judge import Life, judge


def life_of(path: Path, text: str, *, killed_s: float | None = None) -> Life:
    path.write_text(text, encoding="utf-8")
    life = Life(path)
    life.read()
    life.killed_s = killed_s
    return life


def test_jobs_that_are_done_once_are_fine(tmp_path: Path) -> None:
    one = life_of(tmp_path / "one", "ready 1.0\ntried 0 1 2.0\ndone 0 1 2.5\n")
    two = life_of(tmp_path / "two", "ready 1.5\ntried 1 3 2.0\ndone 1 3 2.5\n")
    verdict = judge(2, [one, two])
    assert (verdict.done, verdict.lost, verdict.doubled, verdict.strange) == (2, [], [], [])
    assert verdict.repeated == 2
    assert (one.ready_s, two.ready_s) == (1.0, 1.5)


def test_a_job_that_nobody_has_done_is_lost(tmp_path: Path) -> None:
    life = life_of(tmp_path / "one", "tried 0 1 2.0\ndone 0 1 2.5\ntried 2 1 2.0\nlost 2 1 2.5\n")
    verdict = judge(3, [life])
    assert verdict.lost == [1, 2]
    assert verdict.late == 1


def test_a_job_that_two_have_done_is_doubled_whatever_was_in_doubt(tmp_path: Path) -> None:
    done = "tried 0 1 2.0\ndone 0 1 2.5\n"
    lives = [
        life_of(tmp_path / "one", done),
        life_of(tmp_path / "two", done),
        life_of(tmp_path / "three", "tried 0 2 2.0\n", killed_s=2.1),
    ]
    assert judge(1, lives).doubled == [0]


def test_a_job_in_doubt_is_excused_where_the_worker_was_killed_and_only_there(tmp_path: Path) -> None:
    tried = "tried 0 1 2.0\n"
    killed = judge(1, [life_of(tmp_path / "one", tried, killed_s=2.1)])
    assert (killed.lost, killed.excused, killed.in_doubt, killed.unanswered) == ([], 1, 1, 0)
    alive = judge(1, [life_of(tmp_path / "two", tried)])
    assert (alive.lost, alive.excused, alive.in_doubt, alive.unanswered) == ([0], 0, 0, 1)


def test_a_doubt_excuses_no_other_job(tmp_path: Path) -> None:
    verdict = judge(2, [life_of(tmp_path / "one", "tried 0 1 2.0\n", killed_s=2.1)])
    assert verdict.lost == [1]


def test_a_job_that_was_done_nobody_knows_by_whom_is_in_doubt(tmp_path: Path) -> None:
    verdict = judge(1, [life_of(tmp_path / "one", "tried 0 1 2.0\nunknown 0 1 2.5\n")])
    assert (verdict.lost, verdict.excused, verdict.in_doubt, verdict.unknown) == ([], 1, 1, 1)


def test_jobs_that_do_not_exist_are_strange(tmp_path: Path) -> None:
    verdict = judge(1, [life_of(tmp_path / "one", "tried 0 1 2.0\ndone 0 1 2.5\ntried 7 1 2.0\ndone 7 1 2.5\n")])
    assert verdict.strange == [7]


def test_a_file_is_read_as_it_grows_and_half_a_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "one"
    life = Life(path)
    assert life.read() == 0
    path.write_text("tried 0 1 2.0\ndone 0 1 2.5\ndone 1", encoding="utf-8")
    assert life.read() == 1
    assert life.read() == 0
    path.write_text("tried 0 1 2.0\ndone 0 1 2.5\ndone 1 1 2.75\n", encoding="utf-8")
    assert life.read() == 1
    assert life.done == [(2.5, 0, 1), (2.75, 1, 1)]
