#include "daemon/daemon.h"

#include "providers/providers.h"

int main(int argc, char **argv)
{
    return daemon_main(argc, argv,
                       &(daemon_program){.find_provider = providers_find,
                                         .recheck_ms = DAEMON_RECHECK_MS,
                                         .drain_ms = DAEMON_DRAIN_MS});
}
