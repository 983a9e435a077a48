/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TRAFFIC_HEADERS_H
#define TRAFFIC_HEADERS_H

/*
 * The usual sizes of headers, in bytes (RFC 791, RFC 8200, RFC 9293, RFC 7323 with padding, RFC 768).
 */
enum traffic_header {
	TRAFFIC_IPV4_HEADER = 20,
	TRAFFIC_IPV6_HEADER = 40,
	TRAFFIC_TCP_HEADER = 20,
	TRAFFIC_TIMESTAMPS_OPTION = 12,
	TRAFFIC_UDP_HEADER = 8,
};

#endif
