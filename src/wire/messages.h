/*
 * Names for the generated messages, and their numbers of protocol. A message is a plain struct: all
 * zero is its empty value but for `base`, which wire_make or WIRE_BASE sets. Texts and bytes are
 * plim_bytes.
 */
#ifndef WIRE_MESSAGES_H
#define WIRE_MESSAGES_H

typedef ProtobufCMessageDescriptor wire_type;
typedef ProtobufCMessage wire_message; /* what every message starts with, as `base` */

/* X(our name, generated name): wire_<our name>. */
#define WIRE_MESSAGES(X)                                                                           \
    X(describe_request, DescribeRequest)                                                           \
    X(describe_response, DescribeResponse)                                                         \
    X(payload_environment, PayloadEnvironment)                                                     \
    X(run_resources, RunResources)                                                                 \
    X(software_rule, SoftwareRule)                                                                 \
    X(advice_finding, AdviceFinding)                                                               \
    X(run_request, RunRequest)                                                                     \
    X(java_script_run, JavaScriptRun)                                                              \
    X(project_run, ProjectRun)                                                                     \
    X(project_file, ProjectFile)                                                                   \
    X(module_run, ModuleRun)                                                                       \
    X(module_row, ModuleRow)                                                                       \
    X(cell_run, CellRun)                                                                           \
    X(run_response, RunResponse)                                                                   \
    X(run_record, RunRecord)                                                                       \
    X(java_script_result, JavaScriptResult)                                                        \
    X(step_result, StepResult)                                                                     \
    X(artifact, Artifact)                                                                          \
    X(project_result, ProjectResult)                                                               \
    X(module_row_result, ModuleRowResult)                                                          \
    X(module_result, ModuleResult)                                                                 \
    X(cell_result, CellResult)                                                                     \
    X(open_session_request, OpenSessionRequest)                                                    \
    X(open_session_response, OpenSessionResponse)                                                  \
    X(session_run_request, SessionRunRequest)                                                      \
    X(session_run_response, SessionRunResponse)                                                    \
    X(close_session_request, CloseSessionRequest)                                                  \
    X(close_session_response, CloseSessionResponse)                                                \
    X(not_dispatched, NotDispatched)                                                               \
    X(session_ended, SessionEnded)                                                                 \
    X(unanswered_call, UnansweredCall)

#define X(name, generated) typedef Plimsoll__V1__##generated wire_##name;
WIRE_MESSAGES(X)
#undef X

/* The type of wire_<name>, and the `base` of a message that is not made by wire_make. */
#define WIRE_TYPE(name) (&plimsoll__v1__##name##__descriptor)
#define WIRE_BASE(name)                                                                            \
    {                                                                                              \
        WIRE_TYPE(name), 0, NULL                                                                   \
    }

/* An empty message in the arena; NULL when it is full. */
void *wire_new(base_arena *arena, const wire_type *type) PLIM_MUST_USE;
#define wire_make(arena, name) ((wire_##name *)wire_new((arena), WIRE_TYPE(name)))

/*
 * The numbers of protocol that this program serves, oldest first, and the one it speaks as a
 * client. A later number that adds a restricting field must replace the set, not extend it: an
 * older decoder would drop the restriction and run.
 */
enum { WIRE_PROTOCOL_OLDEST = 2, WIRE_PROTOCOL = 3 };
static inline bool wire_protocol_served(uint32_t protocol)
{
    static const uint32_t served[] = {WIRE_PROTOCOL_OLDEST, WIRE_PROTOCOL};
    for (size_t i = 0; i < PLIM_COUNT(served); i++)
        if (protocol == served[i])
            return true;
    return false;
}

#endif
