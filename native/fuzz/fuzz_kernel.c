/* Feeds the kernel whatever comes, and holds it to its invariants (lease.h, K1 to K5).
 *
 * The input is lines. One that begins with a brace is a request; lines that follow one another are
 * a batch. Of the others the first byte says what happens between batches:
 *
 *     p  an issue is put: id, status, flags, assignee, fence and deadline, a digit each
 *     m  a request id is remembered
 *     t  mutations are open, or not
 *     o  the size of the room in which every line is tried first
 *     s  what was decided is settled
 *     i  a kernel is replaced by what its image makes
 *     x  an image is patched, signed and imported: an offset of two bytes, and what stands there
 *
 * There are two kernels: one is asked in batches, the other line by line and first in a room that
 * may be too small. They must never differ in a byte. What the bytes should be is the question of
 * tests/native/test_kernel.py; here they must be chained.
 */

#include "../tests/check.h"
#include "../tests/stage.h"
#include "fuzz.h"

#include <string.h>

#define BATCH_MAX 64
#define ROOM_MAX 1048576
#define ANSWERS_MAX 4 /* so that request ids are forgotten, */
#define IDS_MAX 3     /* and projections too long */

typedef struct slice {
    const uint8_t *at;
    size_t len;
} slice;

typedef struct scene {
    us_kernel *many;   /* asked in batches */
    us_kernel *single; /* asked line by line */
    uint64_t small;    /* the room in which a line is tried first */
    slice lines[BATCH_MAX];
    uint32_t count;
} scene;

static void direct(scene *s, slice line);
static void put_one(scene *s, slice line);
static void flush(scene *s);
static void compare_lines(scene *s, uint32_t at, uint32_t handled, us_room *many);
static void compare_rows(const us_row *left, const us_room *from, const us_row *right);
static void check_row(const us_head *before, const us_row *handed);
static void ask_in_small_room(scene *s, slice line, us_batch *batch, int64_t *count);
static void ask_again(scene *s, slice line);
static int64_t ask_one(scene *s, slice line, us_batch *batch, const us_room *in);
static void settle_both(scene *s);
static void replace_many(scene *s);
static void patch_image(scene *s, slice line);
static uint8_t *image_of(const us_kernel *k, size_t *len);
static void check_same(const uint8_t *left, uint32_t left_at, uint32_t left_end,
                       const uint8_t *right, uint32_t right_at, uint32_t right_end);
static uint8_t byte_of(slice line, size_t at);
static uint32_t digit_of(slice line, size_t at, uint32_t below);
static void *heap(size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scene s = {.many = fresh(ANSWERS_MAX, IDS_MAX), .single = fresh(ANSWERS_MAX, IDS_MAX)};

    for (const uint8_t *end = data + size; data < end;) {
        const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
        slice line = {data, (size_t)((stop == NULL ? end : stop) - data)};
        data += line.len + (stop != NULL);
        if (byte_of(line, 0) == '{') {
            s.lines[s.count++] = line;
            if (s.count == BATCH_MAX)
                flush(&s);
        } else {
            flush(&s);
            direct(&s, line);
        }
    }
    flush(&s);
    settle_both(&s);
    replace_many(&s);
    us_close(s.many);
    us_close(s.single);
    return 0;
}

static void direct(scene *s, slice line)
{
    switch (byte_of(line, 0)) {
    case 'p':
        put_one(s, line);
        break;
    case 'm':
        us_remember(s->many, line.at + 1, line.len - 1);
        us_remember(s->single, line.at + 1, line.len - 1);
        break;
    case 't':
        us_set_policy(s->many, byte_of(line, 1) & 1);
        us_set_policy(s->single, byte_of(line, 1) & 1);
        break;
    case 'o':
        s->small = (uint64_t)byte_of(line, 1) * 16 + byte_of(line, 2) % 16;
        break;
    case 's':
        settle_both(s);
        break;
    case 'i':
        settle_both(s);
        replace_many(s);
        break;
    case 'x':
        settle_both(s);
        patch_image(s, line);
        break;
    default:
        break;
    }
}

