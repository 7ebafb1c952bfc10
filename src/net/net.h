/*
 * The door of the net layer: HTTP as bytes, no policy. Message heads, the HTTP/1.x parsers over
 * llhttp, the syntax rules that both directions share, and the exchange over a Unix socket.
 * Everything here belongs to whoever holds it and is used by one thread at a time.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include "base/base.h"

#include "net/exchange.h"
#include "net/head.h"
#include "net/http1.h"
#include "net/response.h"
#include "net/syntax.h"

#endif
