import Foundation
import Glibc
import TestSupport

/// nghttp2's server with TLS, which prints each frame with its length. `/large` has 300,000 bytes, `/small` five.
public final class Nghttpd: Sendable {
    public let port: Int
    private let folder: URL
    private let pid: pid_t

    public init() async throws {
        let certificates = try await Certificates.local
        self.folder = FileManager.default.temporaryDirectory.appending(path: "nghttpd-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        try Data(repeating: 7, count: 300_000).write(to: self.folder.appending(path: "large"))
        try Data("small".utf8).write(to: self.folder.appending(path: "small"))
        let frames = self.folder.appending(path: "frames")
        let path = "\(ProcessInfo.processInfo.environment["PATH"] ?? ""):/usr/sbin"
        for _ in 0..<5 {
            // The port is free now. Another program may take the port first, and would then answer instead.
            let port = try FreePort.next()
            let words = [
                "env", "PATH=\(path)", "nghttpd", "-v", "-a", "127.0.0.1", "-d", self.folder.path, "\(port)",
                certificates.key, certificates.certificate,
            ]
            let pid = try Tool.start(words, output: frames.path)
            if try await Self.listens(pid, port, frames) {
                (self.port, self.pid) = (port, pid)
                return
            }
        }
        throw Tool.Failure(description: "nghttpd found no port")
    }

    /// - Returns: `false` where the server has ended.
    private static func listens(_ pid: pid_t, _ port: Int, _ output: URL) async throws -> Bool {
        let listens = try await look(every: .milliseconds(20), until: { $0 != nil }) { () -> Bool? in
            let text = String(decoding: try Data(contentsOf: output), as: UTF8.self)
            if text.contains("listen 127.0.0.1:\(port)") { return true }
            var status: Int32 = 0
            return waitpid(pid, &status, WNOHANG) == pid ? false : nil
        }
        guard let listens else { throw Tool.Failure(description: "nghttpd does not say that it listens") }
        return listens
    }

    /// Call it in ``Nghttp/patiently(_:)``.
    ///
    /// - Returns: The frames that the server has seen. Its received frames are the requests.
    public func stop() throws -> Nghttp.Frames {
        kill(self.pid, SIGTERM)
        var status: Int32 = 0
        while waitpid(self.pid, &status, 0) < 0 && errno == EINTR {}
        defer { try? FileManager.default.removeItem(at: self.folder) }
        let data = try Data(contentsOf: self.folder.appending(path: "frames"))
        let output = String(decoding: data, as: UTF8.self)
        try Nghttp.checkPatience(output)
        return Nghttp.frames(in: output)
    }
}