/* What an authority would put: a torn issue has a lease, and what was decided is settled. */
static void put_one(scene *s, slice line)
{
    static const char *const names[] = {"", "ada", "bob", "\"", "z\xc3\xb6"};
    char id[] = {'a', '-', (char)('0' + digit_of(line, 1, 10)), 0};
    uint32_t status = digit_of(line, 2, 5), flags = digit_of(line, 3, 16);
    const char *assignee = names[digit_of(line, 4, 5)];
    int64_t fence = digit_of(line, 5, 10), deadline_ms = NOW_MS + digit_of(line, 6, 10) - 5;

    if (fence == 0)
        flags &= ~US_ISSUE_TORN;
    settle_both(s);
    put(s->many, id, status, flags, assignee, fence, deadline_ms);
    put(s->single, id, status, flags, assignee, fence, deadline_ms);
    check_invariants(s->many);
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static void flush(scene *s)
{
    static us_row rows[BATCH_MAX];
    /* To take these from the heap takes longest. */
    static uint8_t out[ROOM_MAX], steps[ROOM_MAX], answers[ROOM_MAX], answered[ROOM_MAX];
    us_room in = {rows,           out,      sizeof out,     steps, sizeof steps, answers,
                  sizeof answers, answered, sizeof answered};
    uint32_t at = 0;

    while (at < s->count) {
        us_batch batch = {.count = s->count - at, .door = US_MCP, .frozen = 1};
        uint32_t lens[BATCH_MAX];
        size_t len = 0;
        batch.physical_ms = NOW_MS;
        for (uint32_t i = at; i < s->count; i++)
            len += lens[i - at] = (uint32_t)s->lines[i].len;
        uint8_t *text = heap(len); /* of exact size, so that a byte read behind it is noticed */
        for (uint32_t i = at, to = 0; i < s->count; to += lens[i - at], i++)
            memcpy(text + to, s->lines[i].at, s->lines[i].len);
        CHECK(us_reserve(s->many, batch.count) == US_SOUND);
        int64_t handled = us_dispatch(s->many, &batch, text, lens, &in);
        free(text);
        check_invariants(s->many);
        CHECK(batch.stop != US_STOP_OUT_FULL && batch.stop != US_STOP_ROOM);
        CHECK((batch.stop == US_STOP_END) == (handled == batch.count));
        compare_lines(s, at, (uint32_t)handled, &in);
        at += (uint32_t)handled;
        if (at < s->count) { /* a cold line, for both */
            us_batch one = {.stop = US_STOP_END};
            CHECK(ask_one(s, s->lines[at], &one, &room) == 0 && one.stop == batch.stop);
            at++;
        }
        CHECK(memcmp(&s->many->head, &s->single->head, sizeof s->many->head) == 0);
    }
    s->count = 0;
}

static void compare_lines(scene *s, uint32_t at, uint32_t handled, us_room *many)
{
    for (uint32_t i = 0; i < handled; i++) {
        us_batch batch = {.stop = US_STOP_END};
        us_head before = s->single->head;
        int64_t count = 0;
        ask_in_small_room(s, s->lines[at + i], &batch, &count);
        if (batch.stop == US_STOP_OUT_FULL)
            count = ask_one(s, s->lines[at + i], &batch, &room);
        CHECK(count == 1 && batch.stop == US_STOP_END);
        check_row(&before, &row);
        compare_rows(&many->rows[i], many, &row);
        check_same(many->answers, i == 0 ? 0 : many->rows[i - 1].answer_end,
                   many->rows[i].answer_end, room.answers, 0, row.answer_end);
        check_invariants(s->single);
        if (row.answered_at != 0)
            ask_again(s, s->lines[at + i]);
    }
}

static void compare_rows(const us_row *left, const us_room *from, const us_row *right)
{
    CHECK(left->seq == right->seq && left->wall_ms == right->wall_ms);
    CHECK(left->counter == right->counter);
    CHECK((left->answered_at == 0) == (right->answered_at == 0));
    CHECK(memcmp(left->digest, right->digest, sizeof left->digest) == 0);
    CHECK(memcmp(left->state_digest, right->state_digest, sizeof left->state_digest) == 0);
    check_same(from->out, left->request_at, left->request_end, room.out, right->request_at,
               right->request_end);
    check_same(from->out, left->changes_at, left->response_end, room.out, right->changes_at,
               right->response_end);
    check_same(from->steps, left->step_at, left->step_end, room.steps, right->step_at,
               right->step_end);
}

/* The digests of a row, found once more from what was handed out. */
static void check_row(const us_head *before, const us_row *handed)
{
    static const char behind[] = ",\"finishedAt\":\"";
    const uint8_t *changes = room.out + handed->changes_at;
    size_t changes_len = handed->response_at - handed->changes_at;
    char digest[US_DIGEST_TEXT_MAX];

    CHECK(handed->seq == before->seq + 1 && room.steps[handed->step_end - 1] == '\n');
    if (changes_len == 2) {
        CHECK(memcmp(handed->state_digest, before->state_digest, US_STATE_DIGEST_LEN) == 0);
    } else {
        uint8_t *chained = heap(US_STATE_DIGEST_LEN + changes_len);
        memcpy(chained, before->state_digest, US_STATE_DIGEST_LEN);
        memcpy(chained + US_STATE_DIGEST_LEN, changes, changes_len);
        CHECK(us_digest(US_SHA256_PORTABLE, "st1", chained, US_STATE_DIGEST_LEN + changes_len,
                        digest, sizeof digest) == US_STATE_DIGEST_LEN);
        CHECK(memcmp(handed->state_digest, digest, US_STATE_DIGEST_LEN) == 0);
        free(chained);
    }
    room.steps[handed->step_end - 1] = 0; /* so that it can be searched */
    const char *effect = (const char *)room.steps + handed->step_at + US_ROW_DIGEST_LEN + 11;
    const char *end = strstr(effect, behind);
    room.steps[handed->step_end - 1] = '\n';
    CHECK(end != NULL && memcmp(effect - 11, "\",\"effect\":", 11) == 0);
    CHECK(us_digest(US_SHA256_PORTABLE, "row1", (const uint8_t *)effect, (uint64_t)(end - effect),
                    digest, sizeof digest) == US_ROW_DIGEST_LEN);
    CHECK(memcmp(handed->digest, digest, US_ROW_DIGEST_LEN) == 0);
    CHECK(memcmp(effect - 11 - US_ROW_DIGEST_LEN, digest, US_ROW_DIGEST_LEN) == 0);
}

static void ask_in_small_room(scene *s, slice line, us_batch *batch, int64_t *count)
{
    us_room in = room;

    in.out = heap(s->small);
    in.out_max = s->small;
    *count = ask_one(s, line, batch, &in);
    if (*count == 1)
        memcpy(room.out, in.out, (size_t)batch->out_len);
    free(in.out);
}

/* K3: what was answered just now is known. */
static void ask_again(scene *s, slice line)
{
    us_batch batch = {.stop = US_STOP_END};
    us_row kept = row;

    CHECK(ask_one(s, line, &batch, &room) == 0);
    CHECK(batch.stop == US_STOP_REPEAT || batch.stop == US_STOP_CLOCK);
    row = kept;
}

/* K2: what is not handed out leaves no trace. */
static int64_t ask_one(scene *s, slice line, us_batch *batch, const us_room *in)
{
    us_kernel *k = s->single;
    us_head before = k->head;
    uint32_t leases = k->lease_count, ids = k->memory.count, touched = k->touched_count;
    uint32_t lens[] = {(uint32_t)line.len};
    uint8_t *text = heap(line.len);

    memcpy(text, line.at, line.len);
    CHECK(us_reserve(k, 1) == US_SOUND);
    *batch = (us_batch){.count = 1, .door = US_MCP, .frozen = 1, .physical_ms = NOW_MS};
    int64_t count = us_dispatch(k, batch, text, lens, in);
    CHECK(count == (batch->stop == US_STOP_END));
    if (count == 0) {
        CHECK(memcmp(&before, &k->head, sizeof before) == 0 && batch->out_len == 0);
        CHECK(leases == k->lease_count && ids == k->memory.count && touched == k->touched_count);
    }
    free(text);
    return count;
}

/* ---- between batches --------------------------------------------------------------------------
 */

static void settle_both(scene *s)
{
    static uint8_t left[OUT_MAX], right[OUT_MAX];
    int64_t len;

    do {
        len = us_settle(s->many, left, sizeof left);
        CHECK(len >= 2 && us_settle(s->single, right, sizeof right) == len);
        CHECK(memcmp(left, right, (size_t)len) == 0);
    } while (len > 2);
    CHECK(s->many->touched_count == 0 && s->single->touched_count == 0);
    check_invariants(s->many);
}

static void replace_many(scene *s)
{
    size_t len, other_len;
    uint8_t *image = image_of(s->many, &len), *other = image_of(s->single, &other_len);
    us_kernel *copy = fresh(ANSWERS_MAX, IDS_MAX);

    CHECK(len == other_len && memcmp(image, other, len) == 0);
    CHECK(us_import(copy, image, len) == US_SOUND);
    check_invariants(copy);
    us_close(s->many);
    s->many = copy;
    free(image);
    free(other);
}

/* Refused, or taken as it is; then it is asked something as well. */
static void patch_image(scene *s, slice line)
{
    size_t len, taken_len;
    uint8_t *image = image_of(s->single, &len);
    us_kernel *k = fresh(ANSWERS_MAX, IDS_MAX);
    size_t body = len - US_SHA256_SIZE;

    size_t at = ((size_t)byte_of(line, 1) << 8 | byte_of(line, 2)) % body;
    for (size_t i = 3; i < line.len; i++)
        image[(at + i - 3) % body] = line.at[i];
    us_sha256(US_SHA256_PORTABLE, image, body, image + body);
    if (us_import(k, image, len) == US_SOUND) {
        uint8_t *taken = image_of(k, &taken_len);
        CHECK(taken_len == len && memcmp(taken, image, len) == 0);
        free(taken);
        check_invariants(k);
        (void)ask(k,
                  "{\"action\":\"issue.claim\",\"payload\":{\"assignee\":\"ada\",\"id\":\"a-1\"}}");
        check_invariants(k);
    }
    us_close(k);
    free(image);
}

static uint8_t *image_of(const us_kernel *k, size_t *len)
{
    *len = (size_t)us_image_size(k);
    uint8_t *image = heap(*len);
    CHECK(us_export(k, image, *len) == (int64_t)*len);
    return image;
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

static void check_same(const uint8_t *left, uint32_t left_at, uint32_t left_end,
                       const uint8_t *right, uint32_t right_at, uint32_t right_end)
{
    CHECK(left_end - left_at == right_end - right_at);
    CHECK(memcmp(left + left_at, right + right_at, left_end - left_at) == 0);
}

/* 0 where the line is shorter. */
static uint8_t byte_of(slice line, size_t at)
{
    return at < line.len ? line.at[at] : 0;
}

/* Any byte is one; those of a decimal digit are what they seem. */
static uint32_t digit_of(slice line, size_t at, uint32_t below)
{
    return (uint8_t)(byte_of(line, at) - '0') % below;
}

static void *heap(size_t size)
{
    void *memory = malloc(size + (size == 0));
    CHECK(memory != NULL);
    return memory;
}
