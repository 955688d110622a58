/* The doors of lease.h that lead to a single brick: what Python and the tests call. */

#include "lease.h"

#include "json.h"
#include "sha256.h"
#include "writer.h"

#include <string.h>

/* ---- canonical JSON ---------------------------------------------------------------------------
 */

uint64_t us_canonical_room(uint64_t len)
{
    if (len > US_JSON_BYTES_MAX)
        return 0;                                 /* refused before any room is used */
    return (len + 1) / 2 * sizeof(us_node) + len; /* J6 */
}

/* The room is nodes first, text behind them: in each 26 bytes one node and two bytes of text, as
 * the shortest values of a document have two bytes each. */
int64_t us_canonical(const uint8_t *in, uint64_t len, void *room, uint64_t room_size, uint8_t *out,
                     uint64_t out_max)
{
    if (len > US_JSON_BYTES_MAX)
        return -US_TOO_LONG;
    uint64_t enough = us_canonical_room(len);
    uint64_t usable = room_size < enough ? room_size : enough;
    uint64_t node_max =
        (usable + 1) / (sizeof(us_node) + 2); /* one byte is missing if len is odd */
    uint64_t node_size = node_max * sizeof(us_node);
    us_json doc = {
        .nodes = room,
        .node_max = (uint32_t)node_max,
        .text = (uint8_t *)room + node_size,
        .text_max = (uint32_t)(usable - node_size),
    };
    enum us_flaw flaw = us_json_read(&doc, in, (size_t)len);
    if (flaw != US_SOUND)
        return -(int64_t)flaw;
    us_writer w = us_writer_over(out, (size_t)out_max);
    us_put_value(&w, &doc, &doc.nodes[0]);
    return w.full ? -US_OUT_FULL : w.at - w.begin;
}

/* ---- digests ----------------------------------------------------------------------------------
 */

void us_sha256(uint32_t path, const uint8_t *in, uint64_t len, uint8_t *digest)
{
    us_sha256_lane lane;

    us_sha256_load(&lane, in, (size_t)len);
    us_sha256_finish(path, &lane, NULL);
    us_sha256_bytes(&lane, digest);
}

int64_t us_digest(uint32_t path, const char *prefix, const uint8_t *in, uint64_t len, char *out,
                  uint64_t out_max)
{
    us_sha256_lane lane;
    size_t prefix_len = strlen(prefix);

    if (prefix_len > US_PREFIX_MAX || out_max < prefix_len + 1 + 2 * (size_t)US_SHA256_SIZE)
        return -US_OUT_FULL;
    us_sha256_load(&lane, in, (size_t)len);
    us_sha256_finish(path, &lane, NULL);
    return (int64_t)us_sha256_text(&lane, prefix, prefix_len, out);
}
