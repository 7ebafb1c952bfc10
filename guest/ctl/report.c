#include "report.h"

#include "io.h"
#include "json.h"
#include "sha256.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum {
    /* The fixed part of a step, so that the budget of all is spent on their outputs. */
    STEPS_BYTES_MAX = CTL_STEPS_JSON_MAX + CTL_PLAN_STEPS_MAX * (6 * CTL_COMMAND_BYTES_MAX + 256),
    ARTIFACTS_BYTES_MAX = CTL_BODY_BYTES_MAX * 2, /* what is too much is dropped later */
    HEADER_BYTES = 256,
    ERROR_BYTES_MAX = 32 << 10,
    ERROR_JSON_MAX = 8 * ERROR_BYTES_MAX,
};

void ctl_report_init(struct ctl_report *report)
{
    *report = (struct ctl_report){.steps = BASE_BUF_INIT(STEPS_BYTES_MAX),
                                  .artifacts = BASE_BUF_INIT(ARTIFACTS_BYTES_MAX)};
}

plim_bytes ctl_cut_text(plim_bytes text, size_t max)
{
    if (text.len <= max)
        return text;
    while (max && ((unsigned char)text.data[max] & 0xC0) == 0x80)
        max--;
    return (plim_bytes){text.data, max};
}

/* How many bytes of a stream fit into `room` characters of base64. */
static size_t fitting(size_t room, size_t bytes)
{
    size_t most = room / 4 * 3;
    return bytes < most ? bytes : most;
}

static const char *boolean(bool value)
{
    return value ? "true" : "false";
}

void ctl_report_step(struct ctl_report *report, plim_bytes command,
                     const struct ctl_step_result *result)
{
    base_buf *json = &report->steps;
    char tail[256];
    if (json->len)
        base_buf_add_byte(json, ',');
    base_buf_add_text(json, "{\"command\":");
    ctl_json_add_string(json, ctl_cut_text(command, CTL_COMMAND_BYTES_MAX));
    base_buf_add_text(json, ",\"stdoutBase64\":\"");
    size_t fixed = json->len + sizeof tail; /* the tail is shorter, which costs nobody anything */
    size_t room = fixed < CTL_STEPS_JSON_MAX ? CTL_STEPS_JSON_MAX - fixed : 0;
    size_t out = fitting(room, result->out.len);
    room -= ctl_base64_len(out);
    size_t err = fitting(room, result->err.len);
    ctl_json_add_base64(json, (plim_bytes){result->out.data, out});
    base_buf_add_text(json, "\",\"stderrBase64\":\"");
    ctl_json_add_base64(json, (plim_bytes){result->err.data, err});
    snprintf(tail, sizeof tail,
             "\",\"stdoutTruncated\":%s,\"stderrTruncated\":%s,\"exitCode\":%d,\"timedOut\":%s,"
             "\"durationMs\":%lld}",
             boolean(result->truncated || out < result->out.len),
             boolean(result->truncated || err < result->err.len), result->exit_code,
             boolean(result->timed_out), (long long)result->duration_ms);
    base_buf_add_text(json, tail);
}

/* Read at most `max` bytes of a file that may be changing. False when it holds more; `*readable`
 * says whether it could be read at all. */
static bool read_artifact(int fd, size_t size, base_buf *content, bool *readable)
{
    errno = 0;
    *readable = size <= content->max && ctl_read_all(fd, content);
    return *readable || (size <= content->max && errno != EFBIG);
}

