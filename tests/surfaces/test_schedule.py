"""Schedules and limits at the command line: what people write, and what is refused how."""

from pathlib import Path

import pytest

from .conftest import Run

SPEC = "specId: nightly\ntitle: Nightly\nsteps:\n  - {stepKey: a, kind: ci.a}\n"
MADE = ("--id", "s", "--kind", "k")


def test_a_spec_is_scheduled_under_its_own_name_and_submitted_at_its_moment(
    call: Run, tmp_path: Path
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    spec, start = tmp_path / "spec.yaml", ("--start", "1970-01-01T00:00:00Z")
    said = call("schedule", "add", "every 1s", spec, *start)
    assert said.out.startswith("nightly  every 1 s  UTC  spec of 1 step  fired 0  next ")
    assert call("schedule", "fire", "nightly", "--due-ms", 1000).out == "made nightly.1000\n"
    assert "nightly.1000  pending  0/1 jobs  Nightly" in call("spec", "list").out
    again = call("schedule", "fire", "nightly", "--due-ms", 1000, "--json")
    assert (again.code, again.json["failureClasses"]) == (5, ["schedule_fired"])


@pytest.mark.parametrize(
    ("words", "code", "failure"),
    [
        (("0 0 3 * * *", *MADE), 2, "schedule_cron_invalid"),
        (("0 3 30 2 *", *MADE), 2, "schedule_cron_invalid"),
        (("daily", *MADE), 2, "schedule_cron_invalid"),
        (("0 3 * * *", *MADE, "--timezone", "Mars/Olympus"), 2, "schedule_zone_unknown"),
        (("every 10ms", *MADE), 2, "schedule_times_invalid"),
        (("every soon", *MADE), 2, "no time such as 90s"),
        (("every 1h", *MADE, "--start", "tomorrow"), 2, "give a moment such as"),
        (("every 1h", "--kind", "k"), 2, "give it a name with --id"),
        (("every 1h", "--id", "s"), 2, "schedule_template_invalid"),
        (("every 1h", *MADE, "--payload", "[]"), 2, "a JSON object is wanted"),
        (("every 1h", *MADE, "--timeout", "1ms"), 2, "job_limit_invalid"),
    ],
)
def test_a_schedule_that_is_none_is_refused_with_what_is_wrong(
    call: Run, words: tuple[str, ...], code: int, failure: str
) -> None:
    said = call("schedule", "add", *words)
    assert (said.code, failure in said.err) == (code, True), said.err
    assert call("schedule", "list").out == "no schedules\n"


def test_a_log_brings_order_and_firings_to_another_authority(
    call: Run, bare: Run, tmp_path: Path
) -> None:
    call("job", "schedule", "a", "--kind", "k", "--priority", "0", "--timeout", "1h")
    call("schedule", "add", "every 1s", *MADE, "--start", "1970-01-01T00:00:00Z")
    call("schedule", "fire", "s", "--due-ms", 1000)
    call("node", "register", "n", "--may", "job.claim")
    call("node", "unregister", "n", "--open")
    log, other = tmp_path / "log.jsonl", ("--state-dir", tmp_path / "other")
    assert call("job", "log", "export", log).code == 0
    bare("init", *other)
    said = bare("job", "log", "import", log, "--with-nodes", *other)
    assert (said.code, "scheduled 2" in said.out) == (0, True), said
    found = bare("job", "show", "a", "--json", *other).json["job"]
    assert (found["priority"], found["timeoutMs"]) == (0, 3_600_000)
    assert bare("job", "show", "s@1000", *other).code == 0
    assert bare("node", "list", *other).out.startswith("no nodes")


def test_a_roster_says_which_kinds_are_at_their_limit(call: Run) -> None:
    for name in ("a", "b"):
        call("job", "schedule", name, "--kind", "k.x")
    call("limit", "set", "k.", "--concurrency", 1)
    call("job", "claim", "a", "--as", "w")
    said = call("job", "roster").out
    assert said == "nothing\nat their limit: k.x; `understudy limit list` shows it\n"
