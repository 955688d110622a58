"""Which look finds which change of a row: the table of `docs/operations.md` is the truth."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from tests.faults.load import Load
from tests.long import IS_LONG
from tests.surfaces.process import ROOT, commanded, encoded
from understudy.authority import Office, Unavailable, create_state_dir, open_journal
from understudy.authority.journal.journal import Journal, Row
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres.link import connect
from understudy.authority.views.replay import replay
from understudy.contracts import Door
from understudy.surfaces.doctor import examine

ROWS = 24
MIDDLE = 12
FLIPS = 400 if IS_LONG else 40
Sql = Callable[..., Any]


def _other(text: str, at: int) -> str:
    return text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :]


def _text(value: str | bytes) -> str | bytes:
    """One character of the middle becomes another, and stays readable."""
    if isinstance(value, bytes):
        return _other(value.decode(), len(value) // 2).encode()
    return _other(value, len(value) // 2)


def _effect(value: bytes) -> bytes:
    digest = orjson.loads(value)["effect"]["argsDigest"].encode()
    return value.replace(digest, _other(digest.decode(), len(digest) - 1).encode())


def _body(value: bytes) -> bytes:
    """What is said to the caller and is not in the evidence."""
    return value.replace(b'"profileId":"', b'"profileId":"x', 1)


CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "seq": ("seq", lambda seq: seq + 1_000),
    "epoch": ("epoch", lambda epoch: epoch + 7),
    "wall_ms": ("wall_ms", lambda wall_ms: wall_ms + 1),
    "counter": ("counter", lambda counter: counter + 1),
    "node": ("node", lambda node: node + "x"),
    "request": ("request", _text),
    "response: the evidence in it": ("response", _effect),
    "response: the rest": ("response", _body),
    "changes": ("changes", _text),
    "digest": ("digest", _text),
    "state_digest": ("state_digest", _text),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def state_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Some history in either engine, of two epochs."""
    folder = tmp_path / "state"
    url = request.getfixturevalue("url") if request.param == "postgresql" else None
    create_state_dir(folder, "local", url)
    lines = encoded(step.request for step in Load(7).more(ROWS)).splitlines()
    for part in (lines[: MIDDLE + 3], lines[MIDDLE + 3 :]):
        with Office(folder) as office:
            office.submit_lines([(line, Door("cli")) for line in part])
    return folder


@contextmanager
def _database(state_dir: Path) -> Iterator[Sql]:
    """The journal in hands that know nothing of its rules."""
    shared = state_dir / "journal.url"
    if not shared.exists():
        with closing(apsw.Connection(str(state_dir / "journal.db"))) as lite:
            yield lambda query, *values: lite.execute(query.replace("%s", "?"), values).get
        return
    with closing(connect(parsed(shared.read_text()))) as db:
        db.execute("ALTER TABLE journal DISABLE TRIGGER USER")

        def run(query: str, *values: Any) -> Any:
            cursor = db.execute(query.encode(), values)
            found = cursor.fetchone() if cursor.description else None
            return found[0] if found else None

        yield run


@contextmanager
def _changed(state_dir: Path, name: str, seq: int) -> Iterator[None]:
    column, change = CHANGES[name]
    with _database(state_dir) as sql:
        value = sql(f"SELECT {column} FROM journal WHERE seq = %s", seq)
        fresh = change(value)
        assert fresh != value
        sql(f"UPDATE journal SET {column} = %s WHERE seq = %s", fresh, seq)
    yield
    with _database(state_dir) as sql:
        now = fresh if column == "seq" else seq
        sql(f"UPDATE journal SET {column} = %s WHERE seq = %s", value, now)


def _starts(state_dir: Path) -> bool:
    try:
        Office(state_dir, writable=False).close()
    except Unavailable:
        return False
    return True


def _is_well(state_dir: Path, *, deep: bool) -> bool:
    found = (each for each in examine(state_dir, deep=deep) if each.check != "database")
    return all(each.status != "problem" for each in found)  # a server for tests flushes nothing


LOOKS: dict[str, Callable[[Path], bool]] = {
    "start": _starts,
    "`doctor`": lambda folder: _is_well(folder, deep=False),
    "`replay`": lambda folder: commanded("replay", "--state-dir", folder).returncode == 0,
    "`verify`": lambda folder: commanded("verify", "--state-dir", folder).returncode == 0,
    "`doctor --deep`": lambda folder: _is_well(folder, deep=True),
}


def _table(state_dir: Path) -> list[str]:
    lines = [f"| changed | {' | '.join(LOOKS)} |", "| --- " * (len(LOOKS) + 1) + "|"]
    for name in CHANGES:
        found: dict[str, list[bool]] = {look: [] for look in LOOKS}
        for seq in (MIDDLE, ROWS):
            with _changed(state_dir, name, seq):
                for look, is_well in LOOKS.items():
                    found[look].append(not is_well(state_dir))
        words: dict[tuple[bool, ...], str] = {
            (True, True): "yes",
            (False, True): "last row",
            (False, False): "no",
        }
        lines.append(f"| {name} | {' | '.join(words[tuple(each)] for each in found.values())} |")
    return lines


def test_the_page_says_which_look_finds_which_change(state_dir: Path) -> None:
    assert all(is_well(state_dir) for is_well in LOOKS.values())
    table = _table(state_dir)
    for line in table[2:]:
        *_, verify, deep, _ = line.split("|")
        assert (verify.strip(), deep.strip()) == ("yes", "yes"), line
    assert "\n".join(table) in (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert all(is_well(state_dir) for is_well in LOOKS.values())


def test_a_flipped_bit_anywhere_in_a_row_is_found(state_dir: Path) -> None:
    """By what `verify` and `doctor --deep` are made of."""
    chance = random.Random(3)
    with open_journal(state_dir, read_only=True) as journal:
        rows = list(journal.read())
        for _ in range(FLIPS):
            at = chance.randrange(ROWS)
            column = chance.choice(Row._fields)
            damaged = list(rows)
            damaged[at] = rows[at]._replace(**{column: _flipped(getattr(rows[at], column), chance)})
            found = replay(_Held(damaged, journal)).mismatch  # type: ignore[arg-type]  # the part that is read
            assert found is not None, f"{column} of row {at + 1}"


def test_an_epoch_of_the_row_before_or_after_is_found(state_dir: Path) -> None:
    with open_journal(state_dir, read_only=True) as journal:
        rows = list(journal.read())
        at = next(at for at, row in enumerate(rows) if row.epoch != rows[0].epoch)
        for place, epoch in ((at, rows[0].epoch), (at - 1, rows[at].epoch)):
            damaged = list(rows)
            damaged[place] = rows[place]._replace(epoch=epoch)
            found = replay(_Held(damaged, journal)).mismatch  # type: ignore[arg-type]  # the part that is read
            assert found is not None
            assert f"row {place + 1}: its epoch {epoch}" in found


def _flipped(value: Any, chance: random.Random) -> Any:
    if isinstance(value, int):
        return value ^ (1 << chance.randrange(40))
    data = bytearray(value if isinstance(value, bytes) else value.encode())
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(7)
    return bytes(data) if isinstance(value, bytes) else data.decode()


class _Held:
    """Rows in memory, as replay reads them."""

    def __init__(self, rows: list[Row], journal: Journal) -> None:
        self._rows, self.epoch, self.epoch_starts = rows, journal.epoch, journal.epoch_starts

    def read(self) -> Iterator[Row]:
        return iter(self._rows)

    def snapshot(self) -> None:
        return None
