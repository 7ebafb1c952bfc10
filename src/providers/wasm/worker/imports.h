/*
 * The six functions that the guest may call, and nothing else. Their definitions carry the names
 * that wasm2c's output links against; this header is for the engine only. Every pointer and length
 * from the guest is checked against its memory here. Clocks are virtual and live here too.
 */
#ifndef PLIM_WASM_WORKER_IMPORTS_H
#define PLIM_WASM_WORKER_IMPORTS_H

#include "engine.h"
#include "rt.h"

/* The memory that guest addresses refer to; its content may change, its place may not. */
void imports_bind(const wasm_rt_memory_t *memory);

void imports_set_ports(const struct engine_ports *ports);

/* Both clocks back to their first reading. */
void imports_reset(void);

#endif
