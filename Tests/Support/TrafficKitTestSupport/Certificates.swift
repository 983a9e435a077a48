import Foundation
import TestSupport

/// A CA of this test run, and a certificate of that CA for `localhost` and `127.0.0.1`. openssl makes both.
public struct Certificates: Sendable {
    public let authority: String
    public let certificate: String
    public let key: String

    private static let folder = FileManager.default.temporaryDirectory.appending(
        path: "trafficd-ca-\(UUID().uuidString)"
    )
    private static let made = Task { try await Certificates() }

    /// Made once in a process.
    public static var local: Certificates {
        get async throws { try await Self.made.value }
    }

    private init() async throws {
        let folder = Self.folder
        atexit { try? FileManager.default.removeItem(at: Certificates.folder) }
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let path = { (name: String) in folder.appending(path: name).path }
        (self.authority, self.certificate, self.key) = (path("ca.pem"), path("leaf.pem"), path("leaf.key"))
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        try await Tool.run(
            "openssl",
            [
                "req", "-x509", "-days", "2", "-subj", "/CN=trafficd test", "-keyout", path("ca.key"), "-out",
                path("ca.pem"),
            ]
                + curve
        )
        try await Tool.run(
            "openssl",
            ["req", "-subj", "/CN=localhost", "-keyout", path("leaf.key"), "-out", path("leaf.csr")] + curve
        )
        try Data("subjectAltName=DNS:localhost,IP:127.0.0.1\n".utf8).write(to: URL(filePath: path("names")))
        try await Tool.run(
            "openssl",
            [
                "x509", "-req", "-days", "2", "-in", path("leaf.csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"),
                "-CAcreateserial", "-extfile", path("names"), "-out", path("leaf.pem"),
            ]
        )
    }
}
