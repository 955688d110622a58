/* What is: the records that decisions depend on, and the only functions that change them.
 *
 * The mirror of `authority/law/state.py`, of which it keeps what the hot actions look at.
 */

#include "kernel.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static us_kernel *opened(uint32_t sha256_path, const us_setup *setup);
static bool take_texts(us_kernel *k, const us_setup *setup, const uint8_t *text, uint64_t len);
static bool open_memory(us_memory *memory, const uint64_t seed[2], uint32_t max);
static bool grow_issues(us_kernel *k);
static bool grow_leases(us_kernel *k, uint32_t lease_max);
static us_issue *added(us_kernel *k, us_bytes id, uint64_t hash);
static bool set_text(us_issue *issue, const us_record *record, const uint8_t *text);
static uint8_t foreign(const us_record *record, us_bytes assignee, us_bytes lease_id);
static void set_torn(us_kernel *k, us_issue *issue, bool torn);
static us_lease *granted(us_kernel *k, us_issue *issue);
static void drop_lease(us_kernel *k, us_issue *issue);
static void set_assignee(us_issue *issue, us_bytes assignee);
static void touch(us_kernel *k, us_issue *issue, unsigned int touched);

#define ISSUES_FIRST 64
#define LEASES_FIRST 64
#define COUNT_MAX 0x10000000u /* far above limits.ISSUES_MAX, far below any overflow */

/* ---- open and close ---------------------------------------------------------------------------
 */

us_kernel *us_open(const us_setup *setup, const uint8_t *text, uint64_t len)
{
    return us_open_on(us_sha256_best(), setup, text, len);
}

us_kernel *us_open_on(uint32_t sha256_path, const us_setup *setup, const uint8_t *text,
                      uint64_t len)
{
    us_kernel *k = opened(sha256_path, setup);

    if (k == NULL)
        return NULL;
    if (setup->ids_max > US_IDS_MAX || setup->answers_max > COUNT_MAX ||
        !take_texts(k, setup, text, len) ||
        !open_memory(&k->memory, setup->seed, setup->answers_max) ||
        !grow_leases(k, LEASES_FIRST) || !grow_issues(k)) {
        us_close(k);
        return NULL;
    }
    return k;
}

static us_kernel *opened(uint32_t sha256_path, const us_setup *setup)
{
    us_kernel *k = calloc(1, sizeof *k);

    if (k == NULL)
        return NULL;
    k->setup = *setup;
    k->sha256_path = sha256_path;
    k->lease_free = US_NONE;
    us_own_documents(k);
    return k;
}

/* The room for documents is part of the kernel: it stays behind when a kernel is copied. */
void us_own_documents(us_kernel *k)
{
    for (uint32_t i = 0; i < 2; i++)
        k->docs[i] = (us_json){.nodes = k->nodes[i],
                               .node_max = US_NODE_MAX,
                               .text = k->doc_text[i],
                               .text_max = sizeof k->doc_text[i]};
}

static bool take_texts(us_kernel *k, const us_setup *setup, const uint8_t *text, uint64_t len)
{
    uint64_t at = 0;

    k->text = malloc(len == 0 ? 1 : (size_t)len);
    if (k->text == NULL)
        return false;
    if (len != 0)
        memcpy(k->text, text, (size_t)len);
    for (uint32_t i = 0; i < US_TEXT_COUNT; i++) {
        if (setup->lens[i] > len - at)
            return false;
        k->texts[i] = (us_bytes){k->text + at, setup->lens[i]};
        at += setup->lens[i];
    }
    return at == len;
}

static bool open_memory(us_memory *memory, const uint64_t seed[2], uint32_t max)
{
    uint32_t slots = 4;

    while (slots / 2 < max)
        slots *= 2;
    memcpy(memory->seed, seed, sizeof memory->seed);
    memory->max = max;
    memory->mask = slots - 1;
    memory->ring = calloc(max == 0 ? 1 : max, sizeof *memory->ring);
    memory->slots = calloc(slots, sizeof *memory->slots);
    return memory->ring != NULL && memory->slots != NULL;
}

