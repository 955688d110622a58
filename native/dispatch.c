/* Many lines in one call: read, stamp, decide, write, apply. The mirror of `Authority._answer` in
 * `authority/engine/engine.py`, of `HybridClock.next_stamp`, and of `decide`. */

#include "kernel.h"

#include <string.h>

/* A line that was read. The next one is read before the one in front of it is decided, so that what
 * it will need of the tables comes meanwhile. */
typedef struct reading {
    us_request request;
    enum us_stop stop;
} reading;

static void read_ahead(us_kernel *k, const us_batch *batch, const uint8_t *line, size_t len,
                       us_json *doc, reading *ahead);
static enum us_stop answer(us_kernel *k, const us_batch *batch, reading *now, const reading *ahead,
                           us_pen *pen, us_row *row);
static void say_lengths(us_batch *batch, const us_pen *pen);
static us_writer writer_over(uint8_t *out, uint64_t out_max);
static enum us_stop next_stamp(const us_kernel *k, const us_batch *batch, const us_request *request,
                               us_stamp *stamp);
static enum us_stop look_up(us_kernel *k, us_request *request);
static void decide(const us_kernel *k, const us_request *request, us_stamp stamp,
                   us_outcome *outcome);
static void advance(us_kernel *k, const us_row *row);

int64_t us_dispatch(us_kernel *k, us_batch *batch, const uint8_t *in, const uint32_t *lens,
                    const us_room *room)
{
    us_pen pen; /* its evidence is loaded as there is some */
    reading readings[2];
    uint32_t count = 0;

    pen.out = writer_over(room->out, room->out_max);
    pen.steps = writer_over(room->steps, room->steps_max);
    pen.answers = writer_over(room->answers, room->answers_max);
    pen.answered = writer_over(room->answered, room->answered_max);
    pen.newest = NULL;
    batch->stop = US_STOP_END;
    batch->answered_count = 0;
    say_lengths(batch, &pen);
    if (batch->count != 0)
        read_ahead(k, batch, in, lens[0], &k->docs[0], &readings[0]);
    while (count < batch->count) {
        uint32_t next = (count + 1) % 2;
        reading *now = &readings[count % 2], *ahead = NULL;
        in += lens[count];
        if (count + 1 < batch->count) {
            ahead = &readings[next];
            read_ahead(k, batch, in, lens[count + 1], &k->docs[next], ahead);
        }
        batch->stop = answer(k, batch, now, ahead, &pen, &room->rows[count]);
        if (batch->stop != US_STOP_END)
            break;
        batch->answered_count += room->rows[count++].answered_at != 0;
        say_lengths(batch, &pen);
    }
    us_close_chain(&pen, k);
    return count;
}

static void say_lengths(us_batch *batch, const us_pen *pen)
{
    batch->out_len = us_position(&pen->out);
    batch->steps_len = us_position(&pen->steps);
    batch->answers_len = us_position(&pen->answers);
    batch->answered_len = us_position(&pen->answered);
}

/* Offsets in rows have 32 bits. */
static us_writer writer_over(uint8_t *out, uint64_t out_max)
{
    return us_writer_over(out, (size_t)(out_max < UINT32_MAX ? out_max : UINT32_MAX));
}

static void read_ahead(us_kernel *k, const us_batch *batch, const uint8_t *line, size_t len,
                       us_json *doc, reading *ahead)
{
    us_request *request = &ahead->request;

    ahead->stop = us_read_request(k, batch, line, len, doc, request);
    if (ahead->stop != US_STOP_END)
        return;
    request->id_hash = us_hash(k->setup.seed, request->id);
    us_index_fetch(k, request->id_hash);
    if (request->request_id.len != 0) {
        request->request_hash = us_request_hash(request->request_id);
        us_memory_fetch(&k->memory, request->request_hash);
    }
}

