/* Hash tables: issues by id, and request ids that were seen.
 *
 * Callers choose both kinds of ids, so where they stand depends on a seed that callers do not know.
 * The hash is SipHash-1-3.
 */

#include "kernel.h"

#include <string.h>

/* The tables are larger than a cache: who knows what he will look at lets it come. */
#if defined(__GNUC__)
#define US_FETCH(at) __builtin_prefetch(at)
#else
#define US_FETCH(at) ((void)(at))
#endif

static uint64_t rotate(uint64_t word, unsigned int by);
static void sip_round(uint64_t v[4]);
static uint32_t memory_home(const us_memory *memory, uint64_t hash);
static uint32_t memory_slot(const us_memory *memory, uint64_t hash);
static void memory_drop(us_memory *memory, uint64_t hash);

/* ---- the hash ---------------------------------------------------------------------------------
 */

uint64_t us_hash(const uint64_t seed[2], us_bytes bytes)
{
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    uint64_t word = 0;
    size_t at = 0;

    for (; bytes.len - at >= 8; at += 8) {
        memcpy(&word, bytes.at + at, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)bytes.len << 56;
    for (unsigned int shift = 0; at < bytes.len; at++, shift += 8)
        word |= (uint64_t)bytes.at[at] << shift;
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint64_t rotate(uint64_t word, unsigned int by)
{
    return word << by | word >> (64 - by);
}

/* ---- issues by id -----------------------------------------------------------------------------
 */

void us_index_fetch(const us_kernel *k, uint64_t hash)
{
    if (k->index.slots != NULL)
        US_FETCH(&k->index.slots[(uint32_t)hash & k->index.mask]);
}

/* The slot has come meanwhile, and says where the issue is; mostly it is that one. */
void us_issue_fetch(const us_kernel *k, uint64_t hash)
{
    if (k->index.slots == NULL)
        return;
    uint32_t slot = k->index.slots[(uint32_t)hash & k->index.mask];
    if (slot != US_NONE)
        US_FETCH(&k->issues[slot]);
}

us_issue *us_index_find(const us_kernel *k, us_bytes id, uint64_t hash)
{
    if (k->index.slots == NULL)
        return NULL;
    for (uint32_t i = (uint32_t)hash & k->index.mask;; i = (i + 1) & k->index.mask) {
        if (k->index.slots[i] == US_NONE)
            return NULL;
        us_issue *issue = &k->issues[k->index.slots[i]];
        if (issue->hash == hash && us_same(us_issue_id(issue), id))
            return issue;
    }
}

/* It is not there yet, and there is room: the index is never more than half full. */
void us_index_add(us_kernel *k, uint32_t issue)
{
    uint32_t i = (uint32_t)k->issues[issue].hash & k->index.mask;

    while (k->index.slots[i] != US_NONE)
        i = (i + 1) & k->index.mask;
    k->index.slots[i] = issue;
}

/* ---- request ids ------------------------------------------------------------------------------
 * Two ids with one hash are two entries; the later one is cold, and that is all (K3). */

/* The same everywhere, and never 0. Who finds ids with one hash slows only their own requests. */
uint64_t us_request_hash(us_bytes request_id)
{
    static const uint64_t PUBLIC[2] = {0, 0};
    uint64_t hash = us_hash(PUBLIC, request_id);
    return hash + (hash == 0);
}

void us_memory_fetch(const us_memory *memory, uint64_t hash)
{
    US_FETCH(&memory->slots[memory_home(memory, hash)]);
}

bool us_memory_has(const us_memory *memory, uint64_t hash)
{
    return memory->slots[memory_slot(memory, hash)] != 0;
}

void us_memory_add(us_memory *memory, uint64_t hash)
{
    if (memory->max == 0)
        return;
    if (memory->count == memory->max) {
        memory_drop(memory, memory->ring[memory->oldest]);
        memory->oldest = (memory->oldest + 1) % memory->max;
        memory->count--;
    }
    memory->ring[(memory->oldest + memory->count) % memory->max] = hash;
    memory->count++;
    uint32_t i = memory_home(memory, hash);
    while (memory->slots[i] != 0)
        i = (i + 1) & memory->mask;
    memory->slots[i] = hash;
}

/* The oldest one is at place 0. */
uint64_t us_memory_at(const us_memory *memory, uint32_t place)
{
    return memory->ring[(memory->oldest + place) % memory->max];
}

/* Where the search for a hash begins; who does not know the seed cannot make two begin together. */
static uint32_t memory_home(const us_memory *memory, uint64_t hash)
{
    uint64_t mixed = (hash ^ memory->seed[0]) * (memory->seed[1] | 1);
    return (uint32_t)(mixed >> 32) & memory->mask;
}

/* Where the hash is, or the free slot that ends the search. */
static uint32_t memory_slot(const us_memory *memory, uint64_t hash)
{
    uint32_t i = memory_home(memory, hash);
    while (memory->slots[i] != 0 && memory->slots[i] != hash)
        i = (i + 1) & memory->mask;
    return i;
}

/* What stands behind the gap moves into it, unless it would come before its own place. */
static void memory_drop(us_memory *memory, uint64_t hash)
{
    uint32_t gap = memory_slot(memory, hash);

    for (uint32_t i = (gap + 1) & memory->mask; memory->slots[i] != 0; i = (i + 1) & memory->mask) {
        uint32_t home = memory_home(memory, memory->slots[i]);
        if (((i - home) & memory->mask) >= ((i - gap) & memory->mask)) {
            memory->slots[gap] = memory->slots[i];
            gap = i;
        }
    }
    memory->slots[gap] = 0;
}