void us_close(us_kernel *k)
{
    if (k == NULL)
        return;
    for (uint32_t i = 0; i < k->issue_count; i++)
        free(k->issues[i].text);
    free(k->text);
    free(k->issues);
    free(k->index.slots);
    free(k->leases);
    free(k->heap);
    free(k->torn);
    free(k->touched);
    free(k->memory.ring);
    free(k->memory.slots);
    free(k);
}

/* ---- room -------------------------------------------------------------------------------------
 * A step that fails leaves what there was, and says so. */

static bool grow_issues(us_kernel *k)
{
    uint32_t issue_max = k->issue_max == 0 ? ISSUES_FIRST : 2 * k->issue_max;
    uint32_t slots = 2 * issue_max;

    if (issue_max > COUNT_MAX)
        return false;
    us_issue *issues = realloc(k->issues, issue_max * sizeof *issues);
    if (issues == NULL)
        return false;
    k->issues = issues;
    uint32_t *torn = realloc(k->torn, issue_max * sizeof *torn);
    if (torn == NULL)
        return false;
    k->torn = torn;
    uint32_t *touched = realloc(k->touched, issue_max * sizeof *touched);
    if (touched == NULL)
        return false;
    k->touched = touched;
    uint32_t *fresh = malloc(slots * sizeof *fresh);
    if (fresh == NULL)
        return false;
    memset(fresh, 0xff, slots * sizeof *fresh); /* US_NONE */
    free(k->index.slots);
    k->index = (us_index){fresh, slots - 1};
    k->issue_max = issue_max;
    for (uint32_t i = 0; i < k->issue_count; i++)
        us_index_add(k, i);
    return true;
}

static bool grow_leases(us_kernel *k, uint32_t lease_max)
{
    if (lease_max > COUNT_MAX)
        return false;
    us_lease *leases = realloc(k->leases, lease_max * sizeof *leases);
    if (leases == NULL)
        return false;
    k->leases = leases;
    uint32_t *heap = realloc(k->heap, lease_max * sizeof *heap);
    if (heap == NULL)
        return false;
    k->heap = heap;
    for (uint32_t i = lease_max; i > k->lease_max; i--) {
        k->leases[i - 1].issue = k->lease_free;
        k->lease_free = i - 1;
    }
    k->lease_max = lease_max;
    return true;
}

int64_t us_reserve(us_kernel *k, uint32_t leases)
{
    uint32_t lease_max = k->lease_max;

    if (leases > COUNT_MAX)
        return -US_TOO_LONG;
    while (lease_max - k->lease_count < leases)
        lease_max *= 2;
    if (lease_max != k->lease_max && !grow_leases(k, lease_max))
        return -US_OUT_FULL;
    return US_SOUND;
}

/* ---- what the reference knows -----------------------------------------------------------------
 */

int64_t us_put_issue(us_kernel *k, const us_record *record, const uint8_t *text)
{
    us_bytes id = {text, record->id_len};
    uint64_t hash = us_hash(k->setup.seed, id);
    size_t constant =
        (size_t)record->id_len + record->front_len + record->middle_len + record->back_len;
    us_bytes assignee = {text + constant, record->assignee_len};
    us_bytes lease_id = {assignee.at + assignee.len, record->lease_id_len};

    if (us_reserve(k, 1) != US_SOUND)
        return -US_OUT_FULL;
    us_issue *issue = us_index_find(k, id, hash);
    if (issue == NULL)
        issue = added(k, id, hash);
    if (issue == NULL || !set_text(issue, record, text))
        return -US_OUT_FULL;
    us_untouch(k, issue);
    issue->attempts = record->attempts;
    issue->status = (uint8_t)record->status;
    issue->flags = (uint8_t)record->flags | foreign(record, assignee, lease_id);
    set_assignee(issue, assignee);
    if (record->fence == 0) {
        drop_lease(k, issue);
        set_torn(k, issue, false);
        return US_SOUND;
    }
    us_lease *lease = granted(k, issue);
    lease->fence = record->fence;
    lease->granted_ms = record->granted_ms;
    lease->deadline_ms = record->deadline_ms;
    lease->renewals = record->renewals;
    lease->lease_id_len = lease_id.len <= US_LEASE_ID_MAX ? (uint32_t)lease_id.len : 0;
    memcpy(lease->lease_id, lease_id.at, lease->lease_id_len);
    us_heap_move(k, issue->lease);
    set_torn(k, issue, (issue->flags & US_ISSUE_TORN) != 0);
    return US_SOUND;
}

