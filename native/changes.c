/* Changes as bytes: those of one decision, as `authority/law/outcome.py` writes them, and those of
 * all decisions since the last settlement, taken together.
 */

#include "kernel.h"

#include <string.h>

/* What an `issue.set` says; `updated_at` is always among it. */
typedef struct members {
    const us_bytes *assignee; /* NULL where it stays */
    int64_t attempts;         /* below 0 where they stay */
    bool closed;
    enum us_status status;
    int64_t wall_ms;
} members;

/* What a `lease.put` says. */
typedef struct lease_terms {
    int64_t fence;
    int64_t granted_ms;
    int64_t deadline_ms;
    int64_t renewals;
    int64_t renewed_ms; /* or US_NEVER */
    us_bytes lease_id;
    us_bytes owner;
} lease_terms;

static void put_issue_set(us_writer *w, us_bytes id, const members *given);
static void put_lease(us_writer *w, us_bytes id, const lease_terms *terms);
static void put_lease_dropped(us_writer *w, us_bytes id);
static void put_answered(us_writer *w, us_bytes action, const us_request *request,
                         const char *args_digest, int64_t seq);
static void put_move(us_writer *w, const us_request *request, const us_outcome *outcome,
                     us_stamp stamp);
static void put_settled(us_writer *w, const us_kernel *k, const us_issue *issue);

/* ---- one decision -----------------------------------------------------------------------------
 */

uint32_t us_put_changes(us_writer *w, const us_kernel *k, const us_request *request,
                        const us_outcome *outcome, us_stamp stamp, const char *args_digest)
{
    uint32_t answered_at = 0;

    us_put_byte(w, '[');
    put_move(w, request, outcome, stamp);
    if (request->request_id.len != 0) {
        if (outcome->move != US_MOVE_NONE)
            us_put_byte(w, ',');
        answered_at = us_position(w);
        put_answered(w, us_action_bytes(k, request->action, US_TEXT_ACTION), request, args_digest,
                     stamp.seq);
    }
    us_put_byte(w, ']');
    return answered_at;
}

static void put_move(us_writer *w, const us_request *request, const us_outcome *outcome,
                     us_stamp stamp)
{
    members given = {.attempts = -1, .wall_ms = stamp.wall_ms};
    us_bytes none = {NULL, 0};
    lease_terms lease = {
        .fence = outcome->fence,
        .granted_ms = outcome->granted_ms,
        .deadline_ms = outcome->deadline_ms,
        .renewals = outcome->renewals,
        .renewed_ms = outcome->move == US_MOVE_EXTEND ? stamp.wall_ms : US_NEVER,
        .lease_id = outcome->lease_id,
        .owner = outcome->owner,
    };

    switch (outcome->move) {
    case US_MOVE_GRANT:
        given.assignee = &outcome->owner;
        given.attempts = request->issue->attempts + 1;
        given.status = US_IN_PROGRESS;
        put_issue_set(w, request->id, &given);
        us_put_byte(w, ',');
        put_lease(w, request->id, &lease);
        return;
    case US_MOVE_EXTEND:
        put_lease(w, request->id, &lease);
        return;
    case US_MOVE_RELEASE:
        given.assignee = &none;
        given.status = US_OPEN;
        break;
    case US_MOVE_COMPLETE:
        given.closed = true;
        given.status = US_CLOSED;
        break;
    case US_MOVE_NONE:
        return;
    }
    if (request->issue->lease != US_NONE) {
        put_lease_dropped(w, request->id);
        us_put_byte(w, ',');
    }
    put_issue_set(w, request->id, &given);
}

/* ---- many decisions ---------------------------------------------------------------------------
 */

int64_t us_settle(us_kernel *k, uint8_t *out, uint64_t out_max)
{
    if (out_max < 2)
        return -US_OUT_FULL;
    us_writer w = us_writer_over(out, (size_t)out_max - 1); /* the last bracket has its place */
    us_put_byte(&w, '[');
    while (k->touched_count != 0) {
        us_issue *issue = &k->issues[k->touched[k->touched_count - 1]];
        uint8_t *before = w.at;
        if (before != out + 1)
            us_put_byte(&w, ',');
        put_settled(&w, k, issue);
        if (w.full) {
            w.at = before;
            break;
        }
        us_untouch(k, issue);
    }
    if (k->touched_count != 0 && w.at == out + 1)
        return -US_OUT_FULL;
    *w.at++ = ']';
    return w.at - w.begin;
}

