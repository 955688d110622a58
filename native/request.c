/* From a line to a request, where it is plainly hot: the mirror of `contracts/requests/request.py`.
 *
 * What is refused there is cold here; so is what is merely unusual. The texts of a request stay in
 * the line or in its document, and live until the document is used again.
 */

#include "kernel.h"

#include "scan.h"

#include <string.h>

#define NAME_MAX 256 /* limits.NAME_LENGTH_MAX, counted in bytes */
#define REASON_MAX 1024
#define ID_MAX 128

/* The members of payloads; which of them an action has is a set of bits. */
enum member {
    ASSIGNEE,
    FENCE,
    ID,
    EXPIRES_AT,
    LEASE_ID,
    TTL_SECONDS,
    REASON,
    REQUEST_ID,
    SUBLEASE_ID,
    MEMBER_COUNT
};

typedef struct name {
    const char *text;
    size_t len;
} name;

#define NAME(text) {text, sizeof(text) - 1}
#define BIT(member) (1u << (member))
#define HELD (BIT(ASSIGNEE) | BIT(FENCE) | BIT(ID) | BIT(LEASE_ID) | BIT(REQUEST_ID))

static const name MEMBERS[MEMBER_COUNT] = {
    NAME("assignee"),       NAME("fence"),     NAME("id"),
    NAME("leaseExpiresAt"), NAME("leaseId"),   NAME("leaseTtlSeconds"),
    NAME("reason"),         NAME("requestId"), NAME("subleaseId"),
};
static const name DOORS[] = {NAME("local-repl"), NAME("cli"), NAME("mcp"), NAME("coordinator")};
static const uint32_t ALLOWED[US_ACTION_COUNT] = {
    HELD | BIT(TTL_SECONDS) | BIT(EXPIRES_AT),
    HELD | BIT(TTL_SECONDS) | BIT(EXPIRES_AT) | BIT(SUBLEASE_ID),
    HELD | BIT(SUBLEASE_ID),
    HELD | BIT(SUBLEASE_ID) | BIT(REASON),
};

static enum us_stop read_action(const us_kernel *k, const us_node *node, us_request *request);
static enum us_stop read_now(const us_kernel *k, const us_batch *batch, const us_node *node,
                             us_request *request);
static enum us_stop read_mark(const us_node *node, us_request *request);
static enum us_stop read_context(const us_node *node, us_request *request);
static enum us_stop read_payload(us_request *request);
static enum us_stop read_member(const us_json *doc, const us_node *node, enum member member,
                                us_request *request);
static bool admitted(const us_kernel *k, const us_request *request);
static bool read_name(const us_json *doc, const us_node *node, size_t max, us_bytes *bytes);
static bool has_delete(us_bytes bytes);
static bool is_id(us_bytes bytes);
static bool trims(us_bytes bytes);
static bool is_ascii(us_bytes bytes);
static uint32_t find_name(const name *names, uint32_t count, us_bytes bytes);
static us_bytes key_of(const us_json *doc, const us_node *node);
static us_bytes string_of(const us_json *doc, const us_node *node);
static bool spells(us_bytes bytes, const char *text, size_t len);

#define SPELLS(bytes, literal) spells((bytes), (literal), sizeof(literal) - 1)

enum us_stop us_read_request(const us_kernel *k, const us_batch *batch, const uint8_t *line,
                             size_t len, us_json *doc, us_request *request)
{
    const us_node *action = NULL, *context = NULL;

    if (len > US_LINE_MAX || us_json_read(doc, line, len) != US_SOUND ||
        doc->nodes[0].kind != US_OBJECT)
        return US_STOP_LINE;
    *request = (us_request){.door = batch->door, .transport = batch->door, .doc = doc};
    request->escalated_from = US_NONE;
    for (uint32_t i = doc->nodes[0].as.children.first; i != 0; i = doc->nodes[i].next) {
        const us_node *node = &doc->nodes[i];
        us_bytes key = key_of(doc, node);
        enum us_stop stop = US_STOP_END;
        if (SPELLS(key, "action"))
            action = node;
        else if (SPELLS(key, "payload"))
            request->payload = node;
        else if (SPELLS(key, "context"))
            context = node;
        else if (SPELLS(key, "id"))
            stop = read_mark(node, request);
        else if (SPELLS(key, "now"))
            stop = read_now(k, batch, node, request);
        else
            stop = US_STOP_MEMBER;
        if (stop != US_STOP_END)
            return stop;
    }
    enum us_stop stop = read_action(k, action, request);
    if (stop == US_STOP_END)
        stop = read_context(context, request);
    if (stop == US_STOP_END)
        stop = read_payload(request);
    if (stop == US_STOP_END && !admitted(k, request))
        stop = US_STOP_DOOR;
    return stop;
}

