"""Every system of `make bench` does the work it is measured on: durable steps, fenced, refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cycles import CATALOGUE
from benchmarks.systems.system import Client, Refused, System, names
from tests.long import few
from tests.services.server import Missing, private_folder

ITEMS = 24


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with private_folder(Path("/var/tmp")) as found:
        yield found


# One that has no fences is not held against them.
FENCED = [each for each in CATALOGUE if each != "procrastinate"]


@pytest.fixture(params=few(FENCED, 3), scope="module")
def system(request: pytest.FixtureRequest, folder: Path) -> Iterator[System]:
    try:
        found = CATALOGUE[request.param].make(folder / request.param)
    except Missing as error:
        # No wheel carries a Redis: where nothing else is installed, there can be none.
        if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ and request.param != "redis":
            pytest.fail(str(error))
        pytest.skip(str(error))
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def client(system: System) -> Iterator[Client]:
    system.prepare(ITEMS)
    found = system.connect("ann")
    try:
        yield found
    finally:
        found.close()


@pytest.mark.parametrize("window", [1, 8])
def test_a_cycle_ends_and_gives_every_item_a_fence(client: Client, window: int) -> None:
    keys = names(ITEMS)[:window]
    fences = client.claim(keys)
    assert len(fences) == window
    assert all(fence > 0 for fence in fences)
    client.complete(keys, client.renew(keys, fences))


def test_what_is_held_cannot_be_claimed_by_another(system: System, client: Client) -> None:
    client.claim(["i0"])
    other = system.connect("bob")
    try:
        with pytest.raises(Refused):
            other.claim(["i0"])
    finally:
        other.close()


def test_an_old_fence_neither_renews_nor_completes(client: Client) -> None:
    _, fence = client.claim(["i0", "i1"])
    (newer,) = client.renew(["i1"], [fence])
    for old in (fence - 1, newer + 1):
        with pytest.raises(Refused):
            client.renew(["i1"], [old])
        with pytest.raises(Refused):
            client.complete(["i1"], [old])
    client.complete(["i1"], [newer])


def test_one_refusal_in_a_window_is_not_overlooked(client: Client) -> None:
    keys = names(ITEMS)[:8]
    fences = client.claim(keys)
    with pytest.raises(Refused):
        client.renew(keys, [*fences[:-1], fences[-1] + 1000])


def test_a_fresh_store_has_forgotten_the_last_one(system: System, client: Client) -> None:
    client.claim(["i0"])
    system.prepare(ITEMS)
    again = system.connect("bob")
    try:
        assert len(again.claim(["i0"])) == 1
    finally:
        again.close()
