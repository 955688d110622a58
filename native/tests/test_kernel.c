/* The kernel at the edges of its room, under a random walk with its invariants looked at after
 * every line. What rows say is compared with the reference in tests/native/test_kernel.py. */

#include "../kernel.h"
#include "check.h"

#include <string.h>

#define NOW_MS 1800000000000
#define OUT_MAX 65536

static void lines_are_decided_in_order(void);
static void every_cut_of_a_line_is_cold(void);
static void every_smaller_room_is_refused_without_a_trace(void);
static void no_room_for_leases_is_cold_until_there_is_some(void);
static void request_ids_are_remembered_and_forgotten(void);
static void too_many_stale_leases_are_cold(void);
static void torn_issues_are_cold_and_listed(void);
static void settling_gives_the_last_word_in_any_room(void);
static void a_setup_that_lies_is_refused(void);
static void a_walk_keeps_the_invariants(void);

static uint64_t smallest(uint64_t *part_max);
static bool settles(us_kernel *k, size_t room_len, const char *text);
static us_kernel *fresh(uint32_t answers_max, uint32_t ids_max);
static void put(us_kernel *k, const char *id, uint32_t status, uint32_t flags, const char *assignee,
                int64_t fence, int64_t deadline_ms);
static uint32_t ask(us_kernel *k, const char *line);
static uint32_t ask_bytes(us_kernel *k, const char *line, size_t len);
static bool says(const char *text);
static void check_invariants(const us_kernel *k);
static uint32_t next_random(uint64_t *state);

static us_row row;
static uint8_t out[OUT_MAX];
static uint8_t steps[OUT_MAX];
static us_room room = {&row, out, OUT_MAX, steps, OUT_MAX};

#define CLAIM "{\"action\":\"issue.claim\",\"payload\":{\"assignee\":\"ada\",\"id\":\"a-1\"}}"
#define HOLDER "\"assignee\":\"ada\",\"fence\":1,\"id\":\"a-1\",\"leaseId\":\"lease1_a-1_ada_1\""

int main(void)
{
    lines_are_decided_in_order();
    every_cut_of_a_line_is_cold();
    every_smaller_room_is_refused_without_a_trace();
    no_room_for_leases_is_cold_until_there_is_some();
    request_ids_are_remembered_and_forgotten();
    too_many_stale_leases_are_cold();
    torn_issues_are_cold_and_listed();
    settling_gives_the_last_word_in_any_room();
    a_setup_that_lies_is_refused();
    a_walk_keeps_the_invariants();
    printf("sanitize: kernel\n");
    return 0;
}

static void lines_are_decided_in_order(void)
{
    us_kernel *k = fresh(8, 64);

    put(k, "a-1", US_OPEN, 0, "", 0, 0);
    CHECK(ask(k, CLAIM) == US_STOP_END && row.seq == 1);
    CHECK(says("\"leaseId\":\"lease1_a-1_ada_1\""));
    CHECK(
        ask(k, "{\"action\":\"issue.claim\",\"payload\":{\"assignee\":\"bob\",\"id\":\"a-1\"}}") ==
        US_STOP_END);
    CHECK(says("ada until 2027-01-15T09:00:00+00:00"));
    CHECK(ask(k, "{\"action\":\"issue.lease_renew\",\"payload\":{" HOLDER "}}") == US_STOP_END);
    CHECK(says("\"renewedAt\""));
    CHECK(ask(k, "{\"action\":\"issue.close\",\"payload\":{" HOLDER ",\"reason\":\"\\n\"}}") ==
          US_STOP_END);
    CHECK(says("\"status\":\"closed") && row.counter == 3);
    CHECK(ask(k, "{\"action\":\"issue.lease_release\",\"payload\":{" HOLDER "}}") == US_STOP_END);
    CHECK(says("R61") && k->lease_count == 0);
    check_invariants(k);
    us_close(k);
}

/* Lines lie on the heap, so that a byte read behind them is noticed. */
static void every_cut_of_a_line_is_cold(void)
{
    us_kernel *k = fresh(8, 64);

    put(k, "a-1", US_OPEN, 0, "", 0, 0);
    for (size_t len = 0; len < strlen(CLAIM); len++) {
        char *cut = malloc(len + (len == 0));
        CHECK(cut != NULL);
        memcpy(cut, CLAIM, len);
        CHECK(ask_bytes(k, cut, len) == US_STOP_LINE);
        free(cut);
    }
    CHECK(k->head.seq == 0 && k->lease_count == 0); /* K2 */
    us_close(k);
}

