/* Digests of requests, results and records. The order of the fields is part of a digest, and that
 * of docs/run-records.md. */
#include "record/record.h"
#include "record/writer.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

static const char *rule_mode_name(plim_rule_mode mode)
{
    switch (mode) {
    case PLIM_RULE_EXACT:
        return "exact";
    case PLIM_RULE_APPROVED:
        return "approved";
    default:
        return "";
    }
}

static void write_files(record_writer *writer, const plim_file *files, size_t count)
{
    record_write_uint(writer, "files", count);
    for (size_t i = 0; i < count; i++) {
        record_write_bytes(writer, "file_path", files[i].path);
        record_write_bytes(writer, "file_content", files[i].content);
    }
}

static void write_project_request(record_writer *writer, const plim_project_request *project)
{
    record_write_bytes(writer, "grant_profile", project->grant_profile);
    write_files(writer, project->files, project->file_count);
    record_write_uint(writer, "steps", project->step_count);
    for (size_t i = 0; i < project->step_count; i++)
        record_write_bytes(writer, "step_command", project->steps[i]);
    record_write_uint(writer, "artifacts", project->artifact_count);
    for (size_t i = 0; i < project->artifact_count; i++)
        record_write_bytes(writer, "artifact_path", project->artifacts[i]);
}

static void write_module_request(record_writer *writer, const plim_module_request *module)
{
    record_write_bytes(writer, "model", module->model);
    record_write_doubles(writer, "end_time", &module->end_time, 1);
    record_write_doubles(writer, "step", &module->step, 1);
    record_write_uint(writer, "rows", module->rows);
    for (size_t i = 0; i < module->rows; i++)
        record_write_doubles(writer, "row_values", module->values + i * module->width,
                             module->width);
}

static void write_payload(record_writer *writer, const record_request *request)
{
    record_write_text(writer, "kind", plim_kind_name(request->kind));
    switch (request->kind) {
    case PLIM_KIND_JAVASCRIPT:
        record_write_bytes(writer, "code", request->javascript->code);
        record_write_bytes(writer, "grant_profile", request->javascript->grant_profile);
        break;
    case PLIM_KIND_PROJECT:
        write_project_request(writer, request->project);
        break;
    case PLIM_KIND_MODULE:
        write_module_request(writer, request->module);
        break;
    case PLIM_KIND_CELL:
        record_write_bytes(writer, "language", request->cell->language);
        record_write_bytes(writer, "code", request->cell->code);
        write_files(writer, request->cell->files, request->cell->file_count);
        break;
    default:
        break;
    }
}

bool record_request_digest(const record_request *request, char out[BASE_SHA256_HEX + 1])
{
    bool has_software = request->protocol >= 2;
    record_writer writer =
        record_writer_start(has_software ? "plimsoll.run-request.v2" : "plimsoll.run-request.v1");
    record_write_uint(&writer, "protocol", request->protocol);
    record_write_bytes(&writer, "minimum_isolation", request->minimum_isolation);
    record_write_int(&writer, "timeout_ms", request->timeout_ms);
    if (has_software) {
        const plim_software_rule *rule = &request->software;
        record_write_text(&writer, "software_mode", rule_mode_name(rule->mode));
        record_write_uint(&writer, "software_identities", rule->count);
        for (size_t i = 0; i < rule->count; i++)
            record_write_bytes(&writer, "software_identity", rule->identities[i]);
    }
    write_payload(&writer, request);
    return record_writer_finish(&writer, out);
}

/* What a snippet and a cell share. */
static void write_run_result(record_writer *writer, const plim_result *result)
{
    record_write_int(writer, "exit_code", result->exit_code);
    record_write_bool(writer, "timed_out", result->timed_out);
    record_write_bytes(writer, "stdout", result->out);
    record_write_bytes(writer, "stderr", result->err);
    record_write_bool(writer, "stdout_truncated", result->out_truncated);
    record_write_bool(writer, "stderr_truncated", result->err_truncated);
}

static void write_project_result(record_writer *writer, const plim_result *result)
{
    record_write_int(writer, "outcome", (int64_t)result->outcome);
    record_write_bytes(writer, "outcome_detail", result->outcome_detail);
    record_write_bool(writer, "artifacts_truncated", result->artifacts_truncated);
    record_write_uint(writer, "steps", result->step_count);
    for (size_t i = 0; i < result->step_count; i++) {
        const core_step_result *step = &result->steps[i];
        record_write_bytes(writer, "step_command", step->command);
        record_write_int(writer, "step_exit_code", step->exit_code);
        record_write_bool(writer, "step_timed_out", step->timed_out);
        record_write_bytes(writer, "step_stdout", step->out);
        record_write_bytes(writer, "step_stderr", step->err);
        record_write_bool(writer, "step_stdout_truncated", step->out_truncated);
        record_write_bool(writer, "step_stderr_truncated", step->err_truncated);
    }
    record_write_uint(writer, "artifacts", result->artifact_count);
    for (size_t i = 0; i < result->artifact_count; i++) {
        record_write_bytes(writer, "artifact_path", result->artifacts[i].path);
        record_write_bytes(writer, "artifact_content", result->artifacts[i].content);
    }
}

