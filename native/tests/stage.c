/* A kernel to try things with, what it was asked last, and whether it is sound. */

#include "stage.h"

#include "check.h"

#include <string.h>

static uint8_t out[OUT_MAX];
static uint8_t steps[OUT_MAX];
static uint8_t answers[OUT_MAX];
static uint8_t answered[OUT_MAX];

us_row row;
us_room room = {&row, out, OUT_MAX, steps, OUT_MAX, answers, OUT_MAX, answered, OUT_MAX};

us_kernel *fresh(uint32_t answers_max, uint32_t ids_max)
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
    static uint32_t path = UINT32_MAX; /* fuzzers come often, and the answer takes its time */
    char text[1024];
    size_t len = 0;

    for (uint32_t i = 0; i < US_ACTION_COUNT; i++) {
        setup.lens[i * (size_t)US_ACTION_TEXT_COUNT] = (uint32_t)strlen(actions[i]);
        len += (size_t)snprintf(text + len, sizeof text - len, "%s", actions[i]);
    }
    for (uint32_t i = 0; i < US_REASON_COUNT; i++) {
        uint32_t at = US_ACTION_COUNT * US_ACTION_TEXT_COUNT + US_SHARED_TEXT_COUNT + 2 * i;
        setup.lens[at] = (uint32_t)snprintf(text + len, sizeof text - len, "R%u", i);
        len += setup.lens[at];
    }
    if (path == UINT32_MAX)
        path = us_sha256_best();
    us_kernel *k = us_open_on(path, &setup, (const uint8_t *)text, len);
    CHECK(k != NULL);
    us_head head = {0};
    memset(head.digest, '0', sizeof head.digest);
    memcpy(head.digest, "row1_", 5);
    memset(head.state_digest, '0', sizeof head.state_digest);
    memcpy(head.state_digest, "st1_", 4);
    us_set_head(k, &head);
    us_set_policy(k, 1);
    return k;
}

void put(us_kernel *k, const char *id, uint32_t status, uint32_t flags, const char *assignee,
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

uint32_t ask(us_kernel *k, const char *line)
{
    return ask_bytes(k, line, strlen(line));
}

uint32_t ask_bytes(us_kernel *k, const char *line, size_t len)
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

bool says(const char *text)
{
    answers[row.answer_end - 1] = 0; /* in place of the line break */
    return strstr((const char *)answers, text) != NULL;
}

void check_invariants(const us_kernel *k)
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

uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