static void every_smaller_room_is_refused_without_a_trace(void)
{
    CHECK(smallest(&room.out_max) == row.answer_end);
    CHECK(smallest(&room.steps_max) == row.step_end);
}

/* How much one part of the room must have, where the other is large. */
static uint64_t smallest(uint64_t *part_max)
{
    us_kernel *k = fresh(8, 64);
    const char *line = "{\"action\":\"issue.claim\",\"id\":\"m\",\"payload\":{\"assignee\":\"ada\","
                       "\"id\":\"a-1\",\"requestId\":\"r\"}}";
    uint64_t enough = 0;

    put(k, "a-1", US_OPEN, 0, "", 0, 0);
    for (*part_max = 0; ask(k, line) == US_STOP_OUT_FULL; *part_max = ++enough)
        CHECK(k->head.seq == 0 && k->lease_count == 0 && k->memory.count == 0); /* K2 */
    CHECK(k->head.seq == 1);
    check_invariants(k);
    us_close(k);
    *part_max = OUT_MAX;
    return enough;
}

static void no_room_for_leases_is_cold_until_there_is_some(void)
{
    us_kernel *k = fresh(8, 64);
    char id[16], line[128];
    uint32_t granted = 0;

    for (unsigned int i = 0; i < 200; i++) {
        snprintf(id, sizeof id, "a-%u", i);
        put(k, id, US_OPEN, 0, "", 0, 0);
    }
    for (unsigned int i = 0; i < 200; i++, granted++) {
        snprintf(line, sizeof line,
                 "{\"action\":\"issue.claim\",\"payload\":{\"assignee\":\"ada\",\"id\":\"a-%u\"}}",
                 i);
        uint32_t stop = ask(k, line);
        if (stop == US_STOP_ROOM) {
            CHECK(k->lease_count == k->lease_max);
            CHECK(us_reserve(k, 1) == US_SOUND);
            stop = ask(k, line);
        }
        CHECK(stop == US_STOP_END);
    }
    CHECK(k->lease_count == granted && us_reserve(k, UINT32_MAX) < 0);
    check_invariants(k);
    us_close(k);
}

static void request_ids_are_remembered_and_forgotten(void)
{
    us_kernel *k = fresh(3, 64);
    char line[160];
    static const unsigned int ids[] = {1, 2, 3, 1, 4, 2, 1, 3, 4, 5};
    static const bool seen[] = {false, false, false, true, false, true, false, true, true, false};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        snprintf(line, sizeof line,
                 "{\"action\":\"issue.close\",\"payload\":{\"id\":\"none\",\"requestId\":\"r%u\"}}",
                 ids[i]);
        CHECK(ask(k, line) == (seen[i] ? US_STOP_REPEAT : US_STOP_END));
    }
    us_remember(k, (const uint8_t *)"z", 1);
    CHECK(ask(k, "{\"action\":\"issue.close\",\"payload\":{\"id\":\"n\",\"requestId\":\"z\"}}") ==
          US_STOP_REPEAT);
    us_close(k);
}

static void too_many_stale_leases_are_cold(void)
{
    us_kernel *k = fresh(8, 2);
    char id[16];

    put(k, "a-1", US_OPEN, 0, "", 0, 0);
    for (unsigned int i = 0; i < 3; i++) {
        snprintf(id, sizeof id, "s-%u", 2 - i);
        put(k, id, US_IN_PROGRESS, 0, "bob", 5 + i, NOW_MS - 1 - i);
        if (i < 2)
            continue;
        CHECK(ask(k, CLAIM) == US_STOP_PROJECTION);
        put(k, "s-0", US_IN_PROGRESS, 0, "bob", 9, NOW_MS); /* on the tick it is live */
        CHECK(ask(k, CLAIM) == US_STOP_END);
        CHECK(says("\"staleCount\":2,\"staleIssueIds\":[\"s-1\",\"s-2\"]"));
    }
    us_close(k);
}

