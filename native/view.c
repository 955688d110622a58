/* How records look in an answer: the mirror of `authority/law/view.py`. */

#include "kernel.h"

#include <assert.h>
#include <string.h>

static bool find_stale(const us_kernel *k, uint32_t settled, int64_t wall_ms,
                       us_projection *projection);
static bool find_contended(const us_kernel *k, uint32_t settled, int64_t wall_ms,
                           us_projection *projection);
static void sort_ids(const us_kernel *k, uint32_t *issues, uint32_t count);
static void put_ids(us_writer *w, const us_kernel *k, const uint32_t *issues, uint32_t count);
static void put_lease_view(us_writer *w, const us_outcome *outcome, us_stamp stamp);

/* ---- an issue ---------------------------------------------------------------------------------
 */

void us_put_issue_view(us_writer *w, const us_issue *issue, const us_outcome *outcome,
                       us_stamp stamp)
{
    static const char *const STATUS[] = {"", "in_progress", "in_progress", "open", "closed"};
    const uint8_t *front = issue->text + issue->id_len;
    const uint8_t *middle = front + issue->front_len;
    const char *status = STATUS[outcome->move];
    bool leased = outcome->move == US_MOVE_GRANT || outcome->move == US_MOVE_EXTEND;

    US_PUT(w, "{\"assignee\":\"");
    if (leased)
        us_put_bytes(w, outcome->owner);
    else if (outcome->move == US_MOVE_COMPLETE)
        us_put_bytes(w, us_issue_assignee(issue));
    US_PUT(w, "\",\"attempts\":");
    us_put_integer(w, issue->attempts + (outcome->move == US_MOVE_GRANT));
    us_put_byte(w, ',');
    us_put_raw(w, front, issue->front_len);
    if (leased)
        put_lease_view(w, outcome, stamp);
    us_put_raw(w, middle, issue->middle_len);
    us_put_raw(w, status, strlen(status));
    us_put_raw(w, middle + issue->middle_len, issue->back_len);
}

/* A lease that was granted or extended just now: it is live. */
static void put_lease_view(us_writer *w, const us_outcome *outcome, us_stamp stamp)
{
    US_PUT(w, "\"lease\":{\"acquiredAt\":\"");
    us_put_answer_text(w, outcome->granted_ms);
    US_PUT(w, "\",\"expiresAt\":\"");
    us_put_answer_text(w, outcome->deadline_ms);
    US_PUT(w, "\",\"fence\":");
    us_put_integer(w, outcome->fence);
    US_PUT(w, ",\"leaseId\":\"");
    us_put_bytes(w, outcome->lease_id);
    US_PUT(w, "\",\"owner\":\"");
    us_put_bytes(w, outcome->owner);
    if (outcome->move == US_MOVE_EXTEND) {
        US_PUT(w, "\",\"renewedAt\":\"");
        us_put_answer_text(w, stamp.wall_ms);
    }
    US_PUT(w, "\",\"state\":\"active\"},");
}

/* ---- all leases -------------------------------------------------------------------------------
 */

/* False where there are more than an answer lists: which of them are listed is the reference's. */
bool us_project(const us_kernel *k, const us_issue *settled, int64_t wall_ms,
                us_projection *projection)
{
    uint32_t issue = (uint32_t)(settled - k->issues);

    projection->stale_count = 0;
    projection->contended_count = 0;
    return find_stale(k, issue, wall_ms, projection) &&
           find_contended(k, issue, wall_ms, projection);
}

/* From the front of the heap, down every branch to the first lease that is live. */
static bool find_stale(const us_kernel *k, uint32_t settled, int64_t wall_ms,
                       us_projection *projection)
{
    uint32_t places[2 * (US_IDS_MAX + 2) + 1];
    uint32_t count = 0;

    if (k->lease_count != 0)
        places[count++] = 0;
    for (uint32_t i = 0; i < count; i++) {
        const us_lease *lease = &k->leases[k->heap[places[i]]];
        if (wall_ms <= lease->deadline_ms)
            continue;
        if (lease->issue != settled) {
            if (projection->stale_count == k->setup.ids_max)
                return false;
            projection->stale[projection->stale_count++] = lease->issue;
        }
        for (uint64_t child = 2 * (uint64_t)places[i] + 1; child <= 2 * (uint64_t)places[i] + 2;
             child++) {
            if (child < k->lease_count)
                places[count++] = (uint32_t)child;
        }
    }
    sort_ids(k, projection->stale, projection->stale_count);
    return true;
}

static bool find_contended(const us_kernel *k, uint32_t settled, int64_t wall_ms,
                           us_projection *projection)
{
    if (k->torn_count > k->setup.ids_max)
        return false;
    for (uint32_t i = 0; i < k->torn_count; i++) {
        const us_lease *lease = us_issue_lease(k, &k->issues[k->torn[i]]);
        assert(lease != NULL); /* K4 */
        if (k->torn[i] != settled && wall_ms <= lease->deadline_ms)
            projection->contended[projection->contended_count++] = k->torn[i];
    }
    sort_ids(k, projection->contended, projection->contended_count);
    return true;
}

static void sort_ids(const us_kernel *k, uint32_t *issues, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        uint32_t issue = issues[i], at = i;
        for (; at > 0 &&
               us_before(us_issue_id(&k->issues[issue]), us_issue_id(&k->issues[issues[at - 1]]));
             at--)
            issues[at] = issues[at - 1];
        issues[at] = issue;
    }
}

void us_put_projection(us_writer *w, const us_kernel *k, const us_projection *projection,
                       int64_t wall_ms)
{
    US_PUT(w, "{\"checkedAt\":\"");
    us_put_answer_text(w, wall_ms);
    US_PUT(w, "\",\"contendedCount\":");
    us_put_integer(w, projection->contended_count);
    US_PUT(w, ",\"contendedIssueIds\":[");
    put_ids(w, k, projection->contended, projection->contended_count);
    US_PUT(w, "],\"staleCount\":");
    us_put_integer(w, projection->stale_count);
    US_PUT(w, ",\"staleIssueIds\":[");
    put_ids(w, k, projection->stale, projection->stale_count);
    US_PUT(w, "]}");
}

static void put_ids(us_writer *w, const us_kernel *k, const uint32_t *issues, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0)
            us_put_byte(w, ',');
        us_put_byte(w, '"');
        us_put_bytes(w, us_issue_id(&k->issues[issues[i]]));
        us_put_byte(w, '"');
    }
}

/* ---- moments ----------------------------------------------------------------------------------
 */

void us_put_answer_text(us_writer *w, int64_t wall_ms)
{
    char text[US_MOMENT_TEXT_MAX];
    int64_t len = us_answer_text(wall_ms, text);

    assert(len > 0); /* every clock leaves room for the longest lease */
    us_put_raw(w, text, (size_t)len);
}

void us_put_record_text(us_writer *w, int64_t wall_ms)
{
    char text[US_MOMENT_TEXT_MAX];
    int64_t len = us_record_text(wall_ms, text);

    assert(len > 0);
    us_put_raw(w, text, (size_t)len);
}
