"""What a command prints: kept up to a bound, followed while it is written, echoed."""

import os
import signal
from pathlib import Path

import pytest

from tests.actors.litter import Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.actors.process.groups import PATIENCE_MS, ended, helpers, made, troubled
from tests.patience import eventually
from understudy.actors.process.guard import descendants
from understudy.actors.process.guard.spool import HEAD_BYTES, PIECE_BYTES, PIECES_MAX
from understudy.actors.process.transcript import Gap, Transcript

pytestmark = pytest.mark.skipif(not descendants.LINUX, reason="elsewhere there is the group alone")


def first_words(follower: Transcript) -> list[bytes | Gap]:
    heard: list[bytes | Gap] = []

    def hear() -> bool:
        heard.extend(follower.read())
        return bool(heard)

    eventually(hear)
    return heard


def kept(path: Path) -> list[bytes | Gap]:
    """The output as a reader gets it, neighbours put together."""
    parts: list[bytes | Gap] = []
    for part in Transcript(path).read():
        if parts and isinstance(part, bytes) and isinstance(parts[-1], bytes):
            parts[-1] += part
        else:
            parts.append(part)
    return parts


def test_small_output_is_kept_whole(mark: Mark, tmp_path: Path) -> None:
    end = ended(made(mark, "sh", "-c", "echo one; echo two >&2; echo three", log=tmp_path / "log"))
    assert kept(tmp_path / "log") == [b"one\ntwo\nthree\n"]
    assert (end.size, end.dropped) == (14, 0)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


@pytest.mark.parametrize("count", [HEAD_BYTES, HEAD_BYTES + 1, HEAD_BYTES + PIECE_BYTES * 3])
def test_output_up_to_the_bound_is_kept_whole(mark: Mark, tmp_path: Path, count: int) -> None:
    end = ended(made(mark, "head", "-c", str(count), "/dev/zero", log=tmp_path / "log"))
    assert kept(tmp_path / "log") == [bytes(count)]
    assert (end.size, end.dropped) == (count, 0)


def test_beyond_the_bound_the_beginning_and_the_end_are_kept(mark: Mark, tmp_path: Path) -> None:
    first, last = 100_000_000, 105_499_999  # ten bytes each: 55 MB
    end = ended(made(mark, "seq", str(first), str(last), log=tmp_path / "log"))
    head, gap, tail = kept(tmp_path / "log")
    assert isinstance(head, bytes)
    assert isinstance(gap, Gap)
    assert isinstance(tail, bytes)
    whole = b"".join(b"%d\n" % n for n in range(first, last + 1))
    assert head == whole[:HEAD_BYTES]
    assert tail == whole[-len(tail) :]
    assert len(tail) > PIECE_BYTES * (PIECES_MAX - 1)
    assert gap.size == end.dropped == len(whole) - len(head) - len(tail)
    assert end.size == len(whole)
    on_disk = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert on_disk <= HEAD_BYTES + PIECE_BYTES * PIECES_MAX


def test_output_can_be_followed_while_it_is_written(mark: Mark, tmp_path: Path) -> None:
    log, gate = tmp_path / "log", tmp_path / "gate"
    os.mkfifo(gate)
    group = made(mark, "sh", "-c", f"echo one; read x < {gate}; echo two", log=log)
    follower = Transcript(log)
    heard = first_words(follower)
    assert heard == [b"one\n"]
    assert follower.is_written()
    gate.write_text("go\n")
    ended(group)
    eventually(lambda: not follower.is_written())
    assert list(follower.read()) == [b"two\n"]


