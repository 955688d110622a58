/* Images of a kernel: there and back, in every wrong form, and without memory. */

#include "../kernel.h"
#include "check.h"
#include "stage.h"
#include "starve.h"

#include <string.h>

typedef struct image {
    uint8_t *data;
    size_t len;
} image;

static void a_walk_goes_on_from_its_image(void);
static void every_flipped_bit_is_refused(void);
static void every_other_length_is_refused(void);
static void whoever_signs_is_checked_all_the_same(void);
static void a_head_that_cannot_be_counted_from_is_refused(void);
static void what_is_not_settled_is_not_exported(void);
static void every_smaller_room_is_refused(void);
static void every_lack_of_memory_is_a_refusal(void);
static void opening_and_putting_without_memory_is_a_refusal(void);

static us_kernel *filled(void);
static void step(us_kernel *k, uint64_t *seed);
static void settle(us_kernel *k);
static image exported(const us_kernel *k);
static void sign(image *of);
static int64_t imported(us_kernel *k, const image *from, size_t len);
static void check_unchanged(const us_kernel *k, const image *before);

int main(void)
{
    a_walk_goes_on_from_its_image();
    every_flipped_bit_is_refused();
    every_other_length_is_refused();
    whoever_signs_is_checked_all_the_same();
    a_head_that_cannot_be_counted_from_is_refused();
    what_is_not_settled_is_not_exported();
    every_smaller_room_is_refused();
    every_lack_of_memory_is_a_refusal();
    opening_and_putting_without_memory_is_a_refusal();
    printf("sanitize: image\n");
    return 0;
}

/* The copy is asked what the original is asked, and says the same. */
static void a_walk_goes_on_from_its_image(void)
{
    us_kernel *k = filled();
    uint64_t seed = 3;

    for (int round = 0; round < 200; round++) {
        us_kernel *copy = fresh(16, 64);
        settle(k);
        image first = exported(k);
        CHECK(imported(copy, &first, first.len) == US_SOUND);
        check_invariants(copy);
        check_unchanged(copy, &first);
        uint64_t again = seed;
        for (int i = 0; i < 20; i++)
            step(k, &seed);
        for (int i = 0; i < 20; i++)
            step(copy, &again);
        CHECK(memcmp(&k->head, &copy->head, sizeof k->head) == 0);
        settle(k);
        settle(copy);
        image last = exported(k);
        check_unchanged(copy, &last);
        free(first.data);
        free(last.data);
        us_close(copy);
    }
    us_close(k);
}

static void every_flipped_bit_is_refused(void)
{
    us_kernel *k = filled(), *other = fresh(16, 64);
    image good = exported(k), empty = exported(other);

    for (size_t at = 0; at < good.len; at++) {
        for (unsigned int bit = 0; bit < 8; bit++) {
            good.data[at] ^= (uint8_t)(1u << bit);
            CHECK(imported(other, &good, good.len) == -US_IMAGE_DAMAGED);
            good.data[at] ^= (uint8_t)(1u << bit);
        }
    }
    check_unchanged(other, &empty);
    CHECK(imported(other, &good, good.len) == US_SOUND);
    free(good.data);
    free(empty.data);
    us_close(k);
    us_close(other);
}

static void every_other_length_is_refused(void)
{
    us_kernel *k = filled();
    image good = exported(k);
    image longer = {calloc(1, good.len + 1), good.len + 1};

    CHECK(longer.data != NULL);
    memcpy(longer.data, good.data, good.len);
    CHECK(imported(k, &longer, longer.len) == -US_IMAGE_DAMAGED);
    sign(&longer);
    CHECK(imported(k, &longer, longer.len) == -US_IMAGE_DAMAGED);
    for (size_t len = 0; len < good.len; len++) {
        CHECK(imported(k, &good, len) == -US_IMAGE_DAMAGED);
        if (len < US_SHA256_SIZE)
            continue;
        image shorter = {malloc(len), len};
        CHECK(shorter.data != NULL);
        memcpy(shorter.data, good.data, len);
        sign(&shorter);
        CHECK(imported(k, &shorter, len) == -US_IMAGE_DAMAGED);
        if (len > 24) { /* and with a length that says the same */
            for (size_t i = 0; i < 8; i++)
                shorter.data[16 + i] = (uint8_t)(len >> 8 * i);
            sign(&shorter);
            CHECK(imported(k, &shorter, len) < 0);
        }
        free(shorter.data);
    }
    check_unchanged(k, &good);
    free(good.data);
    free(longer.data);
    us_close(k);
}

