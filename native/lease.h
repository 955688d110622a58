/* The only header that Python sees, and the manual of what lies behind it.
 *
 * Everything that Python calls is C11 without I/O, globals or a clock. The bricks (canonical JSON,
 * digests, moments) allocate nothing and keep nothing. A kernel keeps the state of an authority;
 * its memory is taken when it is opened, put into or reserved for, never while it decides.
 *
 * Rules for callers:
 *   R1  Lengths are exact; nothing is read at or behind `in + len`, and no NUL is expected there.
 *   R2  What is written never exceeds the stated maximum; a caller that gives less room gets a
 *       refusal, never a part of an answer.
 *   R3  A result below zero is a flaw with its sign turned; zero and above is a length or a time.
 *   R4  Two calls with the same arguments give the same bytes, on every machine.
 *   R5  Input and output may not overlap. Any call may run beside any other, but for two calls with
 *       the same kernel.
 *
 * Example, the digest of a request's arguments:
 *
 *     uint32_t path = us_sha256_best();
 *     int64_t size = us_canonical(in, len, room, us_canonical_room(len), out, len);
 *     if (size >= 0)
 *         size = us_digest(path, "he1", out, (uint64_t)size, text, US_DIGEST_TEXT_MAX);
 *
 * `build_ffi.py` hands the part between the two marks to cffi, without the word US_CHECKED.
 */

#ifndef US_LEASE_H
#define US_LEASE_H

#include <stdint.h>

/* A flaw that was not looked at is a bug of the caller. */
#if defined(__GNUC__)
#define US_CHECKED __attribute__((warn_unused_result))
#else
#define US_CHECKED
#endif

/* cffi: begin */

/* Grows with every change below, so that Python never calls a library built from another header. */
#define US_ABI 8

/* ---- flaws: why bytes were refused ------------------------------------------------------------
 * Numbers are appended and never reused. The first flaw that the reader meets is the one it names,
 * so two flawed documents may be told apart only by whether they are refused. */

enum us_flaw {
    US_SOUND = 0,
    US_NOT_JSON = 1,       /* the grammar: also an end too early, and anything behind the value */
    US_NOT_UTF8 = 2,       /* overlong, surrogate, beyond U+10FFFF, cut short, or stray */
    US_NOT_INTEGER = 3,    /* a number with a fraction or an exponent */
    US_INTEGER_BEYOND = 4, /* an integer whose absolute value is greater than 2^53 - 1 */
    US_KEY_TWICE = 5,      /* one object names a key twice, however it is spelled */
    US_KEY_NOT_ASCII = 6,  /* NUL is refused here as well */
    US_TEXT_NUL = 7,       /* a string holds U+0000 */
    US_TEXT_SURROGATE = 8, /* half of a surrogate pair, escaped */
    US_TOO_DEEP = 9,       /* more than 32 arrays and objects around one another */
    US_TOO_LONG = 10,      /* offsets have 32 bits; far above any limit of the contract */
    US_NODES_FULL = 11, /* the document begins more values than the caller's room has nodes for */
    US_TEXT_FULL = 12,  /* the caller's room is too small for the unescaped strings */
    US_OUT_FULL = 13,   /* the caller's room is too small for the answer */
    US_MOMENT_INVALID = 14, /* no RFC 3339 moment between 1970 and 9999 */
    US_IMAGE_DAMAGED = 15,  /* no image, or not as it was written */
    US_IMAGE_FOREIGN = 16,  /* an image, of another version or of another contract */
    US_UNSETTLED = 17       /* there are changes that us_settle has not given */
};

/* ---- canonical JSON ---------------------------------------------------------------------------
 * Accepts and refuses what `contracts/canonical.py:decode` does, and writes what `encode` would
 * write for the result. The answer is never longer than the input. */

/* The room that is enough for every document of `len` bytes; less is enough for most. The room
 * itself must be aligned for a uint64_t. */
uint64_t us_canonical_room(uint64_t len);

