/*
 * A hostile daemon: whatever it answers, in whatever pieces, is read the same; a refusal that is
 * not bound marks nothing, and one that is has no record when it is marked. The first byte chooses
 * how the rest is cut.
 */
#include "client/refusal.h"

#include "fuzz.h"

static void read_in_pieces(client_answer *answer, plim_bytes in, size_t piece)
{
    client_answer_init(answer);
    for (size_t at = 0; at < in.len; at += piece) {
        size_t left = in.len - at;
        client_answer_feed(answer, (plim_bytes){in.data + at, left < piece ? left : piece});
    }
    client_answer_end(answer);
}

static void check_refusal(const client_answer *answer)
{
    plim_error err = PLIM_ERROR_INIT;
    client_read_refusal(answer, false, PLIM_LIT("secret"), &err);
    CHECK(plim_may_have_run(&err) && !client_details_of(&err)->unanswered);
    CHECK(plim_error_session_end(&err) == PLIM_SESSION_OPEN);
    CHECK(!strstr(plim_error_message(&err), "secret"));
    client_read_refusal(answer, true, PLIM_LIT("secret"), &err);
    CHECK(plim_may_have_run(&err) || !client_details_of(&err)->unanswered);
    CHECK(plim_error_status(&err) != PLIM_OK);
    plim_error_clear(&err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    plim_bytes in = {(const char *)data + 1, size - 1};
    client_answer whole, pieces;
    read_in_pieces(&whole, in, in.len + 1);
    read_in_pieces(&pieces, in, data[0] + 1u);
    CHECK(whole.state != CLIENT_ANSWER_MORE && whole.state == pieces.state);
    if (whole.state == CLIENT_ANSWER_COMPLETE) {
        CHECK(whole.status >= 200 && whole.status == pieces.status);
        CHECK(base_bytes_equal(base_buf_bytes(&whole.body), base_buf_bytes(&pieces.body)));
        check_refusal(&whole);
    }
    client_answer_free(&whole);
    client_answer_free(&pieces);
    return 0;
}
