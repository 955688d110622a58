/* What a kernel is made of. Only the files of the kernel look in here.
 *
 *     line -> us_request -> us_outcome -> bytes of the row -> us_apply
 *     request.c   lease.c, work.c     envelope.c, changes.c,  state.c
 *                                     view.c
 *
 * The four steps are those of `contracts/requests/request.py`, `authority/law/lease.py` and
 * `work.py`, `authority/engine/envelope.py`, `outcome.py` and `view.py`, and
 * `authority/law/state.py`. The first three change nothing but their results, so that a line can
 * still turn out to be cold, or its row too long.
 *
 * Not stored, because it follows: the owner of a lease is the assignee of an issue that is not
 * torn, and torn issues are never hot.
 */

#ifndef US_KERNEL_H
#define US_KERNEL_H

#include "json.h"
#include "sha256.h"
#include "writer.h"

#define US_NONE UINT32_MAX
#define US_NEVER INT64_MIN
#define US_ARGS_DIGEST_LEN 68 /* he1_ and 64 hex digits */
#define US_NODE_MAX 64        /* a hot line begins fewer values than that */

typedef struct us_bytes {
    const uint8_t *at;
    size_t len;
} us_bytes;

typedef struct us_lease {
    int64_t fence;
    int64_t granted_ms;
    int64_t deadline_ms;
    int64_t renewals;
    int64_t renewed_ms; /* US_NEVER since it was granted; known where it was granted here */
    uint32_t issue;     /* whose it is; in a free lease, the next free one */
    uint32_t place;     /* in the heap of deadlines */
    uint32_t lease_id_len;
    uint8_t lease_id[US_LEASE_ID_MAX];
} us_lease;

typedef struct us_issue {
    uint8_t *text; /* id, front, middle, back */
    uint64_t hash;
    int64_t attempts;
    uint32_t id_len;
    uint32_t front_len;
    uint32_t middle_len;
    uint32_t back_len;
    uint32_t lease;         /* US_NONE without one */
    uint32_t torn_place;    /* in the list of torn ones */
    uint32_t touched_place; /* in the list of touched ones */
    int64_t updated_ms;     /* where it was touched */
    uint8_t status;         /* enum us_status */
    uint8_t flags;
    uint8_t touched; /* US_TOUCHED_... */
    uint8_t assignee_len;
    uint8_t assignee[US_ASSIGNEE_MAX];
} us_issue;

/* What was decided here about an issue since the last settlement. */
#define US_TOUCHED_ISSUE 1u
#define US_TOUCHED_LEASE 2u
#define US_TOUCHED_HELD 4u /* it had a lease before */

/* Issues by id: open addressing, never more than half full; US_NONE is free. */
typedef struct us_index {
    uint32_t *slots;
    uint32_t mask;
} us_index;

/* The hashes of request ids that are remembered, oldest first, and as a set; 0 is free. Images hold
 * them, so they are the same on every machine; where they stand in the set, no caller can tell. */
typedef struct us_memory {
    uint64_t seed[2];
    uint64_t *ring;
    uint64_t *slots;
    uint32_t max;
    uint32_t count;
    uint32_t oldest;
    uint32_t mask;
} us_memory;

typedef struct us_stamp {
    int64_t seq;
    int64_t wall_ms;
    int64_t counter;
} us_stamp;

typedef struct us_request {
    enum us_action action;
    uint32_t door;
    uint32_t transport;
    uint32_t escalated_from; /* US_NONE where it was not */
    bool names_transport;    /* the context says it, so the journal keeps it */
    bool has_now;
    bool has_fence;
    bool has_ttl;
    bool has_lease_id;
    int64_t now_ms;
    int64_t fence;
    int64_t ttl_seconds;
    us_bytes id;
    us_bytes assignee;   /* trimmed */
    us_bytes lease_id;   /* as it came */
    us_bytes expires_at; /* trimmed */
    us_bytes request_id;
    uint64_t request_hash;
    uint64_t id_hash;
    const us_json *doc; /* what the nodes below are of */
    const us_node *payload;
    const us_node *mark; /* NULL without one */
    us_issue *issue;     /* NULL where there is none with this id */
} us_request;

