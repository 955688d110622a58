/* The state of a kernel as one piece of bytes, and back.
 *
 *        0    8   US-IMAGE
 *        8    4   US_IMAGE_VERSION
 *       12    4   US_ABI
 *       16    8   the length of the whole
 *       24   32   SHA-256 of the texts of the setup: images of another contract are foreign
 *       56   24   head: seq, wall_ms, counter
 *       80  137   head: digest, state_digest
 *      217    1   whether mutations are open
 *      218    2   zero
 *      220    4   how many request ids are remembered
 *      224    4   how many issues there are
 *      228    4   zero
 *      232   8n   hashes of the request ids, oldest first
 *                 issues, ascending by id: the members of `us_record`, and the text behind it
 *      -32   32   SHA-256 of all bytes before
 *
 * Numbers have their lowest byte first. An image that is taken gives itself back, byte for byte:
 * there is one image for each state.
 */

#include "kernel.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_LEN 232
#define RECORD_LEN 72
#define WORDS 8   /* of 32 bits in a record, */
#define NUMBERS 5 /* and of 64 behind them */
#define MAGIC "US-IMAGE"

/* An issue, and the beginning of its id as a number: most are told apart by it. */
typedef struct place {
    uint64_t prefix;
    uint32_t issue;
} place;

typedef struct cursor {
    const uint8_t *at;
    const uint8_t *end;
    bool failed; /* once it has, everything taken is 0 */
} cursor;

static void put_header(us_writer *w, const us_kernel *k, uint64_t size);
static void put_record(us_writer *w, const us_kernel *k, const us_issue *issue);
static place *sorted(const us_kernel *k);
static void merge(const us_kernel *k, const place *from, place *to, uint32_t count, uint32_t run);
static bool comes_before(const us_kernel *k, const place *left, const place *right);
static uint64_t prefix_of(us_bytes id);
static void put_number(us_writer *w, uint64_t number, size_t bytes);

static int64_t check_frame(const us_kernel *k, const uint8_t *in, uint64_t len);
static int64_t take_all(us_kernel *k, cursor *c);
static bool is_head(const us_head *head);
static int64_t take_issue(us_kernel *k, cursor *c, us_bytes *last);
static us_record take_record(cursor *c);
static bool is_kept(const us_record *record);
static bool take_digest(cursor *c, const char *prefix, char *out, size_t len);
static uint64_t take_number(cursor *c, size_t bytes);
static us_bytes take_bytes(cursor *c, uint64_t len);
static void swap(us_kernel *left, us_kernel *right);
static void hash(const us_kernel *k, const uint8_t *data, size_t len, uint8_t *digest);
static us_bytes setup_text(const us_kernel *k);

/* ---- to bytes ---------------------------------------------------------------------------------
 */

uint64_t us_image_size(const us_kernel *k)
{
    uint64_t size = HEADER_LEN + 8 * (uint64_t)k->memory.count + US_SHA256_SIZE;

    for (uint32_t i = 0; i < k->issue_count; i++) {
        const us_issue *issue = &k->issues[i];
        const us_lease *lease = us_issue_lease(k, issue);
        size += RECORD_LEN + (uint64_t)issue->id_len + issue->front_len + issue->middle_len +
                issue->back_len + issue->assignee_len + (lease == NULL ? 0 : lease->lease_id_len);
    }
    return size;
}

int64_t us_export(const us_kernel *k, uint8_t *out, uint64_t out_max)
{
    uint64_t size = us_image_size(k);

    if (k->touched_count != 0)
        return -US_UNSETTLED;
    if (out_max < size)
        return -US_OUT_FULL;
    place *places = sorted(k);
    if (places == NULL)
        return -US_OUT_FULL;
    us_writer w = us_writer_over(out, (size_t)size - US_SHA256_SIZE);
    put_header(&w, k, size);
    for (uint32_t i = 0; i < k->memory.count; i++)
        put_number(&w, us_memory_at(&k->memory, i), 8);
    for (uint32_t i = 0; i < k->issue_count; i++)
        put_record(&w, k, &k->issues[places[i].issue]);
    free(places);
    hash(k, out, (size_t)(w.at - w.begin), w.at);
    return (int64_t)size;
}

