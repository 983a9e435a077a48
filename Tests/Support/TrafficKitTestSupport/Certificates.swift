import Foundation
import TestSupport

/// A CA of this test run, and certificates of that CA. openssl makes all of them.
public struct Certificates: Sendable {
    public let authority: String
    /// For `localhost` and `127.0.0.1`.
    public let certificate: String
    public let key: String
    /// For another host alone.
    public let foreignCertificate: String
    public let foreignKey: String

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
        (self.foreignCertificate, self.foreignKey) = (path("foreign.pem"), path("foreign.key"))
        let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        try await Tool.run(
            "openssl",
            [
                "req", "-x509", "-days", "2", "-subj", "/CN=trafficd test", "-keyout", path("ca.key"), "-out",
                path("ca.pem"),
            ]
                + curve
        )
        for (leaf, names) in [("leaf", "DNS:localhost,IP:127.0.0.1"), ("foreign", "DNS:foreign.example")] {
            try await Tool.run(
                "openssl",
                ["req", "-subj", "/CN=\(leaf)", "-keyout", path("\(leaf).key"), "-out", path("\(leaf).csr")] + curve
            )
            try Data("subjectAltName=\(names)\n".utf8).write(to: URL(filePath: path("\(leaf).names")))
            try await Tool.run(
                "openssl",
                [
                    "x509", "-req", "-days", "2", "-in", path("\(leaf).csr"), "-CA", path("ca.pem"), "-CAkey",
                    path("ca.key"), "-CAcreateserial", "-extfile", path("\(leaf).names"), "-out", path("\(leaf).pem"),
                ]
            )
        }
    }
}
