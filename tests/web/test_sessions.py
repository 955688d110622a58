"""Links and cookies on a clock of our own: what they are good for, and until when."""

from pathlib import Path

import pytest

from tests.limits import stands_on
from understudy.contracts import limits
from understudy.surfaces.web.link_socket import SESSIONS
from understudy.surfaces.web.sessions import WebSessions


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@stands_on("WEB_KEY_SECONDS")
def test_a_link_is_good_until_its_second_and_not_longer(tmp_path: Path) -> None:
    clock = Clock()
    sessions = WebSessions(tmp_path, clock)
    one, two = sessions.make_key("ada"), sessions.make_key("ada")
    clock.now += limits.WEB_KEY_SECONDS
    assert sessions.enter(one) is not None
    clock.now += 1
    assert sessions.enter(two) is None


@stands_on("WEB_SESSION_SECONDS")
def test_a_session_lasts_a_week(tmp_path: Path) -> None:
    clock = Clock()
    sessions = WebSessions(tmp_path, clock)
    token = sessions.enter(sessions.make_key("ada"))
    assert token is not None
    clock.now += limits.WEB_SESSION_SECONDS
    assert sessions.visitor(token) is not None
    clock.now += 1
    assert sessions.visitor(token) is None
    assert WebSessions(tmp_path, clock).visitor(token) is None


@stands_on("WEB_KEYS_MAX", "WEB_SESSIONS_MAX")
def test_the_oldest_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WEB_KEYS_MAX", 2)
    monkeypatch.setattr(limits, "WEB_SESSIONS_MAX", 2)
    sessions = WebSessions(tmp_path)
    keys = [sessions.make_key("ada") for _ in range(3)]
    assert sessions.enter(keys[0]) is None
    tokens = [sessions.enter(key) for key in keys[1:]]
    tokens.append(sessions.enter(sessions.make_key("ada")))
    known = [token is not None and sessions.visitor(token) is not None for token in tokens]
    assert known == [False, True, True]


def test_each_session_has_a_word_of_its_own(tmp_path: Path) -> None:
    sessions = WebSessions(tmp_path)
    tokens = [sessions.enter(sessions.make_key(name)) for name in ("ada", "bob", "ada")]
    found = [sessions.visitor(token or "") for token in tokens]
    assert [each.name for each in found if each] == ["ada", "bob", "ada"]
    assert len({each.csrf for each in found if each}) == 3


@pytest.mark.parametrize("text", [b"", b"{}", b"[1]", b'[{"token":1}]', b"\xff\xfe"])
def test_a_file_that_is_none_is_no_session(tmp_path: Path, text: bytes) -> None:
    (tmp_path / SESSIONS).write_bytes(text)
    sessions = WebSessions(tmp_path)
    assert sessions.visitor("") is None
    assert sessions.enter(sessions.make_key("ada")) is not None
