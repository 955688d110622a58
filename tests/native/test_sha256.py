"""Both paths of SHA-256 in C, against hashlib."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.authority.engine import ffi
from understudy.contracts import canonical

SAMPLE = bytes(index * 37 % 251 for index in range(4096))


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "best"])
def test_every_length_up_to_five_blocks_has_the_hash_that_hashlib_gives(portable: bool) -> None:
    for length in range(321):
        data = SAMPLE[:length]
        assert ffi.sha256(data, portable=portable) == hashlib.sha256(data).digest(), length


@pytest.mark.parametrize("portable", [True, False], ids=["portable", "best"])
def test_a_million_bytes_have_the_hash_of_the_standard(portable: bool) -> None:
    published = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
    assert ffi.sha256(b"a" * 1_000_000, portable=portable).hex() == published


@given(st.binary(max_size=2048))
def test_any_bytes_have_the_same_hash_on_both_paths_and_in_hashlib(data: bytes) -> None:
    expected = hashlib.sha256(data).digest()
    assert ffi.sha256(data, portable=True) == expected
    assert ffi.sha256(data) == expected


@pytest.mark.parametrize("prefix", ["he1", "row1", "st1", "", "x" * 15])
def test_digests_are_spelled_as_the_contract_spells_them(prefix: str) -> None:
    for length in (0, 1, 63, 64, 273):
        data = SAMPLE[:length]
        assert ffi.digest(prefix, data) == canonical.digest(prefix, data)


def test_a_prefix_beyond_its_maximum_is_refused() -> None:
    with pytest.raises(ffi.Flawed) as refused:
        ffi.digest("x" * 16, b"")
    assert refused.value.flaw is ffi.KernelFlaw.OUT_FULL
