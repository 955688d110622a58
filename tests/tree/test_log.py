"""What `up` prints without a terminal: a line for each event, whether or not it is read."""

import signal
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, environment, report_of, understudy
from tests.tree.house import Up, add, statuses
from understudy.surfaces.cli.tree_log import TreeLog

pytestmark = pytest.mark.timeout(120)


def printed(up: Up) -> list[dict[str, Any]]:
    lines = up.complaint().splitlines()
    return [orjson.loads(line) for line in lines if line.startswith("{")]


def events(up: Up, **about: str) -> list[str]:
    wanted = about.items()
    return [each["event"] for each in printed(up) if wanted <= each.items()]


def test_every_claim_end_retry_and_escalation_is_a_line(state_dir: Path) -> None:
    add(state_dir, "good", "bad")
    command = '[ $UNDERSTUDY_ISSUE = good ] || { printf "no\\nluck\\033[1m"; exit 3; }'
    words = ["--exec", command, "--attempts", "2", "--backoff", "1s", "--until-done"]
    with Up(state_dir, *words) as up:
        assert up.wait() == 11, up.complaint()
        said = up.complaint()
    lines = [line.split("  ") for line in said.splitlines() if line.startswith("2")]
    told = [(about.partition(":")[0], what) for _, what, about, *_ in lines]
    assert [what for name, what in told if name == "good"] == ["claimed", "done"]
    assert [what for name, what in told if name == "bad"] == [
        "claimed", "attempt failed", "retry", "claimed", "attempt failed", "escalated",
    ]  # fmt: skip
    assert "exit code 3: no luck [1m, after 0." in said
    assert "\033" not in said, "a command does not speak to the terminal of its reader"


def test_each_line_is_an_object_for_programs(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "sleep 300", "--log-format", "json", "--grace", "0") as up:
        up.ready()
        eventually(lambda: "claimed" in events(up))
        report_of("cancel", "a", "--reason", "wrong", "--as", "eve", "--state-dir", state_dir)
        eventually(lambda: "ended" in events(up))
        report_of("pause", "--label", "l", "--as", "ann", "--state-dir", state_dir)
        report_of("unpause", "--label", "l", "--state-dir", state_dir)
        report_of("retry", "a", "--state-dir", state_dir)
        eventually(lambda: events(up).count("claimed") == 2)
        up.signal(signal.SIGTERM)
        assert up.wait() == 0, up.complaint()
        rows = printed(up)
        assert up.complaint().count("\n") == len(rows), "and no other line"
        of_work = events(up, issue="a")
    assert of_work[:4] == ["claimed", "cancelled", "lease_lost", "ended"]
    assert {*of_work[4:6]} == {"brought_back", "claimed"}, "told by two cells"
    assert of_work[6:] == ["handed_back"]
    by_event = {each["event"]: each for each in rows}
    assert by_event["cancelled"] | {"by": "eve", "why": "wrong"} == by_event["cancelled"]
    assert by_event["paused"]["scope"] == by_event["unpaused"]["scope"] == "label/l"
    assert by_event["claimed"] | {"title": "a", "attempt": 1} == by_event["claimed"]
    assert isinstance(by_event["ended"]["ranMs"], int)
    for each in rows:
        assert datetime.fromisoformat(each["at"]).utcoffset() is not None
        assert {"at", "event", "detail"} <= each.keys()


def test_a_quiet_tree_prints_nothing(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "true", "--quiet", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
        assert up.complaint() == ""
    found = understudy("up", "--exec", "no-such-command", "-q", "--state-dir", state_dir)
    assert found.returncode == 78
    assert b"no-such-command" in found.stderr, "an error is said all the same"


def test_one_object_for_programs_is_the_only_one_unless_they_ask_for_the_lines(
    state_dir: Path,
) -> None:
    add(state_dir, "a")
    run = ("up", "--exec", "true", "--until-done", "--json", "--state-dir", state_dir)
    (answer,) = understudy(*run).stdout.splitlines()
    assert orjson.loads(answer)["tally"]["done"] == 1
    add(state_dir, "b")
    *lines, answer = understudy(*run, "--log-format", "json").stdout.splitlines()
    assert [orjson.loads(line)["event"] for line in lines] == ["claimed", "done"]
    assert orjson.loads(answer)["tally"]["done"] == 1


def test_a_tree_whose_reader_has_gone_goes_on_without_a_word(state_dir: Path) -> None:
    add(state_dir, "a", "b", "c")
    words = [
        str(UNDERSTUDY),
        "up",
        "--exec",
        "sleep 0.5",
        "--until-done",
        "--state-dir",
        str(state_dir),
    ]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"claimed" in process.stdout.readline(), "it is flushed while work goes on"
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait() == 0, said
    assert b"Traceback" not in said
    assert b"Broken" not in said
    assert set(statuses(state_dir).values()) == {"closed"}


def test_rows_on_disk_and_in_the_memory_of_a_loop_are_told_once(
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    rows = [
        {"kind": "dispatch", "at_ms": number, "at": "2027-01-01T00:00:00.000Z", "what": "done",
         "detail": str(number), "issue": "a"}
        for number in range(4)
    ]  # fmt: skip
    log = TreeLog(tmp_path, "json", is_quiet=False, as_json=False)

    def told(news: list[int], remembered: list[int]) -> list[str]:
        known = [dict(reversed(rows[each].items())) for each in remembered]
        log.show({"dispatcher": {"reports": known}}, [rows[each] for each in news], dict)
        out = capfdbinary.readouterr().out
        return [orjson.loads(line)["detail"] for line in out.splitlines()]

    assert told([0, 1], [0]) == ["0", "1"]
    assert told([], [0, 1]) == []
    assert told([], [1, 2]) == ["2"], "the disk is full"
    assert told([3], [2, 3]) == ["3"]