/* What is said in front of a refusal's meaning. */
enum us_detail {
    US_DETAIL_NAME,     /* issue a-1 */
    US_DETAIL_FENCES,   /* issue a-1: fence 7, current 9 */
    US_DETAIL_NEWER,    /* issue a-1: fence 7, current 9 of bob */
    US_DETAIL_HELD,     /* issue a-1: it held until ... */
    US_DETAIL_HOLDER,   /* issue a-1: bob until ... */
    US_DETAIL_ASSIGNED, /* issue a-1: it is assigned to bob */
    US_DETAIL_BLOCKED,  /* issue a-1: waits for somebody to unblock it */
    US_DETAIL_TTL,      /* 7 seconds */
    US_DETAIL_BOTH,     /* 7 seconds and 2026-... */
    US_DETAIL_TEXT      /* 2026-... */
};

enum us_move { US_MOVE_NONE, US_MOVE_GRANT, US_MOVE_EXTEND, US_MOVE_RELEASE, US_MOVE_COMPLETE };

typedef struct us_outcome {
    enum us_reason reason; /* US_REASON_NONE: accepted */
    enum us_detail detail; /* of a refusal */
    enum us_move move;     /* of what is accepted */
    bool unnamed;          /* the evidence names no issue */
    int64_t fence;         /* in the evidence; 0 for none */
    int64_t deadline_ms;   /* of the lease that is granted, extended or in the way */
    int64_t granted_ms;
    int64_t renewals;
    us_bytes owner;
    us_bytes lease_id;
    uint8_t derived[US_LEASE_ID_MAX];
} us_outcome;

/* Leases in a bad way when an answer is given, without the one it is about. */
typedef struct us_projection {
    uint32_t stale[US_IDS_MAX + 1]; /* issues */
    uint32_t contended[US_IDS_MAX + 1];
    uint32_t stale_count;
    uint32_t contended_count;
} us_projection;

/* What a batch is written with. The digest of the newest row is not known yet: its evidence is
 * hashed beside the changes of the next one, which are there before they need it. */
typedef struct us_pen {
    us_writer out;
    us_writer steps;
    us_writer answers;
    us_writer answered;
    us_row *newest; /* NULL where every digest is known */
    us_sha256_lane evidence;
    uint32_t step_digest_at; /* where the newest line of the trajectory wants it */
} us_pen;

static inline bool us_pen_full(const us_pen *pen)
{
    return pen->out.full || pen->steps.full || pen->answers.full || pen->answered.full;
}

struct us_kernel {
    us_setup setup;
    uint32_t sha256_path;
    bool open;
    us_head head;
    uint8_t *text; /* of the setup, copied */
    us_bytes texts[US_TEXT_COUNT];

    us_issue *issues;
    uint32_t issue_count;
    uint32_t issue_max;
    us_index index;
    us_lease *leases;
    uint32_t lease_count; /* also the length of the heap */
    uint32_t lease_max;
    uint32_t lease_free;
    uint32_t *heap; /* leases, the next to lapse in front */
    uint32_t *torn; /* issues; as long as `issues` */
    uint32_t torn_count;
    uint32_t *touched; /* issues; as long as `issues` */
    uint32_t touched_count;
    us_memory memory;

    us_json docs[2]; /* of the line that is decided, and of the next one */
    us_node nodes[2][US_NODE_MAX];
    uint8_t doc_text[2][US_LINE_MAX];
};

static inline us_bytes us_action_bytes(const us_kernel *k, enum us_action action, uint32_t text)
{
    return k->texts[(uint32_t)action * US_ACTION_TEXT_COUNT + text];
}

static inline us_bytes us_shared_bytes(const us_kernel *k, uint32_t text)
{
    return k->texts[US_ACTION_COUNT * US_ACTION_TEXT_COUNT + text];
}

static inline us_bytes us_reason_bytes(const us_kernel *k, enum us_reason reason, uint32_t part)
{
    return k->texts[US_ACTION_COUNT * US_ACTION_TEXT_COUNT + US_SHARED_TEXT_COUNT +
                    2 * (uint32_t)reason + part];
}

