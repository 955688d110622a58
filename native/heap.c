/* Leases by deadline: a binary heap, in which every lease knows its place. */

#include "kernel.h"

static void sift_up(us_kernel *k, uint32_t place);
static void sift_down(us_kernel *k, uint32_t place);
static void put_at(us_kernel *k, uint32_t place, uint32_t lease);
static bool before(const us_kernel *k, uint32_t left, uint32_t right);

/* The lease is new: `lease_count` grows here, and nowhere else. */
void us_heap_add(us_kernel *k, uint32_t lease)
{
    put_at(k, k->lease_count, lease);
    k->lease_count++;
    sift_up(k, k->lease_count - 1);
}

void us_heap_drop(us_kernel *k, uint32_t lease)
{
    uint32_t place = k->leases[lease].place;
    uint32_t last = k->heap[--k->lease_count];

    if (last == lease)
        return;
    put_at(k, place, last);
    us_heap_move(k, last);
}

/* The deadline of a lease is another one. */
void us_heap_move(us_kernel *k, uint32_t lease)
{
    sift_up(k, k->leases[lease].place);
    sift_down(k, k->leases[lease].place);
}

static void sift_up(us_kernel *k, uint32_t place)
{
    uint32_t lease = k->heap[place];

    while (place > 0 && before(k, lease, k->heap[(place - 1) / 2])) {
        put_at(k, place, k->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    put_at(k, place, lease);
}

static void sift_down(us_kernel *k, uint32_t place)
{
    uint32_t lease = k->heap[place];

    for (;;) {
        uint64_t child = 2 * (uint64_t)place + 1;
        if (child >= k->lease_count)
            break;
        if (child + 1 < k->lease_count && before(k, k->heap[child + 1], k->heap[child]))
            child++;
        if (!before(k, k->heap[child], lease))
            break;
        put_at(k, place, k->heap[child]);
        place = (uint32_t)child;
    }
    put_at(k, place, lease);
}

static void put_at(us_kernel *k, uint32_t place, uint32_t lease)
{
    k->heap[place] = lease;
    k->leases[lease].place = place;
}

static bool before(const us_kernel *k, uint32_t left, uint32_t right)
{
    return k->leases[left].deadline_ms < k->leases[right].deadline_ms;
}
