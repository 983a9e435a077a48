import Foundation
import TestSupport

/// nginx with its own counters, plain on `port` and with TLS on `tlsPort`.
///
/// `/file` has 300,000 bytes. `/text` comes in chunks where the client accepts gzip. `/to/…` redirects to `/file`.
/// Uploads to `/put/…` are kept, and come back from `/br/…` and `/deflate/…` with that content coding. What is posted
/// to `/post/…` is read. Another server answers `/passed/…`.
public final class Nginx: Sendable {
    /// A line of its log: plaintext bytes of a request and its response.
    public struct Entry: Hashable, Sendable {
        public var requestBytes: UInt64
        public var responseBytes: UInt64
        public var bodyBytes: UInt64
        public var status: UInt16
        public var target: String
        /// nginx's own number of the connection. Several requests may have the same number.
        public var connection: UInt64
        /// `TLSv1.3`; `-` where there is none.
        public var tls: String
    }

    /// Compression halves this text.
    public static let text = (0..<10_000).map { "\($0 * 2_654_435_761 % 1_000_007) " }.joined()

    public let port: Int
    public let tlsPort: Int
    private let folder: URL

    /// - Parameters:
    ///   - tls: Which versions of TLS it speaks.
    ///   - other: The port of the other server, which gets only the heads of requests.
    public init(tls: String = "TLSv1.2 TLSv1.3", passingTo other: Int = 9) async throws {
        let certificates = try await Certificates.local
        self.folder = FileManager.default.temporaryDirectory.appending(path: "nginx-\(UUID().uuidString)")
        for name in ["root/put", "tmp"] {
            try FileManager.default.createDirectory(
                at: self.folder.appending(path: name),
                withIntermediateDirectories: true
            )
        }
        // The workers may run as another user.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: self.folder.path)
        try Data(repeating: 7, count: 300_000).write(to: self.folder.appending(path: "root/file"))
        try Data(Self.text.utf8).write(to: self.folder.appending(path: "root/text"))
        for name in ["file", "text"] {
            // The same date in every run, because `Last-Modified` and `ETag` are made from it.
            try FileManager.default.setAttributes(
                [.modificationDate: Date(timeIntervalSince1970: 1_000_000_000)],
                ofItemAtPath: self.folder.appending(path: "root/\(name)").path
            )
        }
        var ports = (0, 0)
        for attempt in 0... {
            // The ports are free now. Another program may take them first.
            ports = (try FreePort.next(), try FreePort.next())
            let text = Self.configuration(ports, tls, other, certificates)
            try Data(text.utf8).write(to: self.folder.appending(path: "nginx.conf"))
            // nginx returns when it listens.
            let tool = try await Self.nginx(self.folder, [], mayFail: attempt < 4)
            if tool.status == 0 { break }
        }
        (self.port, self.tlsPort) = ports
    }

    private static func nginx(_ folder: URL, _ arguments: [String], mayFail: Bool) async throws -> Tool {
        let path = ["PATH=\(ProcessInfo.processInfo.environment["PATH"] ?? ""):/usr/sbin"]
        return try await Tool.run(
            "env",
            path + ["nginx", "-p", folder.path, "-e", "error.log", "-c", "nginx.conf"] + arguments,
            mayFail: mayFail
        )
    }

    /// The log of nginx, without requests that are still in progress.
    public func log() throws -> [Entry] {
        let text = String(decoding: try Data(contentsOf: self.folder.appending(path: "access.log")), as: UTF8.self)
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count == 7, let request = UInt64(words[0]), let response = UInt64(words[1]),
                let body = UInt64(words[2]), let status = UInt16(words[3]), let connection = UInt64(words[5])
            else { return nil }
            return Entry(
                requestBytes: request,
                responseBytes: response,
                bodyBytes: body,
                status: status,
                target: String(words[4]),
                connection: connection,
                tls: String(words[6])
            )
        }
    }

    public func stop() async throws {
        _ = try await Self.nginx(self.folder, ["-s", "stop"], mayFail: true)
        // nginx may be removing its own files at the same time. Then removing the folder is tried again.
        for _ in 0..<3 where FileManager.default.fileExists(atPath: self.folder.path) {
            try? FileManager.default.removeItem(at: self.folder)
        }
    }

    private static func configuration(
        _ ports: (Int, Int),
        _ tls: String,
        _ other: Int,
        _ certificates: Certificates
    ) -> String {
        """
        \(getuid() == 0 ? "user root;" : "")
        worker_processes 1;
        pid nginx.pid;
        events { worker_connections 256; }
        http {
            log_format counts '$request_length $bytes_sent $body_bytes_sent $status $request_uri $connection $ssl_protocol';
            access_log access.log counts;
            keepalive_requests 10000;
            keepalive_timeout 3600s; client_header_timeout 3600s; client_body_timeout 3600s; send_timeout 3600s;
            proxy_read_timeout 3600s; proxy_send_timeout 3600s;
            absolute_redirect off;
            client_max_body_size 100m;
            client_body_temp_path tmp/1; proxy_temp_path tmp/2; fastcgi_temp_path tmp/3; uwsgi_temp_path tmp/4;
            scgi_temp_path tmp/5;
            server {
                listen 127.0.0.1:\(ports.0);
                listen 127.0.0.1:\(ports.1) ssl;
                ssl_certificate \(certificates.certificate);
                ssl_certificate_key \(certificates.key);
                ssl_protocols \(tls);
                root root;
                location / { }
                location /text { gzip on; gzip_types *; }
                location /to/ { return 302 /file; }
                location /put/ { dav_methods PUT; }
                location /post/ { proxy_pass http://127.0.0.1:\(ports.0)/posted/; }
                location /passed/ {
                    proxy_pass http://127.0.0.1:\(other);
                    proxy_pass_request_body off;
                    proxy_set_header Content-Length "";
                }
                location /posted/ { access_log off; return 200 posted; }
                location /br/ { alias root/put/; add_header Content-Encoding br; }
                location /deflate/ { alias root/put/; add_header Content-Encoding deflate; }
            }
        }
        """
    }
}
