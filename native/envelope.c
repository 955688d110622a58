/* The row of a decision: its request, its changes, its answer with the host-effect envelope, the
 * digests that chain them, and its line of the trajectory. The mirror of
 * `authority/engine/envelope.py` and of `line` in `authority/views/trajectory.py`.
 */

#include "kernel.h"

#include <string.h>

/* What several parts of a row need. */
typedef struct seal {
    us_writer *w;
    us_pen *pen;
    const us_kernel *k;
    const us_request *request;
    const us_outcome *outcome;
    us_stamp stamp;
    us_row *row;
    char args_digest[US_ARGS_DIGEST_LEN];
    us_bytes effect;
    us_bytes witnesses; /* of the effect, as the two below */
    us_bytes seq;
    us_bytes stamped; /* seq and stamp */
} seal;

static void put_request(seal *s);
static void put_context(const seal *s);
static void put_changes(seal *s);
static void chain_state(seal *s);
static void hash_along(const seal *s, us_bytes bytes, us_sha256_lane *lane);
static void put_response(seal *s, const us_projection *projection);
static void put_diagnostic(const seal *s);
static void put_detail(const seal *s);
static void put_effect(seal *s);
static void put_result_class(us_writer *w, const seal *s);
static void put_classes(const seal *s);
static void put_stamp(seal *s);
static void put_answer(seal *s);
static void put_answered(const seal *s);
static void put_step(seal *s);
static void put_door(us_writer *w, uint32_t door);
static us_bytes texts(const seal *s, uint32_t text);
static us_bytes put_since(const seal *s, uint32_t at);

void us_seal(us_pen *pen, us_kernel *k, const us_request *request, const us_outcome *outcome,
             us_stamp stamp, const us_projection *projection, us_row *row)
{
    us_writer *w = &pen->out;
    seal s = {.w = w,
              .pen = pen,
              .k = k,
              .request = request,
              .outcome = outcome,
              .stamp = stamp,
              .row = row};

    row->seq = stamp.seq;
    row->wall_ms = stamp.wall_ms;
    row->counter = (uint32_t)stamp.counter;
    memset(row->unused, 0, sizeof row->unused);
    put_request(&s);
    put_changes(&s);
    if (w->full)
        return; /* nothing was hashed that is not there */
    chain_state(&s);
    us_close_chain(pen, k);
    put_response(&s, projection);
    if (w->full)
        return; /* and nothing is copied that is not there */
    put_answer(&s);
    put_answered(&s);
    put_step(&s);
    if (us_pen_full(pen))
        return;
    us_sha256_load(&pen->evidence, s.effect.at, s.effect.len);
    pen->newest = row;
}

/* Find the digest of the newest row, to which the next one is chained. */
void us_close_chain(us_pen *pen, us_kernel *k)
{
    us_row *row = pen->newest;

    if (row == NULL)
        return;
    us_sha256_finish(k->sha256_path, &pen->evidence, NULL);
    (void)us_sha256_text(&pen->evidence, "row1", 4, row->digest);
    memcpy(pen->steps.begin + pen->step_digest_at, row->digest, sizeof row->digest);
    memcpy(k->head.digest, row->digest, sizeof row->digest);
    pen->newest = NULL;
}

/* ---- the request ------------------------------------------------------------------------------
 */

/* What the journal keeps of it; its payload are the arguments that the evidence names. */
static void put_request(seal *s)
{
    us_writer *w = s->w;
    us_sha256_lane lane;

    s->row->request_at = us_position(w);
    us_put_bytes(w, texts(s, US_TEXT_REQUEST));
    put_context(s);
    US_PUT(w, ",\"door\":");
    put_door(w, s->request->door);
    if (s->request->has_now) {
        US_PUT(w, ",\"now\":");
        us_put_integer(w, s->request->now_ms);
    }
    US_PUT(w, ",\"payload\":");
    uint32_t args_at = us_position(w);
    us_put_value(w, s->request->doc, s->request->payload);
    us_bytes args = put_since(s, args_at);
    us_put_bytes(w, us_shared_bytes(s->k, US_TEXT_POLICY));
    s->row->request_end = us_position(w);
    hash_along(s, args, &lane);
    (void)us_sha256_text(&lane, "he1", 3, s->args_digest);
}

