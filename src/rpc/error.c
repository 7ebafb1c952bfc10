/* Errors as they are written: Connect's JSON, gRPC's trailers, details. */
#include "rpc/call.h"

/* Each byte of a message may become a U+FFFD of three. */
enum { CLEAN_BYTES_MAX = 3 * PLIM_ERROR_MESSAGE_MAX };

/* The details in the contract's order: what the method added, then the mark. */
struct details {
    rpc_detail list[RPC_DETAILS_MAX + 1];
    size_t count;
    char mark[2]; /* a NotDispatched: field 1, the reason */
};

static void collect(const plim_error *err, const rpc_extras *extras, const char *mark_type,
                    struct details *out)
{
    out->count = extras ? extras->detail_count : 0;
    for (size_t i = 0; i < out->count; i++)
        out->list[i] = extras->details[i];
    if (err->not_dispatched == PLIM_ND_NONE || !mark_type)
        return;
    out->mark[0] = 1 << 3;
    out->mark[1] = (char)err->not_dispatched;
    out->list[out->count++] =
        (rpc_detail){plim_bytes_of(mark_type), {out->mark, sizeof(out->mark)}};
}

/* The message as valid UTF-8; it may quote what a provider was told. */
static plim_bytes clean_message(const plim_error *err, base_buf *buf)
{
    base_buf_add_utf8(buf, plim_bytes_of(plim_error_message(err)));
    return base_buf_bytes(buf);
}

bool rpc_error_json(const plim_error *err, const rpc_extras *extras, const char *mark_type,
                    base_buf *out)
{
    struct details details;
    _cleanup_buf_ base_buf clean = BASE_BUF_INIT(CLEAN_BYTES_MAX);
    plim_bytes message = clean_message(err, &clean);
    collect(err, extras, mark_type, &details);
    base_buf_printf(out, "{\"code\":\"%s\"", plim_error_code(err));
    if (message.len) {
        base_buf_add_text(out, ",\"message\":");
        wire_json_add_text(out, message);
    }
    for (size_t i = 0; i < details.count; i++) {
        base_buf_add_text(out, i ? ",{\"type\":" : ",\"details\":[{\"type\":");
        wire_json_add_text(out, details.list[i].type);
        base_buf_add_text(out, ",\"value\":\"");
        wire_base64_add(out, details.list[i].value, false);
        base_buf_add_text(out, "\"}");
    }
    base_buf_add_text(out, details.count ? "]}" : "}");
    return !out->failed;
}

static void add_varint(base_buf *out, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        base_buf_add_byte(out, (char)(value | 0x80));
    base_buf_add_byte(out, (char)value);
}

static void add_bytes_field(base_buf *out, unsigned number, plim_bytes bytes)
{
    enum { LENGTH_DELIMITED = 2 };
    add_varint(out, number << 3 | LENGTH_DELIMITED);
    add_varint(out, bytes.len);
    base_buf_add(out, bytes);
}

/* google.rpc.Status: 1 code, 2 message, 3 details, each an Any: 1 type URL, 2 value. */
static bool add_status(const plim_error *err, plim_bytes message, const struct details *details,
                       base_buf *out)
{
    static const plim_bytes prefix = PLIM_LIT("type.googleapis.com/");
    add_varint(out, 1 << 3);
    add_varint(out, (uint64_t)err->code);
    add_bytes_field(out, 2, message);
    for (size_t i = 0; i < details->count; i++) {
        const rpc_detail *detail = &details->list[i];
        _cleanup_buf_ base_buf any = BASE_BUF_INIT(out->max), url = BASE_BUF_INIT(out->max);
        base_buf_add(&url, prefix);
        base_buf_add(&url, detail->type);
        add_bytes_field(&any, 1, base_buf_bytes(&url));
        add_bytes_field(&any, 2, detail->value);
        if (any.failed || url.failed)
            return false;
        add_bytes_field(out, 3, base_buf_bytes(&any));
    }
    return !out->failed;
}

/* Spaces at the ends too: a header's value has none there. */
static void add_percent_encoded(base_buf *out, plim_bytes text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool at_end = i == 0 || i + 1 == text.len;
        if (c < 0x20 || c > 0x7E || c == '%' || (c == ' ' && at_end))
            base_buf_printf(out, "%%%02X", c);
        else
            base_buf_add_byte(out, (char)c);
    }
}

bool rpc_error_grpc(const plim_error *err, const rpc_extras *extras, const char *mark_type,
                    base_buf *message, base_buf *details_bin)
{
    struct details details;
    _cleanup_buf_ base_buf clean = BASE_BUF_INIT(CLEAN_BYTES_MAX);
    plim_bytes text = clean_message(err, &clean);
    collect(err, extras, mark_type, &details);
    add_percent_encoded(message, text);
    if (details.count == 0)
        return !message->failed;
    _cleanup_buf_ base_buf status = BASE_BUF_INIT(details_bin->max);
    return !message->failed && add_status(err, text, &details, &status) &&
           wire_base64_add(details_bin, base_buf_bytes(&status), false);
}