static void torn_issues_are_cold_and_listed(void)
{
    us_kernel *k = fresh(8, 64);

    put(k, "a-1", US_OPEN, 0, "", 0, 0);
    put(k, "t-2", US_OPEN, US_ISSUE_TORN, "bob", 3, NOW_MS + 1000);
    put(k, "t-1", US_IN_PROGRESS, US_ISSUE_TORN, "eve", 4, NOW_MS + 1000);
    CHECK(ask(k, "{\"action\":\"issue.close\",\"payload\":{\"id\":\"t-1\"}}") == US_STOP_ISSUE);
    CHECK(ask(k, CLAIM) == US_STOP_END);
    CHECK(says("\"contendedCount\":2,\"contendedIssueIds\":[\"t-1\",\"t-2\"]"));
    put(k, "t-2", US_OPEN, 0, "", 0, 0);
    CHECK(ask(k, CLAIM) == US_STOP_END);
    CHECK(says("\"contendedCount\":1,\"contendedIssueIds\":[\"t-1\"]"));
    check_invariants(k);
    us_close(k);
}

/* One issue is granted, one granted and dropped, one extended, and one put by the reference. */
static void settling_gives_the_last_word_in_any_room(void)
{
    static const char granted[] =
        "{\"change\":\"issue.set\",\"id\":\"a-1\",\"members\":{\"assignee\":\"ada\",\"attempts\":1,"
        "\"status\":\"in_progress\",\"updated_at\":\"2027-01-15T08:00:00Z\"}},{\"change\":\"lease."
        "put\","
        "\"lease\":{\"deadline_ms\":1800003600000,\"fence\":1,\"granted_ms\":1800000000000,\"lease_"
        "id\":"
        "\"lease1_a-1_ada_1\",\"owner\":\"ada\",\"renewals\":0,\"renewed_ms\":null,\"resource\":"
        "\"issue/a-1\",\"state\":\"active\",\"ttl_ms\":3600000}}";
    static const char dropped[] =
        "{\"change\":\"issue.set\",\"id\":\"a-2\",\"members\":{\"assignee\":\"\",\"attempts\":0,"
        "\"status\":\"open\",\"updated_at\":\"2027-01-15T08:00:00Z\"}},"
        "{\"change\":\"lease.dropped\",\"resource\":\"issue/a-2\"}";
    static const char extended[] =
        "{\"change\":\"lease.put\",\"lease\":{\"deadline_ms\":1800003600000,\"fence\":4,"
        "\"granted_ms\":1799999999000,\"lease_id\":\"L\",\"owner\":\"eve\",\"renewals\":1,"
        "\"renewed_ms\":1800000000000,\"resource\":\"issue/a-3\",\"state\":\"renewed\","
        "\"ttl_ms\":3600000}}";
    char whole[1400];
    size_t longest = strlen(granted);

    snprintf(whole, sizeof whole, "%s,%s,%s", extended, dropped, granted);
    for (size_t room_len = 0; room_len <= strlen(whole) + 2; room_len++) {
        us_kernel *k = fresh(8, 64);
        put(k, "a-1", US_OPEN, 0, "", 0, 0);
        put(k, "a-2", US_IN_PROGRESS, 0, "bob", 3, NOW_MS);
        put(k, "a-3", US_IN_PROGRESS, 0, "eve", 4, NOW_MS);
        put(k, "a-4", US_OPEN, 0, "", 0, 0);
        CHECK(ask(k, CLAIM) == US_STOP_END);
        CHECK(ask(k, "{\"action\":\"issue.lease_release\",\"payload\":{\"assignee\":\"bob\","
                     "\"fence\":3,\"id\":\"a-2\",\"leaseId\":\"L\"}}") == US_STOP_END);
        CHECK(ask(k, "{\"action\":\"issue.lease_renew\",\"payload\":{\"assignee\":\"eve\","
                     "\"fence\":4,\"id\":\"a-3\",\"leaseId\":\"L\"}}") == US_STOP_END);
        CHECK(ask(k, "{\"action\":\"issue.close\",\"payload\":{\"id\":\"a-4\"}}") == US_STOP_END);
        CHECK(k->touched_count == 4);
        put(k, "a-4", US_CLOSED, 0, "", 0, 0);
        CHECK(k->touched_count == 3);
        CHECK(settles(k, room_len, whole) == (room_len >= longest + 2));
        check_invariants(k);
        us_close(k);
    }
}