/* In the table as soon as its text is known, for its id is in there. */
static us_issue *added(us_kernel *k, us_bytes id, uint64_t hash)
{
    if (k->issue_count == k->issue_max && !grow_issues(k))
        return NULL;
    us_issue *issue = &k->issues[k->issue_count];
    *issue =
        (us_issue){.hash = hash, .lease = US_NONE, .torn_place = US_NONE, .touched_place = US_NONE};
    issue->text = malloc(id.len + 1);
    if (issue->text == NULL)
        return NULL;
    memcpy(issue->text, id.at, id.len);
    issue->id_len = (uint32_t)id.len;
    us_index_add(k, k->issue_count);
    k->issue_count++;
    return issue;
}

static bool set_text(us_issue *issue, const us_record *record, const uint8_t *text)
{
    size_t len = (size_t)record->id_len + record->front_len + record->middle_len + record->back_len;
    uint8_t *larger = realloc(issue->text, len + 1);

    if (larger == NULL)
        return false;
    memcpy(larger, text, len);
    issue->text = larger;
    issue->id_len = record->id_len;
    issue->front_len = record->front_len;
    issue->middle_len = record->middle_len;
    issue->back_len = record->back_len;
    return true;
}

/* What does not fit, or would need an escape, is left to the reference. */
static uint8_t foreign(const us_record *record, us_bytes assignee, us_bytes lease_id)
{
    bool fits = assignee.len <= US_ASSIGNEE_MAX && us_is_plain(assignee);

    if (record->status >= US_OTHER || record->attempts < 0 || record->attempts > INT32_MAX)
        fits = false;
    if (record->fence != 0) {
        fits = fits && lease_id.len <= US_LEASE_ID_MAX && us_is_plain(lease_id);
        fits = fits && record->granted_ms >= 0 && record->granted_ms <= US_WALL_MS_MAX;
        fits = fits && record->deadline_ms >= 0 && record->deadline_ms <= US_WALL_MS_MAX;
        fits = fits && record->renewals >= 0 && record->renewals < US_JSON_INTEGER_MAX;
    }
    return (uint8_t)(fits ? 0 : US_ISSUE_FOREIGN);
}

static void set_torn(us_kernel *k, us_issue *issue, bool torn)
{
    if (torn == (issue->torn_place != US_NONE))
        return;
    if (torn) {
        issue->torn_place = k->torn_count;
        k->torn[k->torn_count++] = (uint32_t)(issue - k->issues);
        return;
    }
    uint32_t last = k->torn[--k->torn_count];
    k->torn[issue->torn_place] = last;
    k->issues[last].torn_place = issue->torn_place;
    issue->torn_place = US_NONE;
}

void us_remember(us_kernel *k, const uint8_t *request_id, uint64_t len)
{
    us_memory_add(&k->memory, us_request_hash((us_bytes){request_id, (size_t)len}));
}

void us_set_policy(us_kernel *k, uint32_t open)
{
    k->open = open != 0;
}

void us_get_head(const us_kernel *k, us_head *head)
{
    *head = k->head;
}

void us_set_head(us_kernel *k, const us_head *head)
{
    k->head = *head;
}

/* ---- what was decided here --------------------------------------------------------------------
 */