static inline us_bytes us_issue_id(const us_issue *issue)
{
    return (us_bytes){issue->text, issue->id_len};
}

static inline us_bytes us_issue_assignee(const us_issue *issue)
{
    return (us_bytes){issue->assignee, issue->assignee_len};
}

static inline us_lease *us_issue_lease(const us_kernel *k, const us_issue *issue)
{
    return issue->lease == US_NONE ? NULL : &k->leases[issue->lease];
}

static inline void us_put_bytes(us_writer *w, us_bytes bytes)
{
    us_put_some(w, bytes.at, bytes.len);
}

#define US_PUT(w, literal) us_put_raw((w), "" literal, sizeof(literal) - 1)

/* Bytes of printable text that stand for themselves in JSON. */
bool us_is_plain(us_bytes bytes);
bool us_same(us_bytes left, us_bytes right);
bool us_before(us_bytes left, us_bytes right);
us_bytes us_trimmed(us_bytes text);

/* table.c */
uint64_t us_hash(const uint64_t seed[2], us_bytes bytes);
us_issue *us_index_find(const us_kernel *k, us_bytes id, uint64_t hash);
void us_index_add(us_kernel *k, uint32_t issue);
uint64_t us_request_hash(us_bytes request_id);
void us_memory_fetch(const us_memory *memory, uint64_t hash);
void us_index_fetch(const us_kernel *k, uint64_t hash);
void us_issue_fetch(const us_kernel *k, uint64_t hash);
bool us_memory_has(const us_memory *memory, uint64_t hash);
uint64_t us_memory_at(const us_memory *memory, uint32_t place);
void us_memory_add(us_memory *memory, uint64_t hash);

/* heap.c */
void us_heap_add(us_kernel *k, uint32_t lease);
void us_heap_drop(us_kernel *k, uint32_t lease);
void us_heap_move(us_kernel *k, uint32_t lease);

/* request.c */
enum us_stop us_read_request(const us_kernel *k, const us_batch *batch, const uint8_t *line,
                             size_t len, us_json *doc, us_request *request);

/* lease.c */
enum us_reason us_hold(const us_kernel *k, const us_request *request, us_stamp stamp,
                       us_outcome *outcome);
enum us_reason us_touch(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome);
enum us_reason us_claim(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome);
enum us_reason us_renew(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome);
enum us_reason us_release(const us_kernel *k, const us_request *request, us_stamp stamp,
                          us_outcome *outcome);

/* work.c */
enum us_reason us_close_issue(const us_kernel *k, const us_request *request, us_stamp stamp,
                              us_outcome *outcome);

/* view.c */
bool us_project(const us_kernel *k, const us_issue *settled, int64_t wall_ms,
                us_projection *projection);
void us_put_projection(us_writer *w, const us_kernel *k, const us_projection *projection,
                       int64_t wall_ms);
void us_put_issue_view(us_writer *w, const us_issue *issue, const us_outcome *outcome,
                       us_stamp stamp);
void us_put_answer_text(us_writer *w, int64_t wall_ms);
void us_put_record_text(us_writer *w, int64_t wall_ms);

/* changes.c; where in the row the answer is remembered, or 0 */
uint32_t us_put_changes(us_writer *w, const us_kernel *k, const us_request *request,
                        const us_outcome *outcome, us_stamp stamp, const char *args_digest);

/* envelope.c */
void us_seal(us_pen *pen, us_kernel *k, const us_request *request, const us_outcome *outcome,
             us_stamp stamp, const us_projection *projection, us_row *row);
void us_close_chain(us_pen *pen, us_kernel *k);

/* state.c; `us_open` for those who asked the processor already */
us_kernel *us_open_on(uint32_t sha256_path, const us_setup *setup, const uint8_t *text,
                      uint64_t len);
void us_own_documents(us_kernel *k);
void us_apply(us_kernel *k, const us_request *request, const us_outcome *outcome, us_stamp stamp);
void us_untouch(us_kernel *k, us_issue *issue);

#endif