static enum us_stop read_action(const us_kernel *k, const us_node *node, us_request *request)
{
    if (node == NULL || node->kind != US_STRING)
        return US_STOP_ACTION;
    us_bytes bytes = string_of(request->doc, node);
    for (uint32_t i = 0; i < US_ACTION_COUNT; i++) {
        if (us_same(bytes, us_action_bytes(k, (enum us_action)i, US_TEXT_ACTION))) {
            request->action = (enum us_action)i;
            return US_STOP_END;
        }
    }
    return US_STOP_ACTION;
}

static enum us_stop read_now(const us_kernel *k, const us_batch *batch, const us_node *node,
                             us_request *request)
{
    if (node->kind == US_NULL)
        return US_STOP_END;
    if (node->kind != US_INTEGER)
        return US_STOP_MEMBER;
    if (batch->frozen == 0 || node->as.number < 0 || node->as.number > k->setup.now_ms_max)
        return US_STOP_CLOCK;
    request->has_now = true;
    request->now_ms = node->as.number;
    return US_STOP_END;
}

static enum us_stop read_mark(const us_node *node, us_request *request)
{
    if (node->kind == US_NULL)
        return US_STOP_END;
    if (node->kind != US_INTEGER && node->kind != US_STRING)
        return US_STOP_MEMBER;
    if (node->kind == US_STRING && node->as.string.len > NAME_MAX)
        return US_STOP_TEXT;
    request->mark = node;
    return US_STOP_END;
}

static enum us_stop read_context(const us_node *node, us_request *request)
{
    const us_json *doc = request->doc;

    if (node == NULL || node->kind == US_NULL)
        return US_STOP_END;
    if (node->kind != US_OBJECT)
        return US_STOP_MEMBER;
    for (uint32_t i = node->as.children.first; i != 0; i = doc->nodes[i].next) {
        const us_node *child = &doc->nodes[i];
        us_bytes key = key_of(doc, child);
        bool transport = SPELLS(key, "transport");
        if (!transport && !SPELLS(key, "escalatedFrom"))
            return US_STOP_MEMBER;
        if (child->kind == US_NULL)
            continue;
        if (child->kind != US_STRING)
            return US_STOP_MEMBER;
        uint32_t door = find_name(DOORS, 4, string_of(doc, child));
        if (door == US_NONE)
            return US_STOP_MEMBER;
        if (transport) {
            request->names_transport = true;
            request->transport = door;
        } else {
            request->escalated_from = door;
        }
    }
    return US_STOP_END;
}

static enum us_stop read_payload(us_request *request)
{
    const us_json *doc = request->doc;

    if (request->payload == NULL || request->payload->kind != US_OBJECT)
        return US_STOP_MEMBER;
    for (uint32_t i = request->payload->as.children.first; i != 0; i = doc->nodes[i].next) {
        const us_node *node = &doc->nodes[i];
        uint32_t member = find_name(MEMBERS, MEMBER_COUNT, key_of(doc, node));
        if (member == US_NONE || (ALLOWED[request->action] & BIT(member)) == 0)
            return US_STOP_MEMBER;
        enum us_stop stop = read_member(doc, node, (enum member)member, request);
        if (stop != US_STOP_END)
            return stop;
    }
    return request->id.len == 0 ? US_STOP_MEMBER : US_STOP_END;
}

