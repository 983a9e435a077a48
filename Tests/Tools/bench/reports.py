"""How many reports the daemon can take: exchanges per second without loss, the daemon's share of a processor, and its
memory with a million paths.

This file is the sender, in a process of its own. The sender first moves bytes over a connection, so that the kernel
counts them, and makes reports that claim all these bytes. Then the clock starts. As the library does, the sender sends
without waiting, and keeps for the next time what found no room.
"""

import collections
import contextlib
import socket
import struct
import sys
import threading
import time

NAME, EXCHANGE = 1, 2
REQUEST, RESPONSE, OUTCOME = 1, 2, 4
REQUEST_BYTES, RESPONSE_BYTES = 100, 200
SERVER, HTTP_1_1, EXACT, JSON, OK = 2, 11, 1, 2, 1
DECODED, DECLARED = 2, 4
SO_COOKIE = 57
PER_DATAGRAM = 100
BACKLOG = 32  # DatagramQueue.most


def record(kind: int, role: int, content: bytes) -> bytes:
    length = 4 + len(content)
    return struct.pack("<BBH", kind, role, length + -length % 8) + content + bytes(-length % 8)


def name(route: str) -> bytes:
    texts = [text.encode() for text in ("GET", "api.example", route)]
    return record(NAME, 0, struct.pack("<HHH", *map(len, texts)) + b"".join(texts))


def message(start: int, length: int, begin: int, status: int) -> bytes:
    return struct.pack(
        "<QII II HHHHH H BBBB",
        *(start, length, length - 60, begin, 1_000_000),
        *(0, 0, 20, 40, 0),
        *(status, HTTP_1_1, EXACT, JSON, DECODED | DECLARED),
    )


def exchange(index: int, cookie: int, now: int, name_index: int) -> bytes:
    fixed = struct.pack("<HHQQQ", REQUEST | RESPONSE | OUTCOME, name_index, index + 1, cookie, now)
    outcome = struct.pack("<Q III HBx", 1_000_000 + index % 50_000_000, 10, 900, 90, 200, OK)
    return record(
        EXCHANGE,
        SERVER,
        fixed
        + message(index * REQUEST_BYTES, REQUEST_BYTES, 0, 0)
        + message(index * RESPONSE_BYTES, RESPONSE_BYTES, 0, 200)
        + outcome,
    )


def records(indexes: range, cookie: int, now: int, paths: int) -> list[bytes]:
    """The names of the exchanges, each where it first occurs, and the exchanges."""
    all_records, names = [], {}
    for index in indexes:
        route = f"/path/{index % paths}"
        if route not in names:
            names[route] = len(names)
            all_records.append(name(route))
        all_records.append(exchange(index, cookie, now, names[route]))
    return all_records


def moved(count: int) -> tuple[socket.socket, socket.socket]:
    """A server's end of a connection that received `count` requests and sent `count` responses."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()

    def play(end: socket.socket, send: int, receive: int) -> None:
        sender = threading.Thread(target=end.sendall, args=(bytes(send),))
        sender.start()
        left = receive
        while left > 0:
            left -= len(end.recv(1 << 20))
        sender.join()

    other = threading.Thread(target=play, args=(client, count * REQUEST_BYTES, count * RESPONSE_BYTES))
    other.start()
    play(server, count * RESPONSE_BYTES, count * REQUEST_BYTES)
    other.join()
    return server, client


def main() -> None:
    path, count, per_second, paths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    server, client = moved(count)
    cookie = struct.unpack("<Q", server.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0]
    now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    datagrams = []
    for first in range(0, count, PER_DATAGRAM):
        indexes = range(first, min(first + PER_DATAGRAM, count))
        all_records = records(indexes, cookie, now, paths)
        header = struct.pack("<BBHIIQ", 1, 24, len(all_records), first // PER_DATAGRAM, 0, now)
        datagrams.append(b"TRFC" + header + b"".join(all_records))
    # Gives the daemon time to read the name of this process, which the daemon does when the process first moves bytes.
    time.sleep(2)
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)
    start, dropped = time.monotonic(), 0
    waiting = collections.deque()

    def send_waiting() -> None:
        with contextlib.suppress(BlockingIOError):
            while waiting:
                sender.sendto(waiting[0], path)
                waiting.popleft()

    for index, datagram in enumerate(datagrams):
        wait = start + index * PER_DATAGRAM / per_second - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        if len(waiting) < BACKLOG:
            waiting.append(datagram)
        else:
            dropped += 1
        send_waiting()
    elapsed = time.monotonic() - start
    while waiting:
        time.sleep(0.01)
        send_waiting()
    print(elapsed, dropped * PER_DATAGRAM, flush=True)
    sys.stdin.read()
    server.close()
    client.close()


if __name__ == "__main__":
    main()
