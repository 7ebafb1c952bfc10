/*
 * The door of the net layer: HTTP as bytes, no policy and no I/O. Message heads, the HTTP/1.x
 * parser over llhttp, and the syntax rules that both directions share. Everything here belongs to
 * whoever holds it and is used by one thread at a time.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/base.h"

#include "net/head.h"
#include "net/http1.h"
#include "net/syntax.h"

#endif
