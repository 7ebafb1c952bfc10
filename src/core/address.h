/* A `host:port` to listen on or to call; pure functions over text. IPv6 addresses stand in
 * brackets, an empty host is every interface, a port is decimal. */
#ifndef CORE_ADDRESS_H
#define CORE_ADDRESS_H

/* Is this a well-formed address? The host is not looked up. */
bool core_address_valid(plim_bytes address);

/* Is the host `localhost` (any case), in 127.0.0.0/8, or ::1? No other name is, wherever it may
 * lead. */
bool core_address_is_loopback(plim_bytes address);

#endif
