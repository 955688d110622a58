"""The kernel as an image: a start from it, and from anything else that lies in its place."""

import hashlib
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.journal import MemoryJournal
from tests.long import tried
from tests.native.test_kernel import Pair
from tests.native.walk import Walk
from understudy.authority import Office, create_state_dir
from understudy.authority.engine.ffi import Flawed, KernelFlaw, KernelStop
from understudy.authority.engine.native_engine import NativeAuthority, open_kernel
from understudy.authority.service.native_local import NativeOffice
from understudy.contracts.requests.request import Door

HEADER = 232
CHECKSUM = 32


def restarted(pair: Pair, image: bytes | None) -> NativeAuthority:
    """The native half of the pair, as its next process finds it."""
    native = NativeAuthority(pair.native_journal, pair.time.clock(), image)
    native._epoch = pair.native._epoch  # it goes on writing for the one before
    native._uncommitted = pair.native._uncommitted
    native.garbage_count = pair.native.garbage_count
    return native


def image_of(pair: Pair) -> bytes:
    image = pair.native.image()
    assert image is not None
    return image


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_walk_goes_on_from_an_image_as_if_nothing_had_happened(seed: int) -> None:
    pair, walk = Pair(), Walk(seed)
    batch: list[tuple[bytes, Door]] = []
    starts = 0
    for line in walk.lines(1_000):
        batch.append(line)
        if walk.random.random() < 0.3:
            for answer in pair.submit(batch):
                walk.heard(answer)
            batch = []
        if walk.random.random() < 0.02:
            image = image_of(pair)
            pair.native = restarted(pair, image)
            assert pair.native.from_image
            assert image_of(pair) == image
            starts += 1
    pair.submit(batch)
    pair.prove()
    assert starts > 5


def test_equal_states_have_equal_images_however_they_came_about() -> None:
    pair, walk = Pair(), Walk(7)
    for line in walk.lines(500):
        for answer in pair.submit([line]):
            walk.heard(answer)
    image = image_of(pair)
    assert pair.native.hot_count > 100
    pair.native = restarted(pair, None)  # with another seed, and put from the state
    assert image_of(pair) == image


@pytest.fixture
def pair() -> Pair:
    pair = Pair()
    for issue_id in ("b", "a", "ab"):
        pair.ask("issue.add", "cli", id=issue_id, title=issue_id)
    pair.hot("issue.claim", id="a", assignee="ada", requestId="r")
    return pair


def test_an_image_of_an_older_head_is_not_believed(pair: Pair) -> None:
    image = image_of(pair)
    pair.hot("issue.close", id="b")
    pair.native = restarted(pair, image)
    assert not pair.native.from_image
    pair.hot("issue.claim", id="ab", assignee="bob")
    pair.cold(KernelStop.REPEAT, "issue.claim", id="a", assignee="ada", requestId="r")
    pair.prove()


def test_an_image_of_another_node_is_foreign(pair: Pair) -> None:
    with pytest.raises(Flawed) as refused:
        open_kernel("n2").become(image_of(pair))
    assert refused.value.flaw is KernelFlaw.IMAGE_FOREIGN


def test_a_start_from_an_image_remembers_request_ids(pair: Pair) -> None:
    pair.native = restarted(pair, image_of(pair))
    assert pair.native.from_image
    pair.cold(KernelStop.REPEAT, "issue.claim", id="a", assignee="ada", requestId="r")
    pair.hot("issue.claim", id="b", assignee="ada", requestId="s")
    pair.prove()


def test_there_is_an_image_before_the_first_line_and_after_the_last(pair: Pair) -> None:
    assert NativeAuthority(MemoryJournal()).image() is not None
    assert image_of(pair) == image_of(pair)
    pair.native._kernel = None
    assert pair.native.image() is None


