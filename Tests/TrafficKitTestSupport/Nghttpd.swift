import Foundation
import Glibc

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
        self.port = try CountingProxy.freePort()
        let path = "\(ProcessInfo.processInfo.environment["PATH"] ?? ""):/usr/sbin"
        let words = [
            "env", "PATH=\(path)", "nghttpd", "-v", "-a", "127.0.0.1", "-d", self.folder.path, "\(self.port)",
            certificates.key, certificates.certificate,
        ]
        self.pid = try Tool.start(words, output: self.folder.appending(path: "frames").path)
        for _ in 0..<500 where !CountingProxy.isListening(self.port) { try await Task.sleep(for: .milliseconds(20)) }
    }

    /// - Returns: What it has seen; received are the requests.
    public func stop() throws -> Nghttp.Frames {
        kill(self.pid, SIGTERM)
        var status: Int32 = 0
        while waitpid(self.pid, &status, 0) < 0 && errno == EINTR {}
        defer { try? FileManager.default.removeItem(at: self.folder) }
        let output = try Data(contentsOf: self.folder.appending(path: "frames"))
        return Nghttp.frames(in: String(decoding: output, as: UTF8.self))
    }
}