/* Of the issue and of its lease the last word, where there was one. */
static void put_settled(us_writer *w, const us_kernel *k, const us_issue *issue)
{
    us_bytes id = us_issue_id(issue), assignee = us_issue_assignee(issue);
    const us_lease *lease = us_issue_lease(k, issue);
    bool more = false;

    if ((issue->touched & US_TOUCHED_ISSUE) != 0) {
        members given = {.assignee = &assignee,
                         .attempts = issue->attempts,
                         .closed = issue->status == US_CLOSED,
                         .status = (enum us_status)issue->status,
                         .wall_ms = issue->updated_ms};
        put_issue_set(w, id, &given);
        more = true;
    }
    if (lease != NULL && (issue->touched & US_TOUCHED_LEASE) != 0) {
        lease_terms put = {.fence = lease->fence,
                           .granted_ms = lease->granted_ms,
                           .deadline_ms = lease->deadline_ms,
                           .renewals = lease->renewals,
                           .renewed_ms = lease->renewed_ms,
                           .lease_id = {lease->lease_id, lease->lease_id_len},
                           .owner = assignee};
        if (more)
            us_put_byte(w, ',');
        put_lease(w, id, &put);
    } else if (lease == NULL && (issue->touched & US_TOUCHED_HELD) != 0) {
        if (more)
            us_put_byte(w, ',');
        put_lease_dropped(w, id);
    }
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

static void put_issue_set(us_writer *w, us_bytes id, const members *given)
{
    static const char *const STATUS[] = {"open", "in_progress", "blocked", "closed"};
    const char *status = STATUS[given->status]; /* no other is hot */

    US_PUT(w, "{\"change\":\"issue.set\",\"id\":\"");
    us_put_bytes(w, id);
    US_PUT(w, "\",\"members\":{");
    if (given->assignee != NULL) {
        US_PUT(w, "\"assignee\":\"");
        us_put_bytes(w, *given->assignee);
        US_PUT(w, "\",");
    }
    if (given->attempts >= 0) {
        US_PUT(w, "\"attempts\":");
        us_put_integer(w, given->attempts);
        us_put_byte(w, ',');
    }
    if (given->closed) {
        US_PUT(w, "\"closed_at\":\"");
        us_put_record_text(w, given->wall_ms);
        US_PUT(w, "\",");
    }
    US_PUT(w, "\"status\":\"");
    us_put_raw(w, status, strlen(status));
    US_PUT(w, "\",\"updated_at\":\"");
    us_put_record_text(w, given->wall_ms);
    US_PUT(w, "\"}}");
}

static void put_lease(us_writer *w, us_bytes id, const lease_terms *terms)
{
    bool renewed = terms->renewed_ms != US_NEVER;

    US_PUT(w, "{\"change\":\"lease.put\",\"lease\":{\"deadline_ms\":");
    us_put_integer(w, terms->deadline_ms);
    US_PUT(w, ",\"fence\":");
    us_put_integer(w, terms->fence);
    US_PUT(w, ",\"granted_ms\":");
    us_put_integer(w, terms->granted_ms);
    US_PUT(w, ",\"lease_id\":\"");
    us_put_bytes(w, terms->lease_id);
    US_PUT(w, "\",\"owner\":\"");
    us_put_bytes(w, terms->owner);
    US_PUT(w, "\",\"renewals\":");
    us_put_integer(w, terms->renewals);
    US_PUT(w, ",\"renewed_ms\":");
    if (renewed)
        us_put_integer(w, terms->renewed_ms);
    else
        US_PUT(w, "null");
    US_PUT(w, ",\"resource\":\"issue/");
    us_put_bytes(w, id);
    if (renewed)
        US_PUT(w, "\",\"state\":\"renewed\",\"ttl_ms\":");
    else
        US_PUT(w, "\",\"state\":\"active\",\"ttl_ms\":");
    us_put_integer(w, terms->deadline_ms - (renewed ? terms->renewed_ms : terms->granted_ms));
    US_PUT(w, "}}");
}

static void put_lease_dropped(us_writer *w, us_bytes id)
{
    US_PUT(w, "{\"change\":\"lease.dropped\",\"resource\":\"issue/");
    us_put_bytes(w, id);
    US_PUT(w, "\"}");
}

static void put_answered(us_writer *w, us_bytes action, const us_request *request,
                         const char *args_digest, int64_t seq)
{
    US_PUT(w, "{\"action\":\"");
    us_put_bytes(w, action);
    US_PUT(w, "\",\"args_digest\":\"");
    us_put_raw(w, args_digest, US_ARGS_DIGEST_LEN);
    US_PUT(w, "\",\"change\":\"answered\",\"request_id\":\"");
    us_put_bytes(w, request->request_id);
    US_PUT(w, "\",\"seq\":");
    us_put_integer(w, seq);
    us_put_byte(w, '}');
}
