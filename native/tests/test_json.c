/* The reader at the edges of its room, and the writer at the edges of its own. What documents mean
 * is compared with the reference in tests/native/test_json.py. */

#include "../json.h"
#include "../writer.h"
#include "check.h"
#include "sound.h"

#include <string.h>

static void members_are_found_and_strings_stay_in_place(void);
static void parts_are_written_without_their_key(void);
static void every_cut_of_a_document_is_refused(void);
static void every_smaller_room_is_refused_by_name(void);
static void every_smaller_answer_is_refused(void);
static void integers_of_any_size_are_written(void);
static void many_keys_are_sorted(void);
static void check_integer(int64_t number);
static const us_node *member(const us_json *doc, const us_node *object, const char *key);

static const char DOCUMENT[] = "{\"z\":[1,-2,{\"y\":null,\"x\":true}],\"a\\n\":\"\\u20ac\\\\\","
                               "\"plain\":\"z\xc3\xa9ro\",\"\":{},\"e\":[ ],\"b\":false}";
static const char CANONICAL[] = "{\"\":{},\"a\\n\":\"\xe2\x82\xac\\\\\",\"b\":false,\"e\":[],"
                                "\"plain\":\"z\xc3\xa9ro\",\"z\":[1,-2,{\"x\":true,\"y\":null}]}";

int main(void)
{
    members_are_found_and_strings_stay_in_place();
    parts_are_written_without_their_key();
    every_cut_of_a_document_is_refused();
    every_smaller_room_is_refused_by_name();
    every_smaller_answer_is_refused();
    integers_of_any_size_are_written();
    many_keys_are_sorted();
    printf("sanitize: json\n");
    return 0;
}

static void members_are_found_and_strings_stay_in_place(void)
{
    us_node nodes[16];
    uint8_t text[64];
    us_json doc = {.nodes = nodes, .node_max = 16, .text = text, .text_max = sizeof text};

    CHECK(us_json_read(&doc, (const uint8_t *)DOCUMENT, strlen(DOCUMENT)) == US_SOUND);
    CHECK(us_json_sound(&doc));
    const us_node *plain = member(&doc, &nodes[0], "plain");
    CHECK(plain != NULL && plain->kind == US_STRING && plain->as.string.len == 5);
    CHECK(us_json_string(&doc, plain) == (const uint8_t *)strstr(DOCUMENT, "z\xc3\xa9ro"));
    const us_node *escaped = member(&doc, &nodes[0], "a\n");
    CHECK(escaped != NULL && escaped->as.string.len == 4);
    CHECK(memcmp(us_json_string(&doc, escaped), "\xe2\x82\xac\\", 4) == 0);
    CHECK(us_json_string(&doc, escaped) >= text && us_json_string(&doc, escaped) < text + 64);
    CHECK(member(&doc, &nodes[0], "") != NULL);
    CHECK(member(&doc, &nodes[0], "absent") == NULL);
    CHECK(member(&doc, plain, "plain") == NULL);
}

static void parts_are_written_without_their_key(void)
{
    us_node nodes[16];
    uint8_t text[64], out[64];
    us_json doc = {.nodes = nodes, .node_max = 16, .text = text, .text_max = sizeof text};
    const char *expected = "[1,-2,{\"x\":true,\"y\":null}]";

    CHECK(us_json_read(&doc, (const uint8_t *)DOCUMENT, strlen(DOCUMENT)) == US_SOUND);
    us_writer w = us_writer_over(out, sizeof out);
    us_put_value(&w, &doc, member(&doc, &nodes[0], "z"));
    CHECK(!w.full && (size_t)(w.at - w.begin) == strlen(expected));
    CHECK(memcmp(out, expected, strlen(expected)) == 0);
}

/* Cuts lie on the heap, so that a byte read behind them is noticed. */
static void every_cut_of_a_document_is_refused(void)
{
    us_node nodes[64];
    uint8_t text[256];

    for (size_t len = 0; len < strlen(DOCUMENT); len++) {
        us_json doc = {.nodes = nodes, .node_max = 64, .text = text, .text_max = sizeof text};
        uint8_t *cut = malloc(len + (len == 0));
        CHECK(cut != NULL);
        memcpy(cut, DOCUMENT, len);
        CHECK(us_json_read(&doc, cut, len) != US_SOUND);
        free(cut);
    }
}