static void put_context(const seal *s)
{
    us_writer *w = s->w;
    bool escalated = s->request->escalated_from != US_NONE;

    us_put_byte(w, '{');
    if (escalated) {
        US_PUT(w, "\"escalatedFrom\":");
        put_door(w, s->request->escalated_from);
    }
    if (s->request->names_transport) {
        if (escalated)
            us_put_byte(w, ',');
        US_PUT(w, "\"transport\":");
        put_door(w, s->request->transport);
    }
    us_put_byte(w, '}');
}

/* ---- the changes ------------------------------------------------------------------------------
 */

/* Behind the digest of the state before, with which they are hashed. */
static void put_changes(seal *s)
{
    us_writer *w = s->w;

    us_put_raw(w, s->k->head.state_digest, sizeof s->k->head.state_digest);
    s->row->changes_at = us_position(w);
    s->row->answered_at = us_put_changes(w, s->k, s->request, s->outcome, s->stamp, s->args_digest);
    s->row->response_at = us_position(w);
}

/* A row that changes nothing leaves the digest as it is. */
static void chain_state(seal *s)
{
    const us_head *head = &s->k->head;
    us_bytes chained = put_since(s, s->row->request_end);
    us_sha256_lane lane;

    if (chained.len == sizeof head->state_digest + 2) {
        memcpy(s->row->state_digest, head->state_digest, sizeof head->state_digest);
        return;
    }
    hash_along(s, chained, &lane);
    (void)us_sha256_text(&lane, "st1", 3, s->row->state_digest);
}

/* The evidence of the row before goes along. */
static void hash_along(const seal *s, us_bytes bytes, us_sha256_lane *lane)
{
    us_sha256_load(lane, bytes.at, bytes.len);
    us_sha256_finish(s->k->sha256_path, lane, s->pen->newest == NULL ? NULL : &s->pen->evidence);
}

/* ---- the answer -------------------------------------------------------------------------------
 */

static void put_response(seal *s, const us_projection *projection)
{
    us_writer *w = s->w;
    bool accepted = s->outcome->reason == US_REASON_NONE;

    us_put_bytes(w, texts(s, US_TEXT_HEAD));
    if (accepted)
        US_PUT(w, "\"changed\":true,");
    else
        put_diagnostic(s);
    us_put_bytes(w, us_shared_bytes(s->k, US_TEXT_KIND));
    put_effect(s);
    US_PUT(w, ",\"failureClasses\":[");
    put_classes(s);
    US_PUT(w, "],");
    if (accepted) {
        US_PUT(w, "\"issue\":");
        us_put_issue_view(w, s->request->issue, s->outcome, s->stamp);
        us_put_byte(w, ',');
        if (s->outcome->move != US_MOVE_COMPLETE) {
            US_PUT(w, "\"leaseProjection\":");
            us_put_projection(w, s->k, projection, s->stamp.wall_ms);
            us_put_byte(w, ',');
        }
    }
    us_put_bytes(w, texts(s, US_TEXT_PROFILE));
    if (accepted)
        US_PUT(w, "accepted");
    else
        US_PUT(w, "rejected");
    us_put_bytes(w, texts(s, US_TEXT_MEANING));
    us_put_bytes(w, s->stamped);
    us_put_bytes(w, texts(s, US_TEXT_WORLD));
    s->row->response_end = us_position(w);
}

static void put_diagnostic(const seal *s)
{
    US_PUT(s->w, "\"diagnostic\":\"");
    put_detail(s);
    us_put_bytes(s->w, us_reason_bytes(s->k, s->outcome->reason, 1));
    US_PUT(s->w, "\",");
}