static void write_module_result(record_writer *writer, const plim_result *result)
{
    record_write_int(writer, "outcome", (int64_t)result->outcome);
    record_write_bytes(writer, "outcome_detail", result->outcome_detail);
    record_write_int(writer, "width", result->width);
    record_write_bytes(writer, "stdout", result->out);
    record_write_bytes(writer, "stderr", result->err);
    record_write_uint(writer, "runs", result->row_count);
    for (size_t i = 0; i < result->row_count; i++) {
        record_write_int(writer, "run_status", result->rows[i].status);
        record_write_doubles(writer, "run_outputs", result->rows[i].outputs, result->rows[i].count);
    }
}

bool record_result_digest(const plim_result *result, char out[BASE_SHA256_HEX + 1])
{
    record_writer writer = record_writer_start("plimsoll.run-result.v1");
    record_write_text(&writer, "kind", plim_kind_name(result->kind));
    switch (result->kind) {
    case PLIM_KIND_JAVASCRIPT:
        write_run_result(&writer, result);
        break;
    case PLIM_KIND_PROJECT:
        write_project_result(&writer, result);
        break;
    case PLIM_KIND_MODULE:
        write_module_result(&writer, result);
        break;
    case PLIM_KIND_CELL:
        write_run_result(&writer, result);
        record_write_bool(&writer, "interpreter_started", result->interpreter_started);
        record_write_bool(&writer, "interpreter_ended", result->interpreter_ended);
        break;
    default:
        break;
    }
    return record_writer_finish(&writer, out);
}

bool record_digest(const plim_record *record, char out[BASE_SHA256_HEX + 1])
{
    char domain[48];
    snprintf(domain, sizeof(domain), "plimsoll.run-record.v%" PRIu32, record->version);
    record_writer writer = record_writer_start(domain);
    record_write_text(&writer, "request_sha256", record->request_sha256);
    record_write_text(&writer, "result_sha256", record->result_sha256);
    if (record->version >= RECORD_VERSION_UNANSWERED)
        record_write_text(&writer, "unanswered", record->unanswered);
    record_write_text(&writer, "provider", record->provider);
    record_write_text(&writer, "isolation", record->isolation);
    record_write_text(&writer, "environment", record->environment);
    record_write_text(&writer, "policy", record->policy);
    if (record->version >= RECORD_VERSION_ANSWERED) {
        record_write_text(&writer, "software_identity", record->software_identity);
        record_write_text(&writer, "software_rule_id", record->software_rule_id);
    }
    record_write_int(&writer, "started_unix_ms", record->started_unix_ms);
    record_write_int(&writer, "ended_unix_ms", record->ended_unix_ms);
    record_write_text(&writer, "session", record->session);
    record_write_uint(&writer, "sequence", record->sequence);
    record_write_text(&writer, "previous_sha256", record->previous_sha256);
    return record_writer_finish(&writer, out);
}

bool record_owner_digest(plim_bytes token, plim_bytes owner, char out[BASE_SHA256_HEX + 1])
{
    _cleanup_(base_buf_free)
    base_buf message = BASE_BUF_INIT(SIZE_MAX / 4);
    unsigned char key[BASE_SHA256_BYTES], hash[BASE_SHA256_BYTES];
    unsigned int hash_size = 0;
    out[0] = '\0';
    base_sha256 *sha = base_sha256_new();
    if (!sha)
        return false;
    base_sha256_update(sha, PLIM_LIT("plimsoll session owner key v2\n"));
    base_sha256_update(sha, token);
    bool made = base_sha256_final(sha, key);
    base_sha256_free(sha);
    base_buf_add_text(&message, "plimsoll session owner v2\n");
    made = made && base_buf_add(&message, owner) &&
           HMAC(EVP_sha256(), key, sizeof(key), (const unsigned char *)message.data, message.len,
                hash, &hash_size) &&
           hash_size == sizeof(hash);
    if (made)
        base_hex(hash, sizeof(hash), out);
    base_wipe(key, sizeof(key));
    base_wipe(message.data, message.len);
    return made;
}
