/*
 * Projects between a request and the file system: the files below one folder in, artifacts below
 * another out. No link is followed on either way, and nothing that exists is written over. One
 * thread.
 */
#ifndef CLI_PROJECT_H
#define CLI_PROJECT_H

#include "cli/cli.h"

/*
 * Fill in the files of a project: the regular files below `folder`, in the order of their paths.
 * They live in the arena. False: a link or special file is among them, they are more than a request
 * may hold, or one cannot be read.
 */
bool cli_project_read(const char *folder, base_arena *arena, plim_project_request *out,
                      plim_error *err);

/* Open the folder that artifacts are written below, making it if need be. False: `err` is set. */
bool cli_project_open_out(const char *folder, int *out, plim_error *err);

/* Write the artifacts that were asked for. False: something was not written, and that was said. */
bool cli_project_write(int folder, const cli_list *asked, const plim_result *result);

#endif
