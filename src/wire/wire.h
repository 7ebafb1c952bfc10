/*
 * The door of the wire layer: the messages of plimsoll.v1, both encodings of them, and the way to
 * and from the core's requests and results. Everything here is a pure function over memory. A
 * decoded message lives in the caller's arena and borrows texts and bytes from the input, so both
 * must outlive it; any thread may use one message at a time.
 *
 * The codec follows protobuf-c's descriptors (any service's, see proto/generate), and reads hostile
 * bytes: depth, list lengths and memory are bounded while it reads.
 */
#ifndef WIRE_WIRE_H
#define WIRE_WIRE_H

#include "record/record.h"

#include "sandbox.pb-c.h"

#include "wire/messages.h"

#include "wire/codec.h"

#include "wire/convert.h"

#endif
