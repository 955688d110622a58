# What cffi builds from native/lease.h, as far as native.py uses it. The header is the manual.

class CData: ...

class _Buffer:
    def __getitem__(self, index: slice) -> bytes: ...

class _FFI:
    def new(self, cdecl: str, init: int) -> CData: ...
    def buffer(self, cdata: CData, size: int = ...) -> _Buffer: ...

class _Lib:
    US_ABI: int
    US_SHA256_PORTABLE: int
    US_SHA256_SHANI: int
    US_SHA256_SIZE: int
    US_DIGEST_TEXT_MAX: int
    US_PREFIX_MAX: int
    US_WALL_MS_MAX: int
    US_MOMENT_TEXT_MAX: int

    US_SOUND: int
    US_NOT_JSON: int
    US_NOT_UTF8: int
    US_NOT_INTEGER: int
    US_INTEGER_BEYOND: int
    US_KEY_TWICE: int
    US_KEY_NOT_ASCII: int
    US_TEXT_NUL: int
    US_TEXT_SURROGATE: int
    US_TOO_DEEP: int
    US_TOO_LONG: int
    US_NODES_FULL: int
    US_TEXT_FULL: int
    US_OUT_FULL: int
    US_MOMENT_INVALID: int

    def us_canonical_room(self, size: int, /) -> int: ...
    def us_canonical(
        self,
        in_: bytes,
        size: int,
        room: CData,
        room_size: int,
        out: CData,
        out_max: int,
        /,
    ) -> int: ...
    def us_sha256_best(self) -> int: ...
    def us_sha256(self, path: int, in_: bytes, size: int, digest: CData, /) -> None: ...
    def us_digest(
        self, path: int, prefix: bytes, in_: bytes, size: int, out: CData, out_max: int, /
    ) -> int: ...
    def us_answer_text(self, wall_ms: int, out: CData, /) -> int: ...
    def us_record_text(self, wall_ms: int, out: CData, /) -> int: ...
    def us_parse_ms(self, text: bytes, size: int, /) -> int: ...

ffi: _FFI
lib: _Lib