static void put_detail(const seal *s)
{
    us_writer *w = s->w;
    const us_outcome *outcome = s->outcome;

    if (outcome->detail == US_DETAIL_TTL || outcome->detail == US_DETAIL_BOTH) {
        us_put_integer(w, s->request->ttl_seconds);
        US_PUT(w, " seconds");
        if (outcome->detail == US_DETAIL_BOTH)
            US_PUT(w, " and ");
    }
    if (outcome->detail == US_DETAIL_TEXT || outcome->detail == US_DETAIL_BOTH)
        us_put_bytes(w, s->request->expires_at);
    if (outcome->detail >= US_DETAIL_TTL)
        return;
    US_PUT(w, "issue ");
    us_put_bytes(w, s->request->id);
    switch (outcome->detail) {
    case US_DETAIL_FENCES:
    case US_DETAIL_NEWER:
        US_PUT(w, ": fence ");
        us_put_integer(w, s->request->fence);
        US_PUT(w, ", current ");
        us_put_integer(w, outcome->fence);
        if (outcome->detail == US_DETAIL_NEWER) {
            US_PUT(w, " of ");
            us_put_bytes(w, outcome->owner);
        }
        break;
    case US_DETAIL_HELD:
        US_PUT(w, ": it held until ");
        us_put_answer_text(w, outcome->deadline_ms);
        break;
    case US_DETAIL_HOLDER:
        US_PUT(w, ": ");
        us_put_bytes(w, outcome->owner);
        US_PUT(w, " until ");
        us_put_answer_text(w, outcome->deadline_ms);
        break;
    case US_DETAIL_ASSIGNED:
        US_PUT(w, ": it is assigned to ");
        us_put_bytes(w, outcome->owner);
        break;
    case US_DETAIL_BLOCKED:
        US_PUT(w, ": waits for somebody to unblock it");
        break;
    default:
        break;
    }
}

/* The evidence; its digest will chain the rows. */
static void put_effect(seal *s)
{
    us_writer *w = s->w;
    const us_outcome *outcome = s->outcome;
    const us_request *request = s->request;
    uint32_t effect_at = us_position(w);

    us_put_bytes(w, texts(s, US_TEXT_EFFECT));
    us_put_raw(w, s->args_digest, sizeof s->args_digest);
    if (request->escalated_from != US_NONE) {
        US_PUT(w, "\",\"escalatedFrom\":");
        put_door(w, request->escalated_from);
        US_PUT(w, ",\"failureClasses\":[");
    } else {
        US_PUT(w, "\",\"failureClasses\":[");
    }
    put_classes(s);
    US_PUT(w, "],\"fence\":");
    if (outcome->fence != 0)
        us_put_integer(w, outcome->fence);
    else
        US_PUT(w, "null");
    US_PUT(w, ",\"instructionRef\":null,\"issueId\":");
    if (outcome->unnamed) {
        US_PUT(w, "null");
    } else {
        us_put_byte(w, '"');
        us_put_bytes(w, request->id);
        us_put_byte(w, '"');
    }
    us_put_bytes(w, us_shared_bytes(s->k, US_TEXT_BINDING));
    us_put_raw(w, s->k->head.digest, sizeof s->k->head.digest);
    US_PUT(w, "\",\"resultClass\":\"");
    put_result_class(w, s);
    us_put_bytes(w, us_shared_bytes(s->k, US_TEXT_SCHEMA));
    put_stamp(s);
    US_PUT(w, ",\"stateDigest\":\"");
    us_put_raw(w, s->row->state_digest, sizeof s->row->state_digest);
    US_PUT(w, "\",\"transport\":");
    put_door(w, request->transport);
    US_PUT(w, ",\"witnessRefs\":");
    uint32_t witnesses_at = us_position(w);
    us_put_bytes(w, texts(s, US_TEXT_WITNESS));
    us_put_raw(w, s->args_digest, sizeof s->args_digest);
    us_put_byte(w, '"');
    if (outcome->fence != 0 && !outcome->unnamed) {
        US_PUT(w, ",\"lease://issue/");
        us_put_bytes(w, request->id);
        us_put_byte(w, '/');
        us_put_integer(w, outcome->fence);
        us_put_byte(w, '"');
    }
    us_put_bytes(w, texts(s, US_TEXT_RESOLVER));
    us_put_byte(w, ']');
    s->witnesses = put_since(s, witnesses_at);
    us_put_byte(w, '}');
    s->effect = put_since(s, effect_at);
}