/* The length of the canonical bytes in `out`, or a flaw. */
US_CHECKED int64_t us_canonical(const uint8_t *in, uint64_t len, void *room, uint64_t room_size,
                                uint8_t *out, uint64_t out_max);

/* ---- digests ----------------------------------------------------------------------------------
 * Asking the processor is slow in a virtual machine, and there are no globals to remember the
 * answer in: ask once, keep the path, and hand it to every call. Only `US_SHA256_PORTABLE` and
 * what `us_sha256_best` gave on this machine are allowed as a path. */

enum us_sha256_path { US_SHA256_PORTABLE = 0, US_SHA256_SHANI = 1 };

#define US_SHA256_SIZE 32
#define US_PREFIX_MAX 15      /* characters in front of the underscore */
#define US_DIGEST_TEXT_MAX 80 /* the prefix, `_`, and 64 hex digits; no NUL behind them */

uint32_t us_sha256_best(void);

/* SHA-256 of the input, as 32 bytes. */
void us_sha256(uint32_t path, const uint8_t *in, uint64_t len, uint8_t *digest);

/* `<prefix>_<hex>`: the length of the text in `out`, or a flaw. */
US_CHECKED int64_t us_digest(uint32_t path, const char *prefix, const uint8_t *in, uint64_t len,
                             char *out, uint64_t out_max);

/* ---- moments ----------------------------------------------------------------------------------
 * As `contracts/rfc3339.py`, for milliseconds from 0 to US_WALL_MS_MAX. */

#define US_WALL_MS_MAX 253402300799999
#define US_MOMENT_TEXT_MAX 29 /* 2026-02-03T04:05:06.007+00:00 */

/* The length of the text in `out`, which has room for US_MOMENT_TEXT_MAX bytes; or a flaw. */
US_CHECKED int64_t us_answer_text(int64_t wall_ms, char *out);
US_CHECKED int64_t us_record_text(int64_t wall_ms, char *out);

/* Milliseconds since 1970, rounded down; or a flaw. */
US_CHECKED int64_t us_parse_ms(const char *text, uint64_t len);

/* ---- the kernel -------------------------------------------------------------------------------
 * The hot actions, whole: many request lines in one call, and for each the journal's row, the
 * answer, and the line of the trajectory, byte for byte what `authority/engine/engine.py` and
 * `authority/views/trajectory.py` give.
 *
 *     us_open -> us_put_issue*, us_remember*, us_set_head ->
 *     (us_reserve -> us_dispatch)* -> us_settle -> ... -> us_close
 *
 * Whatever is not plainly hot is *cold*: `us_dispatch` stops in front of that line, says why, and
 * has changed nothing for it. The reference takes over what `us_settle` gives, decides the line,
 * and its changes come back by `us_put_issue`, `us_remember`, `us_set_policy` and `us_set_head`.
 * Being cold is always allowed.
 *
 *   K1  A row that is handed out is the reference's row for the same state, line and stamp.
 *   K2  A line that is not handed out has left no trace.
 *   K3  A request id that the reference remembers is known here; one that is known may be new.
 *   K4  Every lease is in the heap of deadlines once, and every torn one in the list of torn ones.
 *   K5  Every issue that was decided about since it was settled is in the list of touched ones.
 */

typedef struct us_kernel us_kernel;

/* Names that fit are hot; longer ones are for the reference. In bytes. */
#define US_ASSIGNEE_MAX 64
#define US_LEASE_ID_MAX 224
#define US_LINE_MAX 16384

/* The transports, weakest first, as `shapes.STRENGTH`. */
enum us_door { US_LOCAL_REPL = 0, US_CLI = 1, US_MCP = 2, US_COORDINATOR = 3 };

enum us_action { US_CLAIM = 0, US_RENEW = 1, US_RELEASE = 2, US_CLOSE = 3 };
#define US_ACTION_COUNT 4

