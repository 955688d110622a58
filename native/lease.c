/* Who may act on a leased resource, and how a lease changes hands: the mirror of
 * `authority/law/lease.py`, in its order, with its names and its guard numbers.
 *
 * Torn records, subleases and open blockers never get here. Nothing here changes the kernel; what
 * is granted stands in the outcome until `us_apply` makes it so.
 */

#include "kernel.h"

#include <assert.h>
#include <string.h>

static bool is_live(const us_lease *lease, us_stamp stamp);
static void grant(const us_request *request, us_stamp stamp, us_outcome *outcome);
static void extend(const us_lease *lease, const us_request *request, us_outcome *outcome);
static enum us_reason obstacle(const us_kernel *k, const us_request *request, us_stamp stamp,
                               us_outcome *outcome);
static us_bytes derived_id(us_bytes issue_id, us_bytes owner, int64_t fence, us_outcome *outcome);
static void put_token(us_writer *w, us_bytes text);
static void drop(const us_lease *lease, us_outcome *outcome);
static enum us_reason deadline(const us_kernel *k, const us_request *request, us_stamp stamp,
                               us_outcome *outcome);

/* ---- the life of a lease ----------------------------------------------------------------------
 */

static bool is_live(const us_lease *lease, us_stamp stamp)
{
    return lease != NULL && stamp.wall_ms <= lease->deadline_ms;
}

static void grant(const us_request *request, us_stamp stamp, us_outcome *outcome)
{
    outcome->move = US_MOVE_GRANT;
    outcome->fence = stamp.seq;
    outcome->granted_ms = stamp.wall_ms;
    outcome->renewals = 0;
    outcome->owner = request->assignee;
    outcome->lease_id = us_trimmed(request->lease_id);
    if (outcome->lease_id.len == 0)
        outcome->lease_id = derived_id(request->id, request->assignee, stamp.seq, outcome);
}

static void extend(const us_lease *lease, const us_request *request, us_outcome *outcome)
{
    outcome->move = US_MOVE_EXTEND;
    outcome->fence = lease->fence;
    outcome->granted_ms = lease->granted_ms;
    outcome->renewals = lease->renewals + 1;
    outcome->owner = us_issue_assignee(request->issue);
    outcome->lease_id = (us_bytes){lease->lease_id, lease->lease_id_len};
}

/* ---- the ladder -------------------------------------------------------------------------------
 */

enum us_reason us_hold(const us_kernel *k, const us_request *request, us_stamp stamp,
                       us_outcome *outcome)
{
    const us_issue *issue = request->issue;
    if (issue == NULL) /* 1 */
        return US_REASON_LEASE_NOT_FOUND;
    if (issue->status == US_CLOSED) /* 2 */
        return US_REASON_ISSUE_CLOSED;
    const us_lease *lease = us_issue_lease(k, issue);
    if (lease == NULL) /* 3 */
        return US_REASON_LEASE_MISSING;
    outcome->fence = lease->fence;
    outcome->owner = us_issue_assignee(issue);
    if (!request->has_fence) /* 4 */
        return US_REASON_FENCE_MISSING;
    if (request->fence > lease->fence) { /* 5: never issued for it */
        outcome->detail = US_DETAIL_FENCES;
        return US_REASON_FENCE_UNKNOWN;
    }
    if (request->fence < lease->fence) { /* 6: a newer holder has it */
        outcome->detail = US_DETAIL_NEWER;
        return US_REASON_FENCE_STALE;
    }
    if (stamp.wall_ms > lease->deadline_ms) { /* 7: on the tick itself it still holds */
        outcome->detail = US_DETAIL_HELD;
        outcome->deadline_ms = lease->deadline_ms;
        return US_REASON_LEASE_STALE;
    }
    if (!us_same(request->assignee, outcome->owner)) /* 8 */
        return US_REASON_OWNER_MISMATCH;
    us_bytes lease_id = {lease->lease_id, lease->lease_id_len};
    if (!request->has_lease_id || !us_same(request->lease_id, lease_id)) /* 9 */
        return US_REASON_LEASE_ID_MISMATCH;
    /* 10 is about subleases, which are the reference's. */
    return US_REASON_NONE;
}