static enum us_stop answer(us_kernel *k, const us_batch *batch, reading *now, const reading *ahead,
                           us_pen *pen, us_row *row)
{
    us_request *request = &now->request;
    us_stamp stamp = {0};
    us_outcome outcome;
    us_projection projection;

    if (!k->open)
        return US_STOP_POLICY;
    enum us_stop stop = now->stop;
    if (stop == US_STOP_END)
        stop = next_stamp(k, batch, request, &stamp);
    if (stop == US_STOP_END)
        stop = look_up(k, request);
    if (stop != US_STOP_END)
        return stop;
    decide(k, request, stamp, &outcome);
    if (outcome.move != US_MOVE_NONE && outcome.move != US_MOVE_COMPLETE &&
        !us_project(k, request->issue, stamp.wall_ms, &projection))
        return US_STOP_PROJECTION;
    if (ahead != NULL && ahead->stop == US_STOP_END)
        us_issue_fetch(k, ahead->request.id_hash);
    us_seal(pen, k, request, &outcome, stamp, &projection, row);
    if (us_pen_full(pen))
        return US_STOP_OUT_FULL;
    us_apply(k, request, &outcome, stamp);
    advance(k, row);
    return US_STOP_END;
}

static enum us_stop next_stamp(const us_kernel *k, const us_batch *batch, const us_request *request,
                               us_stamp *stamp)
{
    int64_t physical_ms = request->has_now ? request->now_ms : batch->physical_ms;
    bool later = physical_ms > k->head.wall_ms;

    stamp->seq = k->head.seq + 1;
    stamp->wall_ms = later ? physical_ms : k->head.wall_ms;
    stamp->counter = later ? 0 : k->head.counter + 1;
    if (stamp->wall_ms < 0 || stamp->wall_ms > k->setup.now_ms_max ||
        stamp->counter > k->setup.counter_max || stamp->seq >= US_JSON_INTEGER_MAX)
        return US_STOP_CLOCK;
    return US_STOP_END;
}

/* Whether the records that the request is about are all here. */
static enum us_stop look_up(us_kernel *k, us_request *request)
{
    if (request->request_id.len != 0 && us_memory_has(&k->memory, request->request_hash))
        return US_STOP_REPEAT;
    const us_issue *issue = us_index_find(k, request->id, request->id_hash);
    if (issue == NULL)
        return US_STOP_END;
    request->issue = &k->issues[issue - k->issues];
    if ((issue->flags & (US_ISSUE_FOREIGN | US_ISSUE_TORN)) != 0)
        return US_STOP_ISSUE;
    uint32_t waits = request->action == US_CLAIM   ? US_ISSUE_WAITING
                     : request->action == US_CLOSE ? US_ISSUE_AWAITED
                                                   : 0;
    if ((issue->flags & waits) != 0)
        return US_STOP_WAITING;
    if (request->action == US_CLAIM && k->lease_free == US_NONE)
        return US_STOP_ROOM;
    return US_STOP_END;
}

static void decide(const us_kernel *k, const us_request *request, us_stamp stamp,
                   us_outcome *outcome)
{
    memset(outcome, 0, offsetof(us_outcome, derived));
    switch (request->action) {
    case US_CLAIM:
        outcome->reason = us_claim(k, request, stamp, outcome);
        break;
    case US_RENEW:
        outcome->reason = us_renew(k, request, stamp, outcome);
        break;
    case US_RELEASE:
        outcome->reason = us_release(k, request, stamp, outcome);
        break;
    case US_CLOSE:
        outcome->reason = us_close_issue(k, request, stamp, outcome);
        break;
    }
}

/* The row's own digest follows with the next row, or at the end of the batch. */
static void advance(us_kernel *k, const us_row *row)
{
    k->head.seq = row->seq;
    k->head.wall_ms = row->wall_ms;
    k->head.counter = row->counter;
    memcpy(k->head.state_digest, row->state_digest, sizeof row->state_digest);
}
