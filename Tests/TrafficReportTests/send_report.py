#!/usr/bin/env python3
"""Tell trafficd of one exchange, without the library: what another language has to do, and all of it.

usage: send_report.py SOCKET
"""
import socket
import struct
import sys
import time

UNKNOWN64, UNKNOWN32 = 2**64 - 1, 2**32 - 1
REQUEST, RESPONSE, OUTCOME = 1, 2, 3
CLIENT, HTTP_1_1, EXACT, JSON, OK, FIRST = 1, 11, 1, 2, 1, 1


def record(kind, fixed, *strings):
    tail = b"".join(struct.pack("<H", len(text)) + text for text in (string.encode() for string in strings))
    length = 8 + len(fixed) + len(tail)
    padding = -length % 8
    return struct.pack("<HHI", kind, len(fixed), length + padding) + fixed + tail + bytes(padding)


def message(exchange, cookie, start, end, interval, body, line, header, status=0, content=0):
    return struct.pack(
        "<QQQ QQQ QQ QQQQQ III HH BBBBB 3x",
        *(exchange, 0, cookie),
        *(interval[0], interval[1], interval[1] - interval[0]),
        *(start, end),
        *(body, body, UNKNOWN64, 0, 0),
        *(line, header, 0),
        *(status, 0),
        *(CLIENT, HTTP_1_1, EXACT, content, 0),
    )


def datagram(sequence, records, sent_at):
    return b"TRFC" + struct.pack("<BBHIIQ", 1, 24, len(records), sequence, 0, sent_at) + b"".join(records)


def report(cookie, start, end):
    line, fields = b"GET /users/7?q=1 HTTP/1.1\r\n", b"Host: api.example\r\n\r\n"
    names = ("GET", "api.example", "/users/{id}")
    phases = (UNKNOWN32, 120, UNKNOWN32, 15, 900, 30)
    return [
        record(REQUEST, message(1, cookie, start, start, (0, 48), 0, len(line), len(fields)), *names),
        record(RESPONSE, message(1, cookie, start, end, (0, 250), 100, 17, 133, 200, JSON), *names),
        record(OUTCOME, struct.pack("<QQQQ IIIIII BBH B3x Q", 1, 0, start, end - start, *phases, CLIENT, OK, 200, FIRST, 0), *names),
    ]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)  # the program's own work never waits for the daemon
        sender.sendto(datagram(0, report(0x1234, now - 1_065_000, now), now), sys.argv[1])