/* Whether settlements in such a room, one behind the other, say this; else one was refused. */
static bool settles(us_kernel *k, size_t room_len, const char *text)
{
    uint8_t *part = malloc(room_len + (room_len == 0));
    int64_t len;

    CHECK(part != NULL);
    while ((len = us_settle(k, part, room_len)) > 2) {
        CHECK(part[0] == '[' && part[len - 1] == ']' && len <= (int64_t)room_len);
        CHECK(strncmp(text, (const char *)part + 1, (size_t)len - 2) == 0);
        text += len - 2;
        CHECK(*text == (k->touched_count == 0 ? 0 : ','));
        text += *text == ',';
    }
    free(part);
    CHECK(len == 2 || (len == -US_OUT_FULL && k->touched_count != 0));
    return len == 2 && *text == 0;
}

static void a_setup_that_lies_is_refused(void)
{
    us_setup setup = {.answers_max = 1, .ids_max = 1};

    setup.lens[7] = 5;
    CHECK(us_open(&setup, (const uint8_t *)"four", 4) == NULL);
    CHECK(us_open(&setup, (const uint8_t *)"sixsix", 6) == NULL);
    setup.ids_max = US_IDS_MAX + 1;
    CHECK(us_open(&setup, (const uint8_t *)"fives", 5) == NULL);
    us_close(NULL);
}

static void a_walk_keeps_the_invariants(void)
{
    static const char *const actions[] = {"claim", "lease_renew", "lease_release", "close"};
    uint64_t seed = 42;
    us_kernel *k = fresh(64, 64);
    char id[16], line[320];
    uint32_t hot = 0;

    for (unsigned int step = 0; step < 20000; step++) {
        unsigned int issue = next_random(&seed) % 40;
        unsigned int action = next_random(&seed) % 4;
        snprintf(id, sizeof id, "a-%u", issue);
        if (next_random(&seed) % 8 == 0) {
            bool leased = next_random(&seed) % 2 == 0;
            uint32_t flags = next_random(&seed) % 4 == 0 && leased ? US_ISSUE_TORN : 0;
            put(k, id, leased ? US_IN_PROGRESS : US_OPEN, flags, leased ? "w1" : "", leased,
                NOW_MS + next_random(&seed) % 9 - 4);
            check_invariants(k);
            continue;
        }
        const us_issue *known =
            us_index_find(k, (us_bytes){(const uint8_t *)id, strlen(id)},
                          us_hash(k->setup.seed, (us_bytes){(const uint8_t *)id, strlen(id)}));
        const us_lease *lease = known == NULL ? NULL : us_issue_lease(k, known);
        snprintf(line, sizeof line,
                 "{\"action\":\"issue.%s\",\"payload\":{\"id\":\"%s\",\"assignee\":\"w%u\","
                 "\"fence\":%d,\"leaseId\":\"%.*s\",\"requestId\":\"r%u\"}}",
                 actions[action], id, next_random(&seed) % 2 + 1,
                 lease == NULL ? 1 : (int)lease->fence,
                 lease == NULL ? 0 : (int)lease->lease_id_len,
                 lease == NULL ? "" : (const char *)lease->lease_id, next_random(&seed) % 1000);
        CHECK(us_reserve(k, 1) == US_SOUND);
        hot += ask(k, line) == US_STOP_END;
        check_invariants(k);
    }
    CHECK(hot > 5000);
    us_close(k);
}

/* ---- what the tests stand on ------------------------------------------------------------------
 */