/* What is taken is sound, and gives itself back. */
static void whoever_signs_is_checked_all_the_same(void)
{
    us_kernel *k = filled();
    image good = exported(k);
    static const uint8_t flips[] = {1, 128, 255};
    uint32_t taken = 0;

    for (size_t at = 0; at < good.len - US_SHA256_SIZE; at++) {
        for (size_t i = 0; i < sizeof flips; i++) {
            us_kernel *other = fresh(16, 64);
            image bad = {malloc(good.len), good.len};
            CHECK(bad.data != NULL);
            memcpy(bad.data, good.data, good.len);
            bad.data[at] ^= flips[i];
            sign(&bad);
            int64_t flaw = imported(other, &bad, bad.len);
            CHECK(flaw == US_SOUND || flaw == -US_IMAGE_DAMAGED || flaw == -US_IMAGE_FOREIGN);
            check_invariants(other);
            if (flaw == US_SOUND) {
                check_unchanged(other, &bad);
                uint64_t seed = at;
                step(other, &seed);
                taken++;
            }
            free(bad.data);
            us_close(other);
        }
    }
    CHECK(taken > 500);
    free(good.data);
    us_close(k);
}

static void a_head_that_cannot_be_counted_from_is_refused(void)
{
    static const struct {
        size_t at;
        int64_t number;
        bool taken;
    } cases[] = {
        {56, US_JSON_INTEGER_MAX, true}, {56, US_JSON_INTEGER_MAX + 1, false}, {56, -1, false},
        {64, US_WALL_MS_MAX, true},      {64, US_WALL_MS_MAX + 1, false},      {64, -1, false},
        {72, UINT32_MAX, true},          {72, (int64_t)UINT32_MAX + 1, false}, {72, -1, false},
    };
    us_kernel *k = filled();

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        us_kernel *other = fresh(16, 64);
        image bad = exported(k);
        for (size_t byte = 0; byte < 8; byte++)
            bad.data[cases[i].at + byte] = (uint8_t)((uint64_t)cases[i].number >> 8 * byte);
        sign(&bad);
        CHECK(imported(other, &bad, bad.len) == (cases[i].taken ? US_SOUND : -US_IMAGE_DAMAGED));
        free(bad.data);
        us_close(other);
    }
    us_close(k);
}

static void what_is_not_settled_is_not_exported(void)
{
    us_kernel *k = filled();
    uint8_t data[8192];

    put(k, "z", US_OPEN, 0, "", 0, 0);
    CHECK(us_export(k, data, sizeof data) == (int64_t)us_image_size(k));
    CHECK(ask(k, "{\"action\":\"issue.close\",\"payload\":{\"id\":\"z\"}}") == US_STOP_END);
    CHECK(us_export(k, data, sizeof data) == -US_UNSETTLED);
    settle(k);
    CHECK(us_export(k, data, sizeof data) == (int64_t)us_image_size(k));
    us_close(k);
}

static void every_smaller_room_is_refused(void)
{
    us_kernel *k = filled();

    for (uint64_t size = 0; size < us_image_size(k); size++) {
        uint8_t *data = malloc((size_t)size + (size == 0));
        CHECK(data != NULL);
        CHECK(us_export(k, data, size) == -US_OUT_FULL);
        free(data);
    }
    us_close(k);
}

static void every_lack_of_memory_is_a_refusal(void)
{
    us_kernel *k = filled(), *other = fresh(16, 64);
    image good = exported(k), empty = exported(other);
    int64_t flaw = -1, allocations = 0;

    for (; flaw != US_SOUND; allocations++) {
        us_starve_after = allocations;
        flaw = us_import(other, good.data, good.len);
        us_starve_after = -1;
        CHECK(flaw == US_SOUND || flaw == -US_OUT_FULL);
        check_invariants(other);
        check_unchanged(other, flaw == US_SOUND ? &good : &empty);
    }
    CHECK(allocations > 30);
    uint8_t *data = malloc(good.len);
    CHECK(data != NULL);
    for (allocations = 0; allocations < 2; allocations++) {
        us_starve_after = allocations;
        CHECK(us_export(k, data, good.len) == -US_OUT_FULL);
    }
    us_starve_after = -1;
    CHECK(us_export(k, data, good.len) == (int64_t)good.len);
    free(data);
    free(good.data);
    free(empty.data);
    us_close(k);
    us_close(other);
}

