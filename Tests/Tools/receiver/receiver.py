#!/usr/bin/python3
"""A receiver of metrics that others wrote: Google's protobuf reads OTLP here, with modules that protoc makes of OTLP's
definitions.

Prints the port, then a line of JSON for each request: what became of it, its headers and its points. How it answers is
the last line of its input:
  take               200
  status CODE [TIME] this status, with Retry-After
  partial COUNT      200, with so many points left out
  hang               no answer until another line comes
  half               the head of an answer, and no body
  forward URL        what the receiver at URL answers
  twice URL          the same, but the receiver at URL gets each request two times
  lose URL           the receiver at URL gets it, and the connection ends without an answer
"""
import argparse
import gzip
import http.server
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("protos", type=pathlib.Path, help="directory of OTLP's definitions")
parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0: any")
parser.add_argument("--quiet", action="store_true", help="print no line for a request: the reader looks elsewhere")
parser.add_argument("--certificate", help="in PEM: speak TLS")
parser.add_argument("--key", help="of the certificate")
options = parser.parse_args()
protos = options.protos
modules = tempfile.TemporaryDirectory()
files = [str(path.relative_to(protos)) for path in protos.rglob("*.proto")]
subprocess.run(["protoc", f"-I{protos}", f"--python_out={modules.name}", *files], check=True)
sys.path.insert(0, modules.name)
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as otlp  # noqa: E402

changed = threading.Condition()
behaviour, version = ["take"], 0


def values(attributes):
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in attributes}


def points(body):
    """Every point of a request, with all that is known of it. Whole numbers stay whole."""
    request = otlp.ExportMetricsServiceRequest.FromString(body)
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                for point in data.data_points:
                    found = {
                        "name": metric.name, "unit": metric.unit, "kind": kind, "scope": scope.scope.name,
                        "resource": values(resource.resource.attributes), "attributes": values(point.attributes),
                        "start": point.start_time_unix_nano, "time": point.time_unix_nano,
                    }
                    if kind != "gauge":
                        found["cumulative"] = data.aggregation_temporality == 2
                    if kind == "histogram":
                        found |= {
                            "count": point.count, "sum": point.sum, "buckets": list(point.bucket_counts),
                            "bounds": list(point.explicit_bounds),
                        }
                    else:
                        found["value"] = getattr(point, point.WhichOneof("value"))
                    yield found


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        with changed:
            word, version_now = behaviour, version
        headers = {name.lower(): value for name, value in self.headers.items()}
        if options.quiet:
            self.act(word, version_now, body)
            return
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        if headers["content-type"] == "application/x-protobuf":
            contents = list(points(plain))
        else:
            contents = [json.loads(line) for line in plain.splitlines()]
        line = {"did": word[0], "path": self.path, "headers": headers, "points": contents}
        with changed:
            print(json.dumps(line), flush=True)
        self.act(word, version_now, body)

    def act(self, word, version_now, body):
        if word[0] in ("forward", "twice", "lose"):
            status, answer = self.forward(word[1], body)
            if word[0] == "twice":
                status, answer = self.forward(word[1], body)
            if word[0] == "lose":
                self.close_connection = True
                return
            self.answer(status, answer)
        elif word[0] == "status":
            self.answer(int(word[1]), b"", word[2] if len(word) > 2 else None)
        elif word[0] == "partial":
            answer = otlp.ExportMetricsServiceResponse()
            answer.partial_success.rejected_data_points = int(word[1])
            answer.partial_success.error_message = "too old"
            self.answer(200, answer.SerializeToString())
        elif word[0] in ("hang", "half"):
            if word[0] == "half":
                self.send_response(200)
                self.send_header("content-length", "100")
                self.end_headers()
                self.wfile.flush()
            with changed:
                changed.wait_for(lambda: version != version_now)
            self.close_connection = True
        else:
            self.answer(200, b"")

    def forward(self, url, body):
        request = urllib.request.Request(url, data=body, method="POST")
        for name in ("content-type", "content-encoding"):
            if name in self.headers:
                request.add_header(name, self.headers[name])
        with urllib.request.urlopen(request) as response:
            return response.status, response.read()

    def answer(self, status, body, retry_after=None):
        self.send_response(status)
        if retry_after:
            self.send_header("retry-after", retry_after)
        if status == 307:
            self.send_header("location", "/elsewhere")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        # The tests have clients that refuse the certificate. That is no error here.
        if not isinstance(sys.exc_info()[1], ssl.SSLError):
            super().handle_error(request, client_address)


server = Server(("127.0.0.1", options.port), Handler)
if options.certificate:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.certificate, options.key)
    # The handshake belongs to the thread of the connection, not to the one that accepts.
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print(server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
for line in sys.stdin:
    with changed:
        behaviour, version = line.split(), version + 1
        changed.notify_all()
    print(json.dumps({"did": "obeyed", "points": []}), flush=True)