/* Texts that are short, and enough to tell which reason was given. */
static us_kernel *fresh(uint32_t answers_max, uint32_t ids_max)
{
    static const char *const actions[] = {"issue.claim", "issue.lease_renew", "issue.lease_release",
                                          "issue.close"};
    us_setup setup = {
        .seed = {1, 2},
        .now_ms_max = US_WALL_MS_MAX - 172800000,
        .ttl_seconds_min = 30,
        .ttl_seconds_max = 86400,
        .ttl_seconds_default = 3600,
        .answers_max = answers_max,
        .counter_max = 65535,
        .ids_max = ids_max,
        .doors = {15, 12, 12, 15},
    };
    char text[1024];
    size_t len = 0;

    for (uint32_t i = 0; i < US_ACTION_COUNT; i++) {
        setup.lens[i * US_ACTION_TEXT_COUNT] = (uint32_t)strlen(actions[i]);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", actions[i]);
    }
    for (uint32_t i = 0; i < US_REASON_COUNT; i++) {
        uint32_t at = US_ACTION_COUNT * US_ACTION_TEXT_COUNT + US_SHARED_TEXT_COUNT + 2 * i;
        setup.lens[at] = (uint32_t)snprintf(text + len, sizeof text - len, "R%u", i);
        len += setup.lens[at];
    }
    us_kernel *k = us_open(&setup, (const uint8_t *)text, len);
    CHECK(k != NULL);
    us_head head = {0};
    memset(head.digest, '0', sizeof head.digest);
    memset(head.state_digest, '0', sizeof head.state_digest);
    us_set_head(k, &head);
    us_set_policy(k, 1);
    return k;
}

static void put(us_kernel *k, const char *id, uint32_t status, uint32_t flags, const char *assignee,
                int64_t fence, int64_t deadline_ms)
{
    char text[256];
    us_record record = {
        .id_len = (uint32_t)strlen(id),
        .assignee_len = (uint32_t)strlen(assignee),
        .lease_id_len = fence == 0 ? 0 : 1,
        .status = status,
        .flags = flags,
        .fence = fence,
        .granted_ms = NOW_MS - 1000,
        .deadline_ms = deadline_ms,
    };
    record.middle_len = 10;
    snprintf(text, sizeof text, "%s%s%s%s", id, "\"status\":\"", assignee, fence == 0 ? "" : "L");
    CHECK(us_put_issue(k, &record, (const uint8_t *)text) == US_SOUND);
}

static uint32_t ask(us_kernel *k, const char *line)
{
    return ask_bytes(k, line, strlen(line));
}

static uint32_t ask_bytes(us_kernel *k, const char *line, size_t len)
{
    uint32_t lens[] = {(uint32_t)len};
    us_batch batch = {.count = 1, .door = US_MCP, .physical_ms = NOW_MS};
    int64_t seq = k->head.seq;

    if (k->head.counter > 60000)
        k->head.counter = 0; /* the tests have one millisecond for everything */
    int64_t count = us_dispatch(k, &batch, (const uint8_t *)line, lens, &room);
    CHECK(count == (batch.stop == US_STOP_END) && k->head.seq == seq + count);
    return batch.stop;
}

/* Whether the last answer has this text. */
static bool says(const char *text)
{
    out[row.answer_end] = 0;
    return strstr((const char *)out + row.response_at, text) != NULL;
}

/* K4 and K5, and that every record is found under its id. */
static void check_invariants(const us_kernel *k)
{
    uint32_t leased = 0, torn = 0, touched = 0, unused = 0;

    for (uint32_t i = 0; i < k->issue_count; i++) {
        const us_issue *issue = &k->issues[i];
        CHECK(us_index_find(k, us_issue_id(issue), issue->hash) == issue);
        const us_lease *lease = us_issue_lease(k, issue);
        leased += lease != NULL;
        torn += issue->torn_place != US_NONE;
        if (lease != NULL) {
            CHECK(lease->issue == i && k->heap[lease->place] == issue->lease);
            uint32_t parent = lease->place == 0 ? 0 : (lease->place - 1) / 2;
            CHECK(k->leases[k->heap[parent]].deadline_ms <= lease->deadline_ms);
        }
        if (issue->torn_place != US_NONE)
            CHECK(lease != NULL && k->torn[issue->torn_place] == i);
        touched += issue->touched != 0;
        CHECK((issue->touched != 0) == (issue->touched_place != US_NONE));
        if (issue->touched != 0)
            CHECK(k->touched[issue->touched_place] == i);
    }
    for (uint32_t i = k->lease_free; i != US_NONE; i = k->leases[i].issue)
        unused++;
    CHECK(leased == k->lease_count && torn == k->torn_count && touched == k->touched_count);
    CHECK(leased + unused == k->lease_max);
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