static void put_header(us_writer *w, const us_kernel *k, uint64_t size)
{
    us_bytes text = setup_text(k);
    uint8_t contract[US_SHA256_SIZE];

    hash(k, text.at, text.len, contract);
    US_PUT(w, MAGIC);
    put_number(w, US_IMAGE_VERSION, 4);
    put_number(w, US_ABI, 4);
    put_number(w, size, 8);
    us_put_raw(w, contract, sizeof contract);
    put_number(w, (uint64_t)k->head.seq, 8);
    put_number(w, (uint64_t)k->head.wall_ms, 8);
    put_number(w, (uint64_t)k->head.counter, 8);
    us_put_raw(w, k->head.digest, sizeof k->head.digest);
    us_put_raw(w, k->head.state_digest, sizeof k->head.state_digest);
    put_number(w, k->open, 3);
    put_number(w, k->memory.count, 4);
    put_number(w, k->issue_count, 8);
}

/* What `us_put_issue` takes. What was too long to keep is not there, and the issue is foreign. */
static void put_record(us_writer *w, const us_kernel *k, const us_issue *issue)
{
    static const us_lease none;
    const us_lease *lease = issue->lease == US_NONE ? &none : us_issue_lease(k, issue);
    size_t len = (size_t)issue->id_len + issue->front_len + issue->middle_len + issue->back_len;
    const uint32_t words[WORDS] = {
        issue->id_len,       issue->front_len,    issue->middle_len, issue->back_len,
        issue->assignee_len, lease->lease_id_len, issue->status,     issue->flags,
    };
    const int64_t numbers[NUMBERS] = {
        issue->attempts, lease->fence, lease->granted_ms, lease->deadline_ms, lease->renewals,
    };

    for (size_t i = 0; i < WORDS; i++)
        put_number(w, words[i], 4);
    for (size_t i = 0; i < NUMBERS; i++)
        put_number(w, (uint64_t)numbers[i], 8);
    us_put_raw(w, issue->text, len);
    us_put_bytes(w, us_issue_assignee(issue));
    us_put_raw(w, lease->lease_id, lease->lease_id_len);
}

static void put_number(us_writer *w, uint64_t number, size_t bytes)
{
    uint8_t data[8];

    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(number >> 8 * i);
    us_put_raw(w, data, bytes);
}

/* ---- in order ---------------------------------------------------------------------------------
 * A merge sort, in runs of twice the length each time: no order of ids makes it slow. */

/* The issues ascending by id, to be freed; NULL without memory. */
static place *sorted(const us_kernel *k)
{
    uint32_t count = k->issue_count;
    place *from = calloc((size_t)count + 1, sizeof *from);
    place *to = calloc((size_t)count + 1, sizeof *to);

    if (from == NULL || to == NULL) {
        free(from);
        free(to);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++)
        from[i] = (place){prefix_of(us_issue_id(&k->issues[i])), i};
    for (uint32_t run = 1; run < count; run *= 2) {
        merge(k, from, to, count, run);
        place *merged = to;
        to = from;
        from = merged;
    }
    free(to);
    return from;
}

static void merge(const us_kernel *k, const place *from, place *to, uint32_t count, uint32_t run)
{
    for (uint32_t begin = 0; begin < count; begin += 2 * run) {
        uint32_t middle = run < count - begin ? begin + run : count;
        uint32_t end = run < count - middle ? middle + run : count;
        uint32_t left = begin, right = middle;
        for (uint32_t i = begin; i < end; i++) {
            bool second =
                left == middle || (right < end && comes_before(k, &from[right], &from[left]));
            to[i] = from[second ? right++ : left++];
        }
    }
}

