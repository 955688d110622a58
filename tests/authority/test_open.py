"""Who decides for a state directory, by what is asked for and by what serves it."""

from pathlib import Path

import pytest

from tests.surfaces.process import Serve
from understudy.authority import BoundaryMissing, LocalClient, open_authority, open_office
from understudy.authority.engine import ffi
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.service.client import Client, ClientCall, Unreachable


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    create_state_dir(tmp_path / "state", "local")
    return tmp_path / "state"


def test_without_a_sidecar_this_process_decides_unless_one_is_asked_for(state_dir: Path) -> None:
    for boundary in (None, "reference"):
        with open_authority(state_dir, "cli", boundary=boundary) as found:
            assert isinstance(found, LocalClient)
    with pytest.raises(Unreachable):
        open_authority(state_dir, "cli", boundary="sidecar")


def test_a_sidecar_decides_where_one_serves_and_what_is_left_of_one_does_not(
    state_dir: Path,
) -> None:
    with Serve(state_dir) as sidecar:
        sidecar.ready()
        with open_authority(state_dir, "cli") as found:
            assert isinstance(found, Client)
        sidecar.kill()
    with open_authority(state_dir, "cli") as found:
        assert isinstance(found, LocalClient)


def test_c_decides_where_it_is_asked_for_and_there(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ffi.available():
        with open_office(state_dir, "native") as office:
            assert office.boundary == "native"
    monkeypatch.setattr(ffi, "_why_not", "there is no C")
    with pytest.raises(BoundaryMissing, match="there is no C"):
        open_office(state_dir, "native")


def test_requests_that_are_asked_together_are_answered_in_order(state_dir: Path) -> None:
    with open_authority(state_dir, "cli") as found:
        calls = [ClientCall("issue.add", {"id": name, "title": name}) for name in ("a", "b")]
        calls.append(ClientCall("issue.show", {"id": "a"}))
        first, second, shown = found.ask_many(calls)
        assert (first["seq"], second["seq"]) == (1, 2)
        assert shown["issue"]["id"] == "a"
        with pytest.raises(ValueError, match="not JSON"):
            found.ask("issue.show", {"id": "\ud800"})
        assert len(found.relay([b"no request"])) == found.garbage_count == 1


def test_only_a_sidecar_names_changes_that_have_no_name(state_dir: Path) -> None:
    """The one difference between the two; evidence shows it as another digest of the arguments."""
    words = ("issue.update", {"id": "a", "notes": "same"})
    with open_authority(state_dir, "cli") as found:
        found.ask("issue.add", {"id": "a", "title": "a"})
        local = [found.ask(*words)["effect"]["argsDigest"] for _ in range(2)]
    with Serve(state_dir) as sidecar:
        sidecar.ready()
        with open_authority(state_dir, "cli") as found:
            served = [found.ask(*words)["effect"]["argsDigest"] for _ in range(2)]
    assert local[0] == local[1]
    assert len({*local, *served}) == 3