static void put_result_class(us_writer *w, const seal *s)
{
    if (s->outcome->reason == US_REASON_NONE)
        US_PUT(w, "accepted");
    else
        us_put_bytes(w, us_reason_bytes(s->k, s->outcome->reason, 0));
}

static void put_classes(const seal *s)
{
    if (s->outcome->reason == US_REASON_NONE)
        return;
    us_put_byte(s->w, '"');
    us_put_bytes(s->w, us_reason_bytes(s->k, s->outcome->reason, 0));
    us_put_byte(s->w, '"');
}

/* The row's number and stamp, which evidence and answer have in common. */
static void put_stamp(seal *s)
{
    us_writer *w = s->w;
    uint32_t at = us_position(w);

    us_put_integer(w, s->stamp.seq);
    s->seq = put_since(s, at);
    US_PUT(w, ",\"stamp\":{\"counter\":");
    us_put_integer(w, s->stamp.counter);
    us_put_bytes(w, us_shared_bytes(s->k, US_TEXT_NODE));
    us_put_integer(w, s->stamp.wall_ms);
    us_put_byte(w, '}');
    s->stamped = put_since(s, at);
}

/* The answer as the caller gets it: its own `id` in front. */
static void put_answer(seal *s)
{
    us_writer *w = &s->pen->answers;
    us_bytes response = put_since(s, s->row->response_at);

    if (s->request->mark != NULL) {
        US_PUT(w, "{\"id\":");
        us_put_value(w, s->request->doc, s->request->mark);
        us_put_byte(w, ',');
        us_put_raw(w, response.at + 1, response.len - 1);
    } else {
        us_put_raw(w, response.at, response.len);
    }
    us_put_byte(w, '\n');
    s->row->answer_end = us_position(w);
}

/* What is remembered of it, once more: the last of the changes. */
static void put_answered(const seal *s)
{
    us_writer *w = &s->pen->answered;
    uint32_t at = s->row->answered_at;

    if (at == 0)
        return;
    if (us_position(w) != 0)
        us_put_byte(w, ',');
    us_put_raw(w, s->w->begin + at, s->row->response_at - at - 1);
}

/* ---- the line of the trajectory ---------------------------------------------------------------
 */

static void put_step(seal *s)
{
    static const char unknown[US_ROW_DIGEST_LEN];
    us_writer *w = &s->pen->steps;

    s->row->step_at = us_position(w);
    us_put_bytes(w, texts(s, US_TEXT_STEP));
    s->pen->step_digest_at = us_position(w);
    us_put_raw(w, unknown, sizeof unknown);
    US_PUT(w, "\",\"effect\":");
    us_put_bytes(w, s->effect);
    US_PUT(w, ",\"finishedAt\":\"");
    us_put_record_text(w, s->stamp.wall_ms);
    if (!s->outcome->unnamed) {
        US_PUT(w, "\",\"issueId\":\"");
        us_put_bytes(w, s->request->id);
    }
    US_PUT(w, "\",\"lineageRefs\":[\"");
    us_put_raw(w, s->k->head.digest, sizeof s->k->head.digest);
    US_PUT(w, "\"],\"resultClass\":\"");
    put_result_class(w, s);
    us_put_bytes(w, texts(s, US_TEXT_ROUTE));
    us_put_bytes(w, s->seq);
    us_put_bytes(w, texts(s, US_TEXT_STEP_KIND));
    us_put_bytes(w, s->witnesses);
    US_PUT(w, "}\n");
    s->row->step_end = us_position(w);
}

/* ---- bytes ------------------------------------------------------------------------------------
 */

static void put_door(us_writer *w, uint32_t door)
{
    static const char *const DOORS[] = {"\"local-repl\"", "\"cli\"", "\"mcp\"", "\"coordinator\""};
    us_put_raw(w, DOORS[door], strlen(DOORS[door]));
}

/* What was written since; as much of it as there was room for. */
static us_bytes put_since(const seal *s, uint32_t at)
{
    return (us_bytes){s->w->begin + at, (size_t)(us_position(s->w) - at)};
}

static us_bytes texts(const seal *s, uint32_t text)
{
    return us_action_bytes(s->k, s->request->action, text);
}