@pytest.mark.parametrize("version_at", [8, 12])
def test_an_image_of_another_version_is_foreign(pair: Pair, version_at: int) -> None:
    image = bytearray(image_of(pair))
    image[version_at] += 1
    refused(pair, signed(bytes(image)), KernelFlaw.IMAGE_FOREIGN)


def signed(image: bytes) -> bytes:
    """With the checksum that belongs to the rest."""
    body = image[:-CHECKSUM]
    return body + hashlib.sha256(body).digest()


def refused(pair: Pair, image: bytes, flaw: KernelFlaw) -> None:
    """The image is refused for this reason, and what the kernel knew it knows still."""
    kernel = open_kernel("n1")
    before = kernel.image()
    with pytest.raises(Flawed) as found:
        kernel.become(image)
    assert found.value.flaw is flaw
    assert kernel.image() == before
    native = NativeAuthority(pair.native_journal, pair.time.clock(), image)
    assert not native.from_image


def test_every_byte_that_differs_is_damage(pair: Pair) -> None:
    kernel = open_kernel("n1")
    image = image_of(pair)
    for at in range(len(image)):
        for bit in (1, 128):
            other = bytearray(image)
            other[at] ^= bit
            with pytest.raises(Flawed):
                kernel.become(bytes(other))
    kernel.become(image)
    assert kernel.image() == image


def test_every_length_but_its_own_is_damage(pair: Pair) -> None:
    kernel = open_kernel("n1")
    image = image_of(pair)
    lengths = [*range(len(image)), len(image) + 1, len(image) + 64]
    for length in lengths:
        other = image[:length].ljust(length, b"\0")
        for each in (other, signed(other) if length > CHECKSUM else b""):
            with pytest.raises(Flawed) as found:
                kernel.become(each)
            assert found.value.flaw is KernelFlaw.IMAGE_DAMAGED


@tried(300)
@given(data=st.data())
def test_a_signer_can_write_states_but_no_nonsense(data: st.DataObject) -> None:
    """What is taken with a sound checksum is given back as it is; the rest is refused."""
    image = bytearray(data.draw(st.sampled_from(walked_images())))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER - 176, len(image) - CHECKSUM))
        gone = data.draw(st.integers(0, 9))
        image[at : at + gone] = data.draw(st.binary(min_size=gone, max_size=gone))
    given_image = signed(bytes(image))
    kernel = open_kernel("n1")
    before = kernel.image()
    try:
        kernel.become(given_image)
    except Flawed:
        assert kernel.image() == before
    else:
        assert kernel.image() == given_image


@cache
def walked_images() -> list[bytes]:
    images = []
    for seed in range(3):
        pair, walk = Pair(), Walk(seed)
        for line in walk.lines(60):
            for answer in pair.submit([line]):
                walk.heard(answer)
        images.append(image_of(pair))
    return images


def test_an_office_leaves_an_image_and_starts_from_it(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "n1")
    with NativeOffice(tmp_path / "state") as office:
        assert not office.authority.from_image
        office.ask("issue.add", {"id": "a", "title": "t"})
    with NativeOffice(tmp_path / "state") as office:
        assert office.authority.from_image
        assert office.ask("issue.claim", {"id": "a", "assignee": "ada"})["result"] == "accepted"
    path = tmp_path / "state" / "kernel.image"
    path.write_bytes(path.read_bytes()[:-1])
    with NativeOffice(tmp_path / "state") as office:
        assert not office.authority.from_image
        assert office.ask("issue.claim", {"id": "a", "assignee": "bob"})["result"] == "rejected"


def test_an_image_of_an_earlier_row_is_left_alone(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "n1")
    with NativeOffice(tmp_path / "state") as office:
        office.ask("issue.add", {"id": "a", "title": "t"})
    with Office(tmp_path / "state") as office:
        office.ask("issue.claim", {"id": "a", "assignee": "ada"})
    with NativeOffice(tmp_path / "state") as native:
        assert not native.authority.from_image
        assert native.ask("issue.claim", {"id": "a", "assignee": "bob"})["result"] == "rejected"