void us_apply(us_kernel *k, const us_request *request, const us_outcome *outcome, us_stamp stamp)
{
    static const uint8_t TOUCHED[] = {0, US_TOUCHED_ISSUE | US_TOUCHED_LEASE, US_TOUCHED_LEASE,
                                      US_TOUCHED_ISSUE, US_TOUCHED_ISSUE}; /* by move */
    us_issue *issue = request->issue;

    if (request->request_id.len != 0)
        us_memory_add(&k->memory, request->request_hash);
    if (outcome->move == US_MOVE_NONE)
        return;
    touch(k, issue, TOUCHED[outcome->move]);
    if (outcome->move != US_MOVE_EXTEND)
        issue->updated_ms = stamp.wall_ms;
    if (outcome->move == US_MOVE_GRANT || outcome->move == US_MOVE_EXTEND) {
        us_lease *lease = granted(k, issue);
        if (outcome->move == US_MOVE_GRANT) {
            lease->lease_id_len = (uint32_t)outcome->lease_id.len;
            memcpy(lease->lease_id, outcome->lease_id.at, outcome->lease_id.len);
            set_assignee(issue, outcome->owner);
            issue->attempts++;
            issue->status = US_IN_PROGRESS;
        }
        lease->fence = outcome->fence;
        lease->granted_ms = outcome->granted_ms;
        lease->deadline_ms = outcome->deadline_ms;
        lease->renewals = outcome->renewals;
        lease->renewed_ms = outcome->move == US_MOVE_EXTEND ? stamp.wall_ms : US_NEVER;
        us_heap_move(k, issue->lease);
    } else if (outcome->move == US_MOVE_RELEASE) {
        drop_lease(k, issue);
        set_assignee(issue, (us_bytes){NULL, 0});
        issue->status = US_OPEN;
    } else if (outcome->move == US_MOVE_COMPLETE) {
        drop_lease(k, issue);
        issue->status = US_CLOSED;
    }
}

static void touch(us_kernel *k, us_issue *issue, unsigned int touched)
{
    if (issue->touched_place == US_NONE) {
        issue->touched_place = k->touched_count;
        k->touched[k->touched_count++] = (uint32_t)(issue - k->issues);
        touched |= issue->lease != US_NONE ? US_TOUCHED_HELD : 0;
    }
    issue->touched |= (uint8_t)touched;
}

void us_untouch(us_kernel *k, us_issue *issue)
{
    issue->touched = 0;
    if (issue->touched_place == US_NONE)
        return;
    uint32_t last = k->touched[--k->touched_count];
    k->touched[issue->touched_place] = last;
    k->issues[last].touched_place = issue->touched_place;
    issue->touched_place = US_NONE;
}

/* The lease of an issue, taken from the free ones where it has none. There is room for it. */
static us_lease *granted(us_kernel *k, us_issue *issue)
{
    if (issue->lease == US_NONE) {
        assert(k->lease_free != US_NONE);
        issue->lease = k->lease_free;
        us_lease *lease = &k->leases[issue->lease];
        k->lease_free = lease->issue;
        lease->issue = (uint32_t)(issue - k->issues);
        lease->deadline_ms = INT64_MAX; /* until its own is known */
        us_heap_add(k, issue->lease);
    }
    return &k->leases[issue->lease];
}

static void drop_lease(us_kernel *k, us_issue *issue)
{
    if (issue->lease == US_NONE)
        return;
    us_heap_drop(k, issue->lease);
    k->leases[issue->lease].issue = k->lease_free;
    k->lease_free = issue->lease;
    issue->lease = US_NONE;
}

/* One that is too long is not kept: the issue is foreign. */
static void set_assignee(us_issue *issue, us_bytes assignee)
{
    issue->assignee_len = assignee.len <= US_ASSIGNEE_MAX ? (uint8_t)assignee.len : 0;
    if (issue->assignee_len != 0)
        memcpy(issue->assignee, assignee.at, issue->assignee_len);
}