/* The failure classes of the hot actions, with the numbers of `contracts/reason.py`. */
enum us_reason {
    US_REASON_NONE = 0,
    US_REASON_ASSIGNEE_INVALID = 40,
    US_REASON_TTL_INVALID = 41,
    US_REASON_EXPIRY_AMBIGUOUS = 42,
    US_REASON_EXPIRY_INVALID = 43,
    US_REASON_LEASE_NOT_FOUND = 60,
    US_REASON_ISSUE_CLOSED = 61,
    US_REASON_LEASE_MISSING = 62,
    US_REASON_FENCE_MISSING = 63,
    US_REASON_FENCE_UNKNOWN = 64,
    US_REASON_FENCE_STALE = 65,
    US_REASON_LEASE_STALE = 66,
    US_REASON_OWNER_MISMATCH = 67,
    US_REASON_LEASE_ID_MISMATCH = 68,
    US_REASON_LEASE_CONTENDED = 80,
    US_REASON_ISSUE_BLOCKED = 81
};
#define US_REASON_COUNT 82

/* Why a batch ended. All but the first two mean that the line is cold. */
enum us_stop {
    US_STOP_END = 0,         /* every line was handled */
    US_STOP_OUT_FULL = 1,    /* the next row does not fit; ask again with an empty room */
    US_STOP_LINE = 2,        /* too long, not canonical JSON, or no object */
    US_STOP_MEMBER = 3,      /* a member that is unknown here, or of another kind */
    US_STOP_ACTION = 4,      /* not one of the hot actions */
    US_STOP_TEXT = 5,        /* a name that is too long, escaped, or to be trimmed beyond ASCII */
    US_STOP_DOOR = 6,        /* the transport is stronger than the door, or not the action's */
    US_STOP_POLICY = 7,      /* mutations need evidence */
    US_STOP_CLOCK = 8,       /* a time beyond its bounds, or too many events in one millisecond */
    US_STOP_REPEAT = 9,      /* the request id may have been seen before */
    US_STOP_ISSUE = 10,      /* the record is torn, or has what only the reference looks at */
    US_STOP_WAITING = 11,    /* it waits for others, or others wait for it */
    US_STOP_PROJECTION = 12, /* more stale or contended leases than an answer lists */
    US_STOP_ROOM = 13        /* no room for one more lease; us_reserve makes some */
};

/* Texts of the contract that rows are put together from, as JSON already. First those of each
 * action, then those that all share, then class and remedy of each reason; `lens` says how long
 * each is, and `us_open` takes them in this order, without anything between. */
enum us_action_text {
    US_TEXT_ACTION = 0,    /* issue.claim */
    US_TEXT_REQUEST = 1,   /* {"action":"issue.claim","context": */
    US_TEXT_HEAD = 2,      /* {"action":"issue.claim","actionId":"...", */
    US_TEXT_EFFECT = 3,    /* {"action":"issue.claim","argsDigest":" */
    US_TEXT_WITNESS = 4,   /* ["host-effect://issue.claim/ */
    US_TEXT_RESOLVER = 5,  /* ,"resolver://..." or nothing */
    US_TEXT_PROFILE = 6,   /* "profileId":"...","resolverWitnessRef":"...","result":" */
    US_TEXT_MEANING = 7,   /* ","schema":1,"semanticDigest":"...","seq": */
    US_TEXT_WORLD = 8,     /* ,"worldBinding":{...}} or } */
    US_TEXT_STEP = 9,      /* {"action":"issue.claim","digest":" */
    US_TEXT_ROUTE = 10,    /* ","route":"...","schema":1,"stepId":"n1. */
    US_TEXT_STEP_KIND = 11 /* .issue.claim","stepKind":"...","witnessRefs": */
};
#define US_ACTION_TEXT_COUNT 12

enum us_shared_text {
    US_TEXT_POLICY = 0,  /* ,"policy":"pol1_..."} */
    US_TEXT_BINDING = 1, /* ,"normalizerId":"...","policyDigest":"...","prev":" */
    US_TEXT_SCHEMA = 2,  /* ","schema":"...","seq": */
    US_TEXT_NODE = 3,    /* ,"node":"n1","wallMs": */
    US_TEXT_KIND = 4     /* "dispatchKind":"...","effect": */
};
#define US_SHARED_TEXT_COUNT 5