static bool comes_before(const us_kernel *k, const place *left, const place *right)
{
    if (left->prefix != right->prefix)
        return left->prefix < right->prefix;
    return us_before(us_issue_id(&k->issues[left->issue]), us_issue_id(&k->issues[right->issue]));
}

/* The first eight bytes, the first one on top; what is missing counts as 0. */
static uint64_t prefix_of(us_bytes id)
{
    uint64_t prefix = 0;

    for (size_t i = 0; i < 8; i++)
        prefix = prefix << 8 | (i < id.len ? id.at[i] : 0);
    return prefix;
}

/* ---- from bytes -------------------------------------------------------------------------------
 */

/* The image is read into a kernel of its own, which takes the place of this one in the end. */
int64_t us_import(us_kernel *k, const uint8_t *in, uint64_t len)
{
    us_bytes text = setup_text(k);
    cursor c = {.at = in, .end = in + len};

    int64_t flaw = check_frame(k, in, len);
    if (flaw != US_SOUND)
        return flaw;
    us_kernel *fresh = us_open_on(k->sha256_path, &k->setup, text.at, text.len);
    if (fresh == NULL)
        return -US_OUT_FULL;
    flaw = take_all(fresh, &c);
    if (flaw == US_SOUND)
        swap(k, fresh);
    us_close(fresh);
    return flaw;
}

/* Whether these are the bytes that were written, and whether they are for us. */
static int64_t check_frame(const us_kernel *k, const uint8_t *in, uint64_t len)
{
    us_bytes text = setup_text(k);
    uint8_t digest[US_SHA256_SIZE];
    cursor c = {.at = in, .end = in + len};

    if (len < HEADER_LEN + US_SHA256_SIZE || memcmp(in, MAGIC, 8) != 0)
        return -US_IMAGE_DAMAGED;
    hash(k, in, (size_t)len - US_SHA256_SIZE, digest);
    if (memcmp(in + len - US_SHA256_SIZE, digest, sizeof digest) != 0)
        return -US_IMAGE_DAMAGED;
    (void)take_bytes(&c, 8);
    if (take_number(&c, 4) != US_IMAGE_VERSION || take_number(&c, 4) != US_ABI)
        return -US_IMAGE_FOREIGN;
    if (take_number(&c, 8) != len)
        return -US_IMAGE_DAMAGED;
    hash(k, text.at, text.len, digest);
    return memcmp(c.at, digest, sizeof digest) == 0 ? US_SOUND : -US_IMAGE_FOREIGN;
}

/* Into a kernel that is empty. Who can write a checksum can write anything: nothing is
 * believed that would do harm. */
static int64_t take_all(us_kernel *k, cursor *c)
{
    us_bytes last = {NULL, 0};
    us_head *head = &k->head;

    c->end -= US_SHA256_SIZE;
    (void)take_bytes(c, 56); /* was looked at */
    head->seq = (int64_t)take_number(c, 8);
    head->wall_ms = (int64_t)take_number(c, 8);
    head->counter = (int64_t)take_number(c, 8);
    bool sound = take_digest(c, "row1_", head->digest, sizeof head->digest) &&
                 take_digest(c, "st1_", head->state_digest, sizeof head->state_digest);
    uint64_t open = take_number(c, 3);
    uint64_t remembered = take_number(c, 4), issues = take_number(c, 8);
    if (!sound || !is_head(head) || open > 1 || remembered > k->memory.max)
        return -US_IMAGE_DAMAGED;
    k->open = open != 0;
    for (; remembered > 0; remembered--) {
        uint64_t id_hash = take_number(c, 8);
        if (id_hash == 0) /* also where the image ends too early */
            return -US_IMAGE_DAMAGED;
        us_memory_add(&k->memory, id_hash);
    }
    for (; issues > 0; issues--) {
        int64_t flaw = take_issue(k, c, &last);
        if (flaw != US_SOUND)
            return flaw;
    }
    return c->at == c->end ? US_SOUND : -US_IMAGE_DAMAGED;
}

