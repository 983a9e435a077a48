import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport

/// A separate nginx on a free port, with a log of the bytes that nginx counted. Listens on the loopback address unless
/// a test names another.
final class WebServer {
    struct LogEntry {
        var remotePort: UInt16
        var bytesSent: UInt64
        var requestLength: UInt64
    }

    let port: UInt16
    /// The folder of the served files.
    let folder: URL
    private let root: URL
    private let program: Program

    /// - Parameters:
    ///   - addresses: The addresses on which nginx listens, as written in URLs.
    ///   - namespace: The network namespace in which nginx runs. `nil` is the test's own.
    init(
        files: [String: Int],
        addresses: [String] = ["127.0.0.1"],
        in namespace: NetworkNamespace? = nil
    ) async throws {
        self.root = FileManager.default.temporaryDirectory.appending(path: "nginx-\(UUID().uuidString)")
        self.folder = self.root.appending(path: "files")
        try FileManager.default.createDirectory(
            at: self.folder.appending(path: "upload"),
            withIntermediateDirectories: true
        )
        for (name, bytes) in files {
            try Data(repeating: UInt8(ascii: "x"), count: bytes).write(to: self.folder.appending(path: name))
        }
        let port = UInt16(try FreePort.next())
        self.port = port
        let configuration = self.root.appending(path: "nginx.conf")
        try Self.configuration(listen: addresses.map { "listen \($0):\(port);" }.joined(separator: " "))
            .write(to: configuration, atomically: true, encoding: .utf8)
        let nginx = try #require(Machine.path(of: "nginx"))
        let launcher = try namespace?.launcher()
        let command = [nginx.path, "-p", self.root.path, "-e", "error.log", "-c", configuration.path]
        self.program = try Program(
            launcher?.program ?? nginx,
            launcher.map { $0.arguments + command } ?? Array(command.dropFirst())
        )
        try await self.waitUntilReady()
    }

    deinit {
        try? FileManager.default.removeItem(at: self.root)
    }

    private static func configuration(listen: String) -> String {
        """
        daemon off;
        user root;
        worker_processes 2;
        pid nginx.pid;
        error_log error.log;
        events { worker_connections 512; }
        http {
            sendfile on;
            log_format bytes '$remote_port $bytes_sent $request_length';
            access_log access.log bytes;
            client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
            uwsgi_temp_path uwsgi; scgi_temp_path scgi;
            client_max_body_size 100m;
            server {
                \(listen)
                root files;
                location /upload/ { dav_methods PUT; }
            }
        }
        """
    }

    private func waitUntilReady() async throws {
        let file = self.root.appending(path: "nginx.pid").path
        _ = try await eventually { FileManager.default.fileExists(atPath: file) || !self.program.isRunning }
        guard FileManager.default.fileExists(atPath: file) else {
            throw Program.Failure(description: "nginx did not start: \(self.program.errorText)")
        }
    }

    func url(_ path: String, at address: String = "127.0.0.1") -> String { "http://\(address):\(self.port)/\(path)" }

    /// Stops nginx after its last response. Then the log is complete.
    func stop() async throws {
        self.program.signal(SIGQUIT)
        try await self.program.exit()
    }

    func log() throws -> [LogEntry] {
        let text = try String(contentsOf: self.root.appending(path: "access.log"), encoding: .utf8)
        return text.split(separator: "\n").map { line in
            let fields = line.split(separator: " ").map { UInt64($0) ?? 0 }
            return LogEntry(remotePort: UInt16(fields[0]), bytesSent: fields[1], requestLength: fields[2])
        }
    }
}