static enum us_stop read_member(const us_json *doc, const us_node *node, enum member member,
                                us_request *request)
{
    bool may_be_null =
        member != ID && member != REASON && !(member == ASSIGNEE && request->action == US_CLAIM);
    us_bytes text;

    if (node->kind == US_NULL)
        return may_be_null ? US_STOP_END : US_STOP_MEMBER;
    switch (member) {
    case ASSIGNEE:
        if (!read_name(doc, node, NAME_MAX, &text) || !trims(text))
            return US_STOP_TEXT;
        request->assignee = us_trimmed(text);
        return request->assignee.len <= US_ASSIGNEE_MAX ? US_STOP_END : US_STOP_TEXT;
    case FENCE:
        request->has_fence = true;
        request->fence = node->as.number;
        return node->kind == US_INTEGER && node->as.number >= 0 ? US_STOP_END : US_STOP_MEMBER;
    case ID:
        if (!read_name(doc, node, ID_MAX, &request->id) || !is_id(request->id))
            return US_STOP_TEXT;
        return US_STOP_END;
    case EXPIRES_AT:
        if (!read_name(doc, node, NAME_MAX, &text) || !is_ascii(text))
            return US_STOP_TEXT;
        request->expires_at = us_trimmed(text);
        return US_STOP_END;
    case LEASE_ID:
        request->has_lease_id = true;
        if (!read_name(doc, node, US_LEASE_ID_MAX, &request->lease_id) || !trims(request->lease_id))
            return US_STOP_TEXT;
        return US_STOP_END;
    case TTL_SECONDS:
        request->has_ttl = true;
        request->ttl_seconds = node->as.number;
        return node->kind == US_INTEGER ? US_STOP_END : US_STOP_MEMBER;
    case REASON:
        if (node->kind != US_STRING || node->as.string.len > REASON_MAX)
            return US_STOP_TEXT;
        return US_STOP_END;
    case REQUEST_ID:
        if (!read_name(doc, node, NAME_MAX, &request->request_id) || request->request_id.len == 0)
            return US_STOP_TEXT;
        return US_STOP_END;
    default: /* a sublease is never hot */
        return US_STOP_MEMBER;
    }
}

/* Not stronger than the door, and both bound to the action. */
static bool admitted(const us_kernel *k, const us_request *request)
{
    uint32_t both = 1u << request->transport | 1u << request->door;
    return request->transport <= request->door && (both & ~k->setup.doors[request->action]) == 0;
}

/* ---- texts ------------------------------------------------------------------------------------
 */

static bool read_name(const us_json *doc, const us_node *node, size_t max, us_bytes *bytes)
{
    if (node->kind != US_STRING || node->as.string.len > max)
        return false;
    *bytes = string_of(doc, node);
    if ((node->flags & US_VALUE_IN_TEXT) != 0)
        return us_is_plain(*bytes);
    return !has_delete(*bytes); /* J4 */
}

bool us_is_plain(us_bytes bytes)
{
    if (bytes.len == 0)
        return true;
    return us_plain_run(bytes.at, bytes.at + bytes.len) == bytes.len && !has_delete(bytes);
}

static bool has_delete(us_bytes bytes)
{
    return bytes.len != 0 && memchr(bytes.at, 0x7f, bytes.len) != NULL;
}

/* `shapes.ID_PATTERN`; its length has been looked at. */
static bool is_id(us_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        uint8_t byte = bytes.at[i];
        bool first = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9');
        if (!first && (i == 0 || (byte != '.' && byte != '_' && byte != '-')))
            return false;
    }
    return bytes.len != 0;
}

/* Whether nothing beyond ASCII could be a space at either end. */
static bool trims(us_bytes bytes)
{
    us_bytes text = us_trimmed(bytes);
    return text.len == 0 || (text.at[0] < 0x80 && text.at[text.len - 1] < 0x80);
}

static bool is_ascii(us_bytes bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.at[i] >= 0x80)
            return false;
    }
    return true;
}

static uint32_t find_name(const name *names, uint32_t count, us_bytes bytes)
{
    for (uint32_t i = 0; i < count; i++) {
        if (spells(bytes, names[i].text, names[i].len))
            return i;
    }
    return US_NONE;
}

static us_bytes key_of(const us_json *doc, const us_node *node)
{
    return (us_bytes){us_json_key(doc, node), node->key.len};
}

static us_bytes string_of(const us_json *doc, const us_node *node)
{
    return (us_bytes){us_json_string(doc, node), node->as.string.len};
}

static bool spells(us_bytes bytes, const char *text, size_t len)
{
    return bytes.len == len && memcmp(bytes.at, text, len) == 0;
}