/* A head from which the next one can be counted. */
static bool is_head(const us_head *head)
{
    return head->seq >= 0 && head->seq <= US_JSON_INTEGER_MAX && head->wall_ms >= 0 &&
           head->wall_ms <= US_WALL_MS_MAX && head->counter >= 0 && head->counter <= UINT32_MAX;
}

static int64_t take_issue(us_kernel *k, cursor *c, us_bytes *last)
{
    us_record record = take_record(c);
    us_bytes text = take_bytes(c, (uint64_t)record.id_len + record.front_len + record.middle_len +
                                      record.back_len + record.assignee_len + record.lease_id_len);
    us_bytes id = {text.at, record.id_len};
    bool first = k->issue_count == 0;

    if (c->failed || !is_kept(&record) || !(first || us_before(*last, id)))
        return -US_IMAGE_DAMAGED;
    *last = id;
    int64_t flaw = us_put_issue(k, &record, text.at);
    if (flaw != US_SOUND)
        return flaw;
    bool same = k->issues[k->issue_count - 1].flags == record.flags;
    return same ? US_SOUND : -US_IMAGE_DAMAGED;
}

/* The order of the members is that of the struct, which has no padding. */
static us_record take_record(cursor *c)
{
    uint32_t words[WORDS];
    int64_t numbers[NUMBERS];
    us_record record;

    _Static_assert(sizeof words + sizeof numbers == sizeof record, "these are its members");
    for (size_t i = 0; i < WORDS; i++)
        words[i] = (uint32_t)take_number(c, 4);
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = (int64_t)take_number(c, 8);
    memcpy(&record, words, sizeof words);
    memcpy((uint8_t *)&record + sizeof words, numbers, sizeof numbers);
    return record;
}

/* Whether all of it is kept as it is, so that it would be written the same way. */
static bool is_kept(const us_record *record)
{
    const uint32_t flags = US_ISSUE_FOREIGN | US_ISSUE_TORN | US_ISSUE_WAITING | US_ISSUE_AWAITED;

    if (record->assignee_len > US_ASSIGNEE_MAX || record->lease_id_len > US_LEASE_ID_MAX ||
        record->status > US_OTHER || (record->flags & ~flags) != 0)
        return false;
    if (record->fence != 0)
        return true;
    return (record->flags & US_ISSUE_TORN) == 0 && record->lease_id_len == 0 &&
           record->granted_ms == 0 && record->deadline_ms == 0 && record->renewals == 0;
}

static bool take_digest(cursor *c, const char *prefix, char *out, size_t len)
{
    us_bytes text = take_bytes(c, len);
    size_t at = strlen(prefix);

    if (c->failed || memcmp(text.at, prefix, at) != 0)
        return false;
    for (; at < len; at++) {
        if (strchr("0123456789abcdef", text.at[at]) == NULL || text.at[at] == 0)
            return false;
    }
    memcpy(out, text.at, len);
    return true;
}

static uint64_t take_number(cursor *c, size_t bytes)
{
    us_bytes data = take_bytes(c, bytes);
    uint64_t number = 0;

    for (size_t i = data.len; i > 0; i--)
        number = number << 8 | data.at[i - 1];
    return number;
}

static us_bytes take_bytes(cursor *c, uint64_t len)
{
    if (c->failed || len > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return (us_bytes){NULL, 0};
    }
    c->at += len;
    return (us_bytes){c->at - len, (size_t)len};
}

/* ---- the whole --------------------------------------------------------------------------------
 */

static void swap(us_kernel *left, us_kernel *right)
{
    us_kernel held = *left;

    *left = *right;
    *right = held;
    us_own_documents(left);
    us_own_documents(right);
}

static void hash(const us_kernel *k, const uint8_t *data, size_t len, uint8_t *digest)
{
    us_sha256(k->sha256_path, data, len, digest);
}

static us_bytes setup_text(const us_kernel *k)
{
    us_bytes last = k->texts[US_TEXT_COUNT - 1];
    return (us_bytes){k->text, (size_t)(last.at + last.len - k->text)};
}