bool ctl_report_artifact(struct ctl_report *report, plim_bytes path, int fd, size_t size)
{
    base_buf *json = &report->artifacts,
             content = BASE_BUF_INIT(CTL_ARTIFACTS_RAW_MAX - report->artifact_bytes);
    bool readable;
    bool fits = read_artifact(fd, size, &content, &readable);
    if (!fits)
        report->artifacts_truncated = true;
    if (fits && readable) {
        if (json->len)
            base_buf_add_byte(json, ',');
        base_buf_add_text(json, "{\"path\":");
        ctl_json_add_string(json, path);
        base_buf_add_text(json, ",\"content\":\"");
        ctl_json_add_base64(json, base_buf_bytes(&content));
        base_buf_add_text(json, "\"}");
        report->artifact_bytes += content.len;
        report->artifact_ends[report->artifact_count++] = json->len;
    }
    base_buf_free(&content);
    return fits;
}

/* Write one frame whose body is these pieces, in order. */
static bool write_frame(int fd, const unsigned char *key, const plim_bytes *pieces, size_t count)
{
    unsigned char mac[CTL_SHA256_BYTES] = {0};
    char header[HEADER_BYTES], hex[CTL_MAC_HEX + 1];
    size_t len = 0;
    struct ctl_hmac hmac;
    if (key)
        ctl_hmac_begin(&hmac, key, CTL_KEY_BYTES);
    for (size_t i = 0; i < count; i++) {
        len += pieces[i].len;
        if (key)
            ctl_hmac_add(&hmac, pieces[i].data, pieces[i].len);
    }
    if (key)
        ctl_hmac_end(&hmac, mac);
    explicit_bzero(&hmac, sizeof hmac);
    for (size_t i = 0; i < sizeof mac; i++)
        snprintf(hex + 2 * i, 3, "%02x", mac[i]);
    snprintf(header, sizeof header, "\n" CTL_REPORT_MARKER " %zu %s\n", len, hex);
    bool wrote = ctl_write_all(fd, plim_bytes_of(header));
    for (size_t i = 0; wrote && i < count; i++)
        wrote = ctl_write_all(fd, pieces[i]);
    return wrote;
}

bool ctl_report_write_error(int fd, const unsigned char *key, const char *error, plim_bytes about)
{
    base_buf message = BASE_BUF_INIT(ERROR_BYTES_MAX), body = BASE_BUF_INIT(ERROR_JSON_MAX);
    base_buf_add_text(&message, error);
    base_buf_add(&message, ctl_cut_text(about, ERROR_BYTES_MAX - 256));
    base_buf_add_text(&body, "{\"error\":");
    ctl_json_add_string(&body, base_buf_bytes(&message));
    base_buf_add_byte(&body, '}');
    plim_bytes piece = base_buf_bytes(&body);
    bool wrote = !message.failed && !body.failed && write_frame(fd, key, &piece, 1);
    base_buf_free(&message);
    base_buf_free(&body);
    return wrote;
}

bool ctl_report_write(struct ctl_report *report, int fd, const unsigned char *key)
{
    static const char head[] = "{\"steps\":[", middle[] = "],\"artifacts\":[",
                      flag[] = "],\"artifactsTruncated\":";
    const size_t fixed = sizeof head + sizeof middle + sizeof flag + sizeof "false}";
    if (report->steps.failed || report->artifacts.failed)
        return false;
    size_t count = report->artifact_count, artifacts = report->artifacts.len;
    while (count && fixed + report->steps.len + artifacts > CTL_BODY_BYTES_MAX) {
        count--;
        artifacts = count ? report->artifact_ends[count - 1] : 0;
    }
    if (fixed + report->steps.len + artifacts > CTL_BODY_BYTES_MAX)
        return ctl_report_write_error(fd, key, CTL_ERROR_BUDGET, (plim_bytes){NULL, 0});
    bool truncated = report->artifacts_truncated || count < report->artifact_count;
    const plim_bytes pieces[] = {
        PLIM_LIT("{\"steps\":["), base_buf_bytes(&report->steps),
        plim_bytes_of(middle),    {report->artifacts.data, artifacts},
        plim_bytes_of(flag),      plim_bytes_of(truncated ? "true}" : "false}"),
    };
    return write_frame(fd, key, pieces, sizeof pieces / sizeof pieces[0]);
}
