/* Feeds the JSON reader whatever comes, and holds it to its invariants.
 *
 * With libFuzzer this is an ordinary target. Built with US_FUZZ_MAIN it gets its main from
 * mutate.c, for compilers without libFuzzer.
 */

#include "../json.h"
#include "../sha256.h"
#include "../tests/check.h"
#include "../tests/sound.h"
#include "../writer.h"
#include "fuzz.h"

#include <string.h>

static void check_document(const uint8_t *in, size_t len);
static void check_rewritten(const uint8_t *canonical, size_t len);
static void check_small_rooms(const uint8_t *in, size_t len, size_t written);
static void check_moment(const uint8_t *in, size_t len);
static void *heap(size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *in = heap(size); /* of exact size, so that a byte read behind it is noticed */

    if (size != 0)
        memcpy(in, data, size);
    check_document(in, size);
    check_moment(in, size);
    free(in);
    return 0;
}

/* In a room for a node per byte, where nothing is refused for want of room. */
static void check_document(const uint8_t *in, size_t len)
{
    us_json doc = {
        .nodes = heap((len + 1) * sizeof(us_node)),
        .node_max = (uint32_t)len + 1,
        .text = heap(len),
        .text_max = (uint32_t)len,
    };
    uint8_t *out = heap(len);

    enum us_flaw flaw = us_json_read(&doc, in, len);
    CHECK(flaw != US_NODES_FULL && flaw != US_TEXT_FULL);
    if (flaw == US_SOUND) {
        us_writer w = us_writer_over(out, len);
        CHECK(us_json_sound(&doc));
        us_put_value(&w, &doc, &doc.nodes[0]);
        CHECK(!w.full); /* W3 */
        check_rewritten(out, (size_t)(w.at - w.begin));
        check_small_rooms(in, len, (size_t)(w.at - w.begin));
    }
    free(out);
    free(doc.text);
    free(doc.nodes);
}

/* Canonical bytes are their own canonical form, in the room that the header promises. */
static void check_rewritten(const uint8_t *canonical, size_t len)
{
    uint64_t room_size = us_canonical_room(len);
    void *room = heap(room_size);
    uint8_t *again = heap(len);

    CHECK(us_canonical(canonical, len, room, room_size, again, len) == (int64_t)len);
    CHECK(memcmp(canonical, again, len) == 0);
    free(again);
    free(room);
}

/* A room or an answer that is too small is refused by name, whatever its size. */
static void check_small_rooms(const uint8_t *in, size_t len, size_t written)
{
    uint64_t enough = us_canonical_room(len);
    uint64_t sizes[] = {enough, enough / 2, enough / 7, 26, 25, 0};
    uint8_t *out = heap(len);

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *room = heap(sizes[i]);
        int64_t got = us_canonical(in, len, room, sizes[i], out, len);
        CHECK(got == (int64_t)written || got == -US_NODES_FULL || got == -US_TEXT_FULL);
        CHECK(got == (int64_t)written || sizes[i] < enough);
        got = us_canonical(in, len, room, sizes[i], out, written - 1);
        CHECK(got == -US_OUT_FULL || got == -US_NODES_FULL || got == -US_TEXT_FULL);
        free(room);
    }
    free(out);
}

/* The same bytes as a moment: what is read can be written, and read back. */
static void check_moment(const uint8_t *in, size_t len)
{
    char text[US_MOMENT_TEXT_MAX];
    int64_t wall_ms = us_parse_ms((const char *)in, len);

    CHECK(wall_ms == -US_MOMENT_INVALID || (wall_ms >= 0 && wall_ms <= US_WALL_MS_MAX));
    if (wall_ms < 0)
        return;
    int64_t size = us_answer_text(wall_ms, text);
    CHECK(size > 0 && us_parse_ms(text, (uint64_t)size) == wall_ms);
}

static void *heap(size_t size)
{
    void *memory = malloc(size + (size == 0));
    CHECK(memory != NULL);
    return memory;
}