def test_a_follower_that_is_too_slow_hears_how_much_it_missed(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "log"
    follower = Transcript(log)
    group = made(mark, "sh", "-c", "echo begin; head -c 20000000 /dev/zero", log=log)
    heard = first_words(follower)
    end = ended(group)
    heard += follower.read()
    missed = sum(each.size for each in heard if isinstance(each, Gap))
    got = sum(len(each) for each in heard if isinstance(each, bytes))
    assert missed + got == end.size == 20_000_006


def test_a_killed_warden_no_longer_writes(mark: Mark, tmp_path: Path) -> None:
    log = tmp_path / "log"
    group = troubled(mark, "sleep", log)
    assert Transcript(log).is_written()
    os.kill(helpers(group)[0], signal.SIGKILL)
    ended(group)
    assert not Transcript(log).is_written()


def test_a_full_disk_loses_output_and_not_the_command(mark: Mark, tmp_path: Path) -> None:
    end = ended(made(mark, "sh", "-c", "seq 1000; exit 5", log=tmp_path / "no" / "folder"))
    assert end.code == 5
    assert end.dropped == end.size > 0
    full = Path("/dev/full")
    link = tmp_path / "log.new"
    link.symlink_to(full)
    end = ended(made(mark, "sh", "-c", "seq 1000; exit 6", log=tmp_path / "log"))
    assert (end.code, end.dropped) == (6, end.size)


def test_output_is_echoed_as_well(mark: Mark, tmp_path: Path) -> None:
    out, out_sink = os.pipe()
    err, err_sink = os.pipe()
    group = made(
        mark, "sh", "-c", "echo one; echo two >&2",
        log=tmp_path / "log", echo=(out_sink, err_sink),
    )  # fmt: skip
    for each in (out_sink, err_sink):
        os.close(each)
    assert group.wait(PATIENCE_MS)
    group.drain(PATIENCE_MS)
    group.close()
    assert (os.read(out, 100), os.read(out, 100)) == (b"one\n", b"")
    assert (os.read(err, 100), os.read(err, 100)) == (b"two\n", b"")
    for each in (out, err):
        os.close(each)
    assert sorted((tmp_path / "log").read_text().split()) == ["one", "two"]


def test_the_order_is_kept_where_both_streams_go_to_one_place(mark: Mark, tmp_path: Path) -> None:
    words = "for n in 1 2 3 4 5 6 7 8 9; do echo out$n; echo err$n >&2; done"
    with (tmp_path / "out").open("wb") as out:
        echo = (out.fileno(), out.fileno())
        ended(made(mark, "sh", "-c", words, log=tmp_path / "log", echo=echo))
    lines = "".join(f"out{n}\nerr{n}\n" for n in range(1, 10))
    assert (tmp_path / "out").read_text() == (tmp_path / "log").read_text() == lines


def test_a_slow_reader_of_the_echo_gets_everything(mark: Mark, tmp_path: Path) -> None:
    out, sink = os.pipe()
    count = 300_000
    group = made(
        mark, "head", "-c", str(count), "/dev/zero", log=tmp_path / "log", echo=(sink, sink)
    )
    os.close(sink)
    got = 0
    while got < count - 10_000:
        got += len(os.read(out, 5_000))
    assert group.wait(PATIENCE_MS), "it has ended, and the rest of its words is on the way"
    while chunk := os.read(out, 5_000):
        got += len(chunk)
    group.drain(PATIENCE_MS)
    group.close()
    os.close(out)
    assert got == count


def test_an_echo_that_is_not_read_any_more_ends_nothing(mark: Mark, tmp_path: Path) -> None:
    out, sink = os.pipe()
    os.close(out)
    group = made(mark, "sh", "-c", "seq 10000; exit 2", log=tmp_path / "log", echo=(sink, sink))
    os.close(sink)
    assert ended(group).code == 2
    assert (tmp_path / "log").read_text().endswith("\n10000\n")


def test_without_a_log_the_command_writes_straight_to_its_streams(
    mark: Mark, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("wb") as out:
        group = made(mark, "sh", "-c", "echo one; echo two >&2", echo=(out.fileno(), out.fileno()))
        ended(group)
    assert (tmp_path / "out").read_text() == "one\ntwo\n"