static void every_smaller_room_is_refused_by_name(void)
{
    uint64_t len = strlen(DOCUMENT);
    uint64_t enough = us_canonical_room(len);
    uint8_t out[sizeof DOCUMENT];
    int refused = 0;

    for (uint64_t size = 0; size <= enough; size++) {
        void *room = malloc(size + (size == 0));
        CHECK(room != NULL);
        int64_t got = us_canonical((const uint8_t *)DOCUMENT, len, room, size, out, sizeof out);
        if (got < 0)
            CHECK(got == -US_NODES_FULL || got == -US_TEXT_FULL);
        else
            CHECK(got == (int64_t)strlen(CANONICAL) && memcmp(out, CANONICAL, (size_t)got) == 0);
        refused += got < 0;
        if (size == enough)
            CHECK(got > 0);
        free(room);
    }
    CHECK(refused > 0);
    CHECK(us_canonical_room(UINT64_MAX) == 0);
    CHECK(us_canonical(NULL, (uint64_t)US_JSON_BYTES_MAX + 1, NULL, 0, NULL, 0) == -US_TOO_LONG);
}

static void every_smaller_answer_is_refused(void)
{
    uint64_t room[512];
    uint64_t len = strlen(DOCUMENT);

    for (uint64_t max = 0; max <= strlen(CANONICAL); max++) {
        uint8_t *out = malloc(max + (max == 0));
        CHECK(out != NULL);
        int64_t got = us_canonical((const uint8_t *)DOCUMENT, len, room, sizeof room, out, max);
        CHECK(got == (max < strlen(CANONICAL) ? -US_OUT_FULL : (int64_t)strlen(CANONICAL)));
        free(out);
    }
}

/* Four digits are cut without a division: each of them, in each place, and where lengths change. */
static void integers_of_any_size_are_written(void)
{
    for (int64_t four = 0; four < 10000; four++) {
        check_integer(four);
        check_integer(four * 10000 + 7);
        check_integer(four * 1000000000000 + four * 10000);
    }
    for (int64_t ten = 1; ten <= INT64_MAX / 10; ten *= 10) {
        for (int64_t near = -1; near <= 1; near++) {
            check_integer(ten * 10 + near);
            check_integer(-ten * 10 + near);
        }
    }
    check_integer(INT64_MAX);
    check_integer(INT64_MIN);
}

static void check_integer(int64_t number)
{
    char text[24];
    uint8_t out[24];
    size_t len = (size_t)snprintf(text, sizeof text, "%lld", (long long)number);

    us_writer w = us_writer_over(out, len);
    us_put_integer(&w, number);
    CHECK(!w.full && (size_t)(w.at - w.begin) == len && memcmp(out, text, len) == 0);
    w = us_writer_over(out, len - 1);
    us_put_integer(&w, number);
    us_put_byte(&w, '!');
    CHECK(w.full && w.at <= out + len - 1);
}

/* On both sides of the number of members up to which they are inserted, and far above it. */
static void many_keys_are_sorted(void)
{
    for (unsigned int count = 1; count <= 2000; count += count < 70 ? 1 : 193) {
        char *in = malloc(16 * (size_t)count + 2);
        us_node *nodes = malloc((count + 1) * sizeof *nodes);
        size_t len = 0;
        CHECK(in != NULL && nodes != NULL);
        in[len++] = '{';
        for (unsigned int i = 0; i < count; i++) {
            unsigned int shuffled = i * 7919 % 10007; /* a prime, so that no two are equal */
            len += (size_t)sprintf(in + len, "%s\"k%u\":%u", i == 0 ? "" : ",", shuffled, i % 10);
        }
        in[len++] = '}';
        us_json doc = {.nodes = nodes, .node_max = count + 1};
        CHECK(us_json_read(&doc, (const uint8_t *)in, len) == US_SOUND);
        CHECK(us_json_sound(&doc) && nodes[0].as.children.count == count);
        free(nodes);
        free(in);
    }
}

static const us_node *member(const us_json *doc, const us_node *object, const char *key)
{
    return us_json_find(doc, object, key, strlen(key));
}