/* The header says what is left to do after a flaw: close it. */
static void opening_and_putting_without_memory_is_a_refusal(void)
{
    us_setup setup = {.seed = {1, 2}, .answers_max = 16, .ids_max = 1};
    us_kernel *k = NULL;
    bool all = false;

    for (int64_t allocations = 0; k == NULL; allocations++) {
        us_starve_after = allocations;
        k = us_open(&setup, NULL, 0);
    }
    for (int64_t allocations = 0; !all; allocations++) {
        us_close(k);
        us_starve_after = -1;
        k = us_open(&setup, NULL, 0);
        CHECK(k != NULL);
        us_starve_after = allocations;
        all = true;
        for (uint8_t i = 0; i < 200 && all; i++) {
            us_record record = {.id_len = 1, .fence = i + 1, .deadline_ms = i};
            int64_t flaw = us_put_issue(k, &record, &i);
            CHECK(flaw == US_SOUND || flaw == -US_OUT_FULL);
            all = flaw == US_SOUND;
        }
        CHECK(all || us_reserve(k, 4096) == -US_OUT_FULL);
    }
    us_starve_after = -1;
    CHECK(us_reserve(k, 4096) == US_SOUND);
    check_invariants(k);
    us_close(k);
}

/* ---- what the tests stand on ------------------------------------------------------------------
 */

/* Issues of every kind, put in no order, and ids that are remembered. */
static us_kernel *filled(void)
{
    us_kernel *k = fresh(16, 64);
    uint64_t seed = 1;
    char id[16];

    for (unsigned int i = 0; i < 12; i++) {
        snprintf(id, sizeof id, "a-%u", i * 7 % 12);
        put(k, id, US_OPEN, 0, "", 0, 0);
    }
    put(k, "a", US_OTHER, US_ISSUE_FOREIGN | US_ISSUE_AWAITED, "zoe", 7, NOW_MS - 5);
    put(k, "a-10000000", US_IN_PROGRESS, US_ISSUE_TORN, "zoe", 8, NOW_MS + 5);
    put(k, "a-10000001", US_CLOSED, US_ISSUE_WAITING, "", 0, 0);
    for (int i = 0; i < 40; i++)
        step(k, &seed);
    settle(k);
    return k;
}

static void step(us_kernel *k, uint64_t *seed)
{
    static const char *const actions[] = {"claim", "claim", "lease_release", "close"};
    char line[160];

    snprintf(line, sizeof line,
             "{\"action\":\"issue.%s\",\"payload\":{\"id\":\"a-%u\",\"assignee\":\"w%u\","
             "\"requestId\":\"r%u\"}}",
             actions[next_random(seed) % 4], next_random(seed) % 12, next_random(seed) % 2,
             next_random(seed) % 60);
    CHECK(us_reserve(k, 1) == US_SOUND);
    (void)ask(k, line);
}

static void settle(us_kernel *k)
{
    uint8_t text[4096];

    while (k->touched_count != 0)
        CHECK(us_settle(k, text, sizeof text) > 2);
}

static image exported(const us_kernel *k)
{
    image made = {.len = (size_t)us_image_size(k)};

    made.data = malloc(made.len);
    CHECK(made.data != NULL);
    CHECK(us_export(k, made.data, made.len) == (int64_t)made.len);
    return made;
}

/* With the checksum of what it is now. */
static void sign(image *of)
{
    size_t len = of->len - US_SHA256_SIZE;
    us_sha256(US_SHA256_PORTABLE, of->data, len, of->data + len);
}

/* In memory of exact size, so that a byte read behind it is noticed. */
static int64_t imported(us_kernel *k, const image *from, size_t len)
{
    uint8_t *exact = malloc(len + (len == 0));

    CHECK(exact != NULL);
    memcpy(exact, from->data, len);
    int64_t flaw = us_import(k, exact, len);
    free(exact);
    return flaw;
}

static void check_unchanged(const us_kernel *k, const image *before)
{
    image now = exported(k);

    CHECK(now.len == before->len && memcmp(now.data, before->data, now.len) == 0);
    free(now.data);
}