enum us_reason us_touch(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome)
{
    enum us_reason reason = us_hold(k, request, stamp, outcome);
    bool believes = request->lease_id.len != 0 || request->has_fence;
    if (reason == US_REASON_LEASE_MISSING && !believes)
        return US_REASON_NONE;
    return reason;
}

/* ---- claims -----------------------------------------------------------------------------------
 */

enum us_reason us_claim(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome)
{
    if (request->assignee.len == 0)
        return US_REASON_ASSIGNEE_INVALID;
    enum us_reason reason = deadline(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    const us_issue *issue = request->issue;
    if (issue == NULL)
        return US_REASON_LEASE_NOT_FOUND;
    if (issue->status == US_CLOSED)
        return US_REASON_ISSUE_CLOSED;
    reason = obstacle(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    const us_lease *lease = us_issue_lease(k, issue);
    if (is_live(lease, stamp))
        extend(lease, request, outcome);
    else
        grant(request, stamp, outcome);
    return US_REASON_NONE;
}

static enum us_reason obstacle(const us_kernel *k, const us_request *request, us_stamp stamp,
                               us_outcome *outcome)
{
    const us_issue *issue = request->issue;
    const us_lease *lease = us_issue_lease(k, issue);
    us_bytes assignee = us_issue_assignee(issue);

    if (is_live(lease, stamp)) {
        outcome->fence = lease->fence;
        if (!us_same(assignee, request->assignee)) {
            outcome->detail = US_DETAIL_HOLDER;
            outcome->owner = assignee;
            outcome->deadline_ms = lease->deadline_ms;
            return US_REASON_LEASE_CONTENDED;
        }
        if (request->has_fence && request->fence > lease->fence)
            return US_REASON_FENCE_UNKNOWN;
        if (request->has_fence && request->fence < lease->fence)
            return US_REASON_FENCE_STALE;
        return US_REASON_NONE;
    }
    if (lease == NULL && assignee.len != 0 && !us_same(assignee, request->assignee)) {
        outcome->detail = US_DETAIL_ASSIGNED;
        outcome->owner = assignee;
        return US_REASON_LEASE_CONTENDED;
    }
    assert((issue->flags & US_ISSUE_WAITING) == 0); /* it would be cold */
    if (issue->status == US_BLOCKED) {
        outcome->detail = US_DETAIL_BLOCKED;
        return US_REASON_ISSUE_BLOCKED;
    }
    return US_REASON_NONE;
}

static us_bytes derived_id(us_bytes issue_id, us_bytes owner, int64_t fence, us_outcome *outcome)
{
    us_writer w = us_writer_over(outcome->derived, sizeof outcome->derived);

    US_PUT(&w, "lease1_");
    put_token(&w, issue_id);
    us_put_byte(&w, '_');
    put_token(&w, owner);
    us_put_byte(&w, '_');
    us_put_integer(&w, fence);
    assert(!w.full); /* 7 + 128 + 1 + 64 + 1 + 16 */
    return (us_bytes){outcome->derived, (size_t)(w.at - w.begin)};
}

/* One underscore for each character that is none of a token's; the ones at the ends go. */
static void put_token(us_writer *w, us_bytes text)
{
    uint8_t token[128];
    size_t len = 0, begin = 0;

    assert(text.len <= sizeof token);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.at[i];
        if (byte >= 0x80 && byte < 0xc0)
            continue; /* the character has its underscore already */
        bool lower = byte >= 'a' && byte <= 'z', upper = byte >= 'A' && byte <= 'Z';
        bool other = (byte >= '0' && byte <= '9') || byte == '-';
        token[len++] = upper ? (uint8_t)(byte + 32) : lower || other ? byte : (uint8_t)'_';
    }
    while (len > 0 && token[len - 1] == '_')
        len--;
    while (begin < len && token[begin] == '_')
        begin++;
    if (begin == len)
        US_PUT(w, "anon");
    else
        us_put_raw(w, token + begin, len - begin);
}

/* ---- the holder's own moves -------------------------------------------------------------------
 */

enum us_reason us_renew(const us_kernel *k, const us_request *request, us_stamp stamp,
                        us_outcome *outcome)
{
    if (request->assignee.len == 0)
        return US_REASON_ASSIGNEE_INVALID;
    if (request->has_lease_id && us_trimmed(request->lease_id).len == 0)
        return US_REASON_LEASE_ID_MISMATCH;
    enum us_reason reason = deadline(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    int64_t deadline_ms = outcome->deadline_ms;
    reason = us_hold(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    outcome->deadline_ms = deadline_ms;
    extend(us_issue_lease(k, request->issue), request, outcome);
    return US_REASON_NONE;
}

enum us_reason us_release(const us_kernel *k, const us_request *request, us_stamp stamp,
                          us_outcome *outcome)
{
    enum us_reason reason = us_hold(k, request, stamp, outcome);
    if (reason != US_REASON_NONE)
        return reason;
    drop(us_issue_lease(k, request->issue), outcome);
    return US_REASON_NONE;
}

static void drop(const us_lease *lease, us_outcome *outcome)
{
    outcome->move = US_MOVE_RELEASE;
    outcome->fence = lease->fence;
}

/* ---- how long ---------------------------------------------------------------------------------
 */

static enum us_reason deadline(const us_kernel *k, const us_request *request, us_stamp stamp,
                               us_outcome *outcome)
{
    int64_t ttl_seconds = request->has_ttl ? request->ttl_seconds : k->setup.ttl_seconds_default;

    outcome->unnamed = true; /* these refusals name no issue */
    if (request->expires_at.len != 0 && request->has_ttl) {
        outcome->detail = US_DETAIL_BOTH;
        return US_REASON_EXPIRY_AMBIGUOUS;
    }
    if (request->expires_at.len == 0) {
        outcome->detail = US_DETAIL_TTL;
        if (ttl_seconds < k->setup.ttl_seconds_min || ttl_seconds > k->setup.ttl_seconds_max)
            return US_REASON_TTL_INVALID;
        outcome->deadline_ms = stamp.wall_ms + ttl_seconds * 1000;
    } else {
        outcome->detail = US_DETAIL_TEXT;
        outcome->deadline_ms =
            us_parse_ms((const char *)request->expires_at.at, request->expires_at.len);
        if (outcome->deadline_ms < 0)
            return US_REASON_EXPIRY_INVALID;
        int64_t ttl_ms = outcome->deadline_ms - stamp.wall_ms;
        if (ttl_ms < k->setup.ttl_seconds_min * 1000 || ttl_ms > k->setup.ttl_seconds_max * 1000)
            return US_REASON_EXPIRY_INVALID;
    }
    outcome->unnamed = false;
    outcome->detail = US_DETAIL_NAME;
    return US_REASON_NONE;
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

/* `strip`, for texts without spaces beyond ASCII at their ends. */
us_bytes us_trimmed(us_bytes text)
{
    while (text.len != 0 && text.at[0] == ' ') {
        text.at++;
        text.len--;
    }
    while (text.len != 0 && text.at[text.len - 1] == ' ')
        text.len--;
    return text;
}

/* Byte by byte; a text comes behind its own beginnings. */
bool us_before(us_bytes left, us_bytes right)
{
    size_t least = left.len < right.len ? left.len : right.len;
    int order = least == 0 ? 0 : memcmp(left.at, right.at, least);
    return order != 0 ? order < 0 : left.len < right.len;
}

bool us_same(us_bytes left, us_bytes right)
{
    return left.len == right.len && (left.len == 0 || memcmp(left.at, right.at, left.len) == 0);
}
