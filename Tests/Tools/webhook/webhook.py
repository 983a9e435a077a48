#!/usr/bin/env python3
"""A server that takes POSTs. Its arguments are a port (0: any) and how to answer the first requests, one after the other:
a status, a status and the seconds of Retry-After (429:3), or hang (no answer). All later ones get 200.

Prints the port, then a line of JSON for each request: the time in seconds, the answer, the headers and the body.
"""
import http.server
import json
import sys
import threading
import time

answers = sys.argv[2:]
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        with lock:
            answer = answers.pop(0) if answers else "200"
            headers = {name.lower(): value for name, value in self.headers.items()}
            line = {"time": time.monotonic(), "answer": answer, "path": self.path, "headers": headers, "body": body}
            print(json.dumps(line), flush=True)
        if answer == "hang":
            # Until the client goes.
            self.rfile.read(1)
            self.close_connection = True
            return
        status, _, seconds = answer.partition(":")
        self.send_response(int(status))
        if seconds:
            self.send_header("retry-after", seconds)
        if status == "307":
            self.send_header("location", "/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
