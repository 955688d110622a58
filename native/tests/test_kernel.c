/* The kernel at the edges of its room, under a random walk with its invariants looked at after
 * every line. What rows say is compared with the reference in tests/native/test_kernel.py. */

#include "check.h"
#include "stage.h"

#include <string.h>

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
    CHECK(smallest(&room.out_max) == row.response_end);
    CHECK(smallest(&room.steps_max) == row.step_end);
    CHECK(smallest(&room.answers_max) == row.answer_end);
    CHECK(smallest(&room.answered_max) == row.response_at - row.answered_at - 1);
}

/* How much one part of the room must have, where the others are large. */
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
