# What cffi builds from native/lease.h, as far as native.py uses it. The header is the manual.

from collections.abc import Callable

class CData:
    def __getitem__(self, index: int) -> CData: ...
    def __setitem__(self, index: int, value: object) -> None: ...
    def __add__(self, offset: int) -> CData: ...
    def __getattr__(self, name: str) -> int: ...
    def __setattr__(self, name: str, value: object) -> None: ...

class _Buffer:
    def __getitem__(self, index: slice) -> bytes: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _FFI:
    NULL: CData
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def new_allocator(self, *, should_clear_after_alloc: bool) -> Callable[[str, int], CData]: ...
    def buffer(self, cdata: CData, size: int = ...) -> _Buffer: ...
    def from_buffer(self, cdecl: str, data: object) -> CData: ...
    def gc(self, cdata: CData, destructor: Callable[[CData], None]) -> CData: ...
    def sizeof(self, cdecl: str) -> int: ...

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
    US_IMAGE_DAMAGED: int
    US_IMAGE_FOREIGN: int
    US_UNSETTLED: int
    US_IMAGE_VERSION: int

    US_LOCAL_REPL: int
    US_CLI: int
    US_MCP: int
    US_COORDINATOR: int
    US_CLAIM: int
    US_RENEW: int
    US_RELEASE: int
    US_CLOSE: int
    US_REASON_NONE: int
    US_REASON_ASSIGNEE_INVALID: int
    US_REASON_TTL_INVALID: int
    US_REASON_EXPIRY_AMBIGUOUS: int
    US_REASON_EXPIRY_INVALID: int
    US_REASON_LEASE_NOT_FOUND: int
    US_REASON_ISSUE_CLOSED: int
    US_REASON_LEASE_MISSING: int
    US_REASON_FENCE_MISSING: int
    US_REASON_FENCE_UNKNOWN: int
    US_REASON_FENCE_STALE: int
    US_REASON_LEASE_STALE: int
    US_REASON_OWNER_MISMATCH: int
    US_REASON_LEASE_ID_MISMATCH: int
    US_REASON_LEASE_CONTENDED: int
    US_REASON_ISSUE_BLOCKED: int
    US_STOP_END: int
    US_STOP_OUT_FULL: int
    US_STOP_LINE: int
    US_STOP_MEMBER: int
    US_STOP_ACTION: int
    US_STOP_TEXT: int
    US_STOP_DOOR: int
    US_STOP_POLICY: int
    US_STOP_CLOCK: int
    US_STOP_REPEAT: int
    US_STOP_ISSUE: int
    US_STOP_WAITING: int
    US_STOP_PROJECTION: int
    US_STOP_ROOM: int
    US_TEXT_ACTION: int
    US_TEXT_REQUEST: int
    US_TEXT_HEAD: int
    US_TEXT_EFFECT: int
    US_TEXT_WITNESS: int
    US_TEXT_RESOLVER: int
    US_TEXT_PROFILE: int
    US_TEXT_MEANING: int
    US_TEXT_WORLD: int
    US_TEXT_STEP: int
    US_TEXT_ROUTE: int
    US_TEXT_STEP_KIND: int
    US_TEXT_POLICY: int
    US_TEXT_BINDING: int
    US_TEXT_SCHEMA: int
    US_TEXT_NODE: int
    US_TEXT_KIND: int
    US_OPEN: int
    US_IN_PROGRESS: int
    US_BLOCKED: int
    US_CLOSED: int
    US_OTHER: int
    US_ASSIGNEE_MAX: int
    US_LEASE_ID_MAX: int
    US_LINE_MAX: int
    US_ACTION_COUNT: int
    US_REASON_COUNT: int
    US_ACTION_TEXT_COUNT: int
    US_SHARED_TEXT_COUNT: int
    US_TEXT_COUNT: int
    US_IDS_MAX: int
    US_ISSUE_FOREIGN: int
    US_ISSUE_TORN: int
    US_ISSUE_WAITING: int
    US_ISSUE_AWAITED: int
    US_ROW_DIGEST_LEN: int
    US_STATE_DIGEST_LEN: int

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
    def us_open(self, setup: CData, text: bytes, size: int, /) -> CData: ...
    def us_close(self, kernel: CData, /) -> None: ...
    def us_put_issue(self, kernel: CData, record: CData, text: bytes, /) -> int: ...
    def us_remember(self, kernel: CData, request_id: bytes, size: int, /) -> None: ...
    def us_set_policy(self, kernel: CData, open_: int, /) -> None: ...
    def us_get_head(self, kernel: CData, head: CData, /) -> None: ...
    def us_set_head(self, kernel: CData, head: CData, /) -> None: ...
    def us_reserve(self, kernel: CData, leases: int, /) -> int: ...
    def us_dispatch(
        self,
        kernel: CData,
        batch: CData,
        in_: CData,
        lens: CData,
        room: CData,
        /,
    ) -> int: ...
    def us_settle(self, kernel: CData, out: CData, out_max: int, /) -> int: ...
    def us_image_size(self, kernel: CData, /) -> int: ...
    def us_export(self, kernel: CData, out: CData, out_max: int, /) -> int: ...
    def us_import(self, kernel: CData, in_: bytes, size: int, /) -> int: ...

ffi: _FFI
lib: _Lib
