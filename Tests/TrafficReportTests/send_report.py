#!/usr/bin/env python3
"""Tell trafficd of one exchange, without the library: what another language has to do, and all of it.

usage: send_report.py SOCKET
"""
import socket
import struct
import sys
import time

NONE32 = 2**32 - 1
NAME, EXCHANGE = 1, 2
REQUEST, RESPONSE, OUTCOME, SETUP, FIRST = 1, 2, 4, 8, 32
DECODED, DECLARED = 2, 4
CLIENT, HTTP_1_1, EXACT, JSON, OK = 1, 11, 1, 2, 1


def record(kind, role, content):
    length = 4 + len(content)
    padding = -length % 8
    return struct.pack("<BBH", kind, role, length + padding) + content + bytes(padding)


def name(*strings):
    texts = [string.encode() for string in strings]
    return record(NAME, 0, struct.pack("<HHH", *map(len, texts)) + b"".join(texts))


def message(place, length, body, begin, end, line, fields, status=0, content=0, flags=0):
    """The short form. The times are nanoseconds: from the exchange's start, and from the message's first byte."""
    return struct.pack(
        "<QII II HHHHH H BBBB",
        *(place, length, body, begin, end),
        *(0, 0, line, fields, 0),
        *(status, HTTP_1_1, EXACT, content, flags),
    )


def datagram(sequence, records, sent_at):
    return b"TRFC" + struct.pack("<BBHIIQ", 1, 24, len(records), sequence, 0, sent_at) + b"".join(records)


def report(cookie, start, end):
    line, fields = b"GET /users/7?q=1 HTTP/1.1\r\n", b"Host: api.example\r\n\r\n"
    parts = REQUEST | RESPONSE | OUTCOME | SETUP | FIRST
    exchange = struct.pack("<HHQQQ", parts, 0, 1, cookie, start)  # name 0, exchange 1
    exchange += message(0, 48, 0, 0, 15_000, len(line), len(fields), 0, 1, DECODED)
    exchange += message(0, 250, 100, 915_000, end - start - 915_000, 17, 133, 200, JSON, DECODED | DECLARED)
    exchange += struct.pack("<Q III HBx", end - start, 15, 900, 30, 200, OK)
    exchange += struct.pack("<Q III 4x", 0, NONE32, 120, NONE32)  # no DNS, 120 microseconds to connect, no TLS
    return [name("GET", "api.example", "/users/{id}"), record(EXCHANGE, CLIENT, exchange)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)  # the program's own work never waits for the daemon
        sender.sendto(datagram(0, report(0x1234, now - 1_065_000, now), now), sys.argv[1])