#define US_TEXT_COUNT 217 /* 4 * 12 + 5 + 2 * 82 */

typedef struct us_setup {
    uint64_t seed[2];            /* for hashing alone: no byte of an answer depends on it */
    int64_t now_ms_max;          /* limits.NOW_MS_MAX */
    int64_t ttl_seconds_min;     /* limits.TTL_SECONDS_MIN */
    int64_t ttl_seconds_max;     /* limits.TTL_SECONDS_MAX */
    int64_t ttl_seconds_default; /* limits.TTL_SECONDS_DEFAULT */
    uint32_t answers_max;        /* limits.ANSWERS_MAX */
    uint32_t counter_max;        /* limits.COUNTER_MAX */
    uint32_t ids_max;            /* limits.PROJECTION_IDS_MAX; at most US_IDS_MAX */
    uint32_t doors[4];           /* by action: a bit for each transport that it is bound to */
    uint32_t lens[US_TEXT_COUNT];
} us_setup;

#define US_IDS_MAX 64

/* NULL where there is no memory, or where the texts are not as long as they say. */
us_kernel *us_open(const us_setup *setup, const uint8_t *text, uint64_t len);
void us_close(us_kernel *kernel);

/* What an issue is now; it replaces what was known under its id. The text is, without anything
 * between: id, front, middle, back, assignee, lease id. Its view in an answer is
 *
 *     {"assignee":A,"attempts":N,<front>"lease":{...},<middle>STATUS<back>
 *
 * `fence` is 0 without a lease, and then the members behind it mean nothing. */
enum us_status { US_OPEN = 0, US_IN_PROGRESS = 1, US_BLOCKED = 2, US_CLOSED = 3, US_OTHER = 4 };

#define US_ISSUE_FOREIGN 1u /* something about it is for the reference alone */
#define US_ISSUE_TORN 2u    /* leased, and its record disagrees with the lease */
#define US_ISSUE_WAITING 4u /* it has blockers that are not closed */
#define US_ISSUE_AWAITED 8u /* it blocks others */

typedef struct us_record {
    uint32_t id_len;
    uint32_t front_len;
    uint32_t middle_len;
    uint32_t back_len;
    uint32_t assignee_len;
    uint32_t lease_id_len;
    uint32_t status; /* enum us_status */
    uint32_t flags;
    int64_t attempts;
    int64_t fence;
    int64_t granted_ms;
    int64_t deadline_ms;
    int64_t renewals;
} us_record;

/* US_SOUND or, with its sign turned, a flaw; then the kernel is to be closed. */
US_CHECKED int64_t us_put_issue(us_kernel *kernel, const us_record *record, const uint8_t *text);

/* A request id that is remembered from now on; the oldest ones are forgotten. */
void us_remember(us_kernel *kernel, const uint8_t *request_id, uint64_t len);

/* Whether mutations are open, so that lines may be hot at all. */
void us_set_policy(us_kernel *kernel, uint32_t open);

#define US_ROW_DIGEST_LEN 69   /* row1_ and 64 hex digits */
#define US_STATE_DIGEST_LEN 68 /* st1_ and 64 hex digits */

/* The journal's end, and where its clock stands. */
typedef struct us_head {
    int64_t seq;
    int64_t wall_ms;
    int64_t counter;
    char digest[US_ROW_DIGEST_LEN];
    char state_digest[US_STATE_DIGEST_LEN];
    uint8_t unused[7]; /* zero */
} us_head;

void us_get_head(const us_kernel *kernel, us_head *head);
void us_set_head(us_kernel *kernel, const us_head *head);

/* Make room for so many more leases than there are; US_SOUND or a flaw with its sign turned. */
US_CHECKED int64_t us_reserve(us_kernel *kernel, uint32_t leases);

