#!/usr/bin/env python3
"""A server that takes POSTs. Its arguments are a port (0: any) and how to answer the first changes, one after the
other: a status, a status and the seconds of Retry-After (429:3), or hang: no answer until a line of input comes, and
then 200. All later ones get 200.

A change that comes again gets its answer again, because the client may not have waited for it. Only after an answer of
SOON it gets the next one.

Prints the port, then a line of JSON for each request: the time in seconds, the answer, whether the change has this
answer again, the headers and the body.
"""
import http.server
import json
import sys
import threading
import time

SOON = {"500", "503", "429", "429:3"}  # the client is to come again soon

answers = sys.argv[2:]
given = {}  # by the id of the change
changed = threading.Condition()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        change = self.headers["idempotency-key"]
        with changed:
            again = change in given and given[change] not in SOON
            if not again:
                given[change] = answers.pop(0) if answers else "200"
            headers = {name.lower(): value for name, value in self.headers.items()}
            line = {
                "time": time.monotonic(), "answer": given[change], "again": again, "path": self.path,
                "headers": headers, "body": body,
            }
            print(json.dumps(line), flush=True)
            changed.wait_for(lambda: given[change] != "hang")
            status, _, seconds = given[change].partition(":")
        self.send_response(int(status))
        if seconds:
            self.send_header("retry-after", seconds)
        if status == "307":
            self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def release():
    for _ in sys.stdin:
        with changed:
            given.update({change: "200" for change, answer in given.items() if answer == "hang"})
            changed.notify_all()


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
threading.Thread(target=release, daemon=True).start()
server.serve_forever()
