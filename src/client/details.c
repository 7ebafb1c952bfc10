#include "client/details.h"

static void free_details(struct plim_error_more *more)
{
    client_details *details = (client_details *)more;
    base_free(details->session_end_detail);
    plim_record_free(details->unanswered);
    plim_error_clear(&details->cause);
    base_free(details);
}

client_details *client_details_of(plim_error *err)
{
    if (!err)
        return NULL;
    if (!err->more) {
        client_details *details = base_new(client_details);
        if (!details)
            return NULL;
        details->more.free = free_details;
        err->more = &details->more;
    }
    return (client_details *)err->more;
}

void client_error_set_cause(plim_error *err, plim_error *cause)
{
    client_details *details = client_details_of(err);
    plim_error_move(details ? &details->cause : NULL, cause);
}

static const char *const end_names[] = {
    "open",
    "closed",
    "expired",
    "disk_exceeded",
    "main_process_ended",
    "boundary_failed",
    "sandbox_changed",
    "shutdown",
    "replaced",
    "not_found",
    "unclaimed",
};

plim_session_end client_session_end(int64_t number)
{
    return number > 0 && number < (int64_t)PLIM_COUNT(end_names) ? (plim_session_end)number
                                                                 : PLIM_SESSION_UNKNOWN;
}

const char *plim_session_end_name(plim_session_end end)
{
    return (size_t)end < PLIM_COUNT(end_names) ? end_names[end] : "unknown";
}

static const client_details *read_details(const plim_error *err)
{
    static const client_details none;
    return err->more ? (const client_details *)err->more : &none;
}

bool plim_error_answer_not_bound(const plim_error *err)
{
    return read_details(err)->answer_not_bound;
}

plim_session_end plim_error_session_end(const plim_error *err)
{
    return read_details(err)->session_end;
}

const char *plim_error_session_end_detail(const plim_error *err)
{
    const char *detail = read_details(err)->session_end_detail;
    return detail ? detail : "";
}

const plim_error *plim_error_cause(const plim_error *err)
{
    const client_details *details = read_details(err);
    return plim_error_status(&details->cause) != PLIM_OK ? &details->cause : NULL;
}