typedef struct us_batch {
    uint32_t count;      /* lines */
    uint32_t door;       /* enum us_door: all come through one */
    uint32_t frozen;     /* the door lets requests bring their own time */
    uint32_t stop;       /* set by the call: enum us_stop */
    int64_t physical_ms; /* what the physical clock says */
    uint64_t out_len;    /* set by the call, as all below: bytes used */
    uint64_t steps_len;
    uint64_t answers_len;
    uint64_t answered_len;
    uint64_t answered_count; /* rows with a request id */
} us_batch;

/* A row of the journal. Its slices lie in `out`; the changes end where the response begins. Its
 * line of the trajectory lies in `steps`, and what its caller hears in `answers`, each with a line
 * break and behind that of the row before. */
typedef struct us_row {
    int64_t seq;
    int64_t wall_ms;
    uint32_t counter;
    uint32_t request_at;
    uint32_t request_end;
    uint32_t changes_at;
    uint32_t answered_at; /* the change that remembers the answer; 0 without a request id */
    uint32_t response_at;
    uint32_t response_end;
    uint32_t answer_end; /* the response, with the caller's own `id` in front if it has one */
    uint32_t step_at;
    uint32_t step_end;
    char digest[US_ROW_DIGEST_LEN];
    char state_digest[US_STATE_DIGEST_LEN];
    uint8_t unused[7];
} us_row;

/* Where a batch is written. */
typedef struct us_room {
    us_row *rows; /* as many as there are lines */
    uint8_t *out;
    uint64_t out_max;
    uint8_t *steps;
    uint64_t steps_max;
    uint8_t *answers;
    uint64_t answers_max;
    uint8_t *answered; /* the changes that remember answers, with commas between */
    uint64_t answered_max;
} us_room;

/* Decide the lines, which follow one another in `in` with these lengths; how many were handled. */
US_CHECKED int64_t us_dispatch(us_kernel *kernel, us_batch *batch, const uint8_t *in,
                               const uint32_t *lens, const us_room *room);

/* The changes of all rows since the last call, taken together: of each issue and of each lease the
 * last word, as the JSON of `authority/law/outcome.py`; without the answers that are remembered.
 * The length of the text in `out`, or a flaw. What does not fit waits for the next call; `[]` says
 * that there is no more. An issue that is put is settled. */
US_CHECKED int64_t us_settle(us_kernel *kernel, uint8_t *out, uint64_t out_max);

/* ---- the kernel as an image -------------------------------------------------------------------
 * All that the kernel knows, as one piece of bytes with a checksum, so that a start need not put
 * every issue. Equal states give equal images, whatever their seeds and however they came about. */

#define US_IMAGE_VERSION 1 /* grows also where Python puts other texts for the same issue */

/* How long the image is now. */
uint64_t us_image_size(const us_kernel *kernel);

/* The length of the image in `out`, or a flaw: what was decided must be settled before. */
US_CHECKED int64_t us_export(const us_kernel *kernel, uint8_t *out, uint64_t out_max);

/* Become what the image says: US_SOUND; or, with its sign turned, a flaw, and nothing has changed.
 * The kernel was opened with the texts of the one that was exported. */
US_CHECKED int64_t us_import(us_kernel *kernel, const uint8_t *in, uint64_t len);

/* cffi: end */

/* ---- SQLite -----------------------------------------------------------------------------------
 * The library is an extension of SQLite as well: `append.c`. An entry of SQLite's table is a
 * function of some kind. */
#if defined(__GNUC__)
#define US_VISIBLE __attribute__((visibility("default")))
#else
#define US_VISIBLE
#endif

typedef void (*us_entry)(void);

US_VISIBLE int us_sqlite_init(void *database, char **message, const us_entry *table);

_Static_assert(sizeof(us_head) == 168, "a head has no padding");
_Static_assert(sizeof(us_record) == 72, "a record has no padding");
_Static_assert(sizeof(us_row) == 200, "a row has no padding; Python reads it by its offsets");
_Static_assert(US_TEXT_COUNT == US_ACTION_COUNT * US_ACTION_TEXT_COUNT + US_SHARED_TEXT_COUNT +
                                    2 * US_REASON_COUNT,
               "every text has a length");

#endif
