#include "cli/interrupt.h"

#include "base/base.h"

#include <signal.h>

static const int caught[] = {SIGINT, SIGTERM, SIGHUP};

/* What the handler fires; set while no handler is installed. */
static plim_cancel *target;

static void handle(int number)
{
    int saved = errno;
    signal(number, SIG_DFL);
    plim_cancel_fire(target); /* one write to a descriptor */
    errno = saved;
}

void cli_interrupt_arm(plim_cancel *cancel)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct sigaction before;
    target = cancel;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < PLIM_COUNT(caught); i++) {
        sigaction(caught[i], &action, &before);
        if (before.sa_handler == SIG_IGN) /* as nohup and a shell's background jobs want it */
            sigaction(caught[i], &before, NULL);
    }
}

void cli_interrupt_disarm(void)
{
    for (size_t i = 0; i < PLIM_COUNT(caught); i++) {
        struct sigaction now;
        sigaction(caught[i], NULL, &now);
        if (now.sa_handler == handle)
            signal(caught[i], SIG_DFL);
    }
    target = NULL;
}
