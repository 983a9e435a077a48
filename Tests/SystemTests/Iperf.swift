import Foundation
import GroundTruth
import TestSupport
import Testing

/// iperf3 over the loopback interface of a network namespace.
///
/// iperf3 uses the same port number for TCP and UDP, and opens the UDP port only in the middle of a test. Other
/// programs may
/// have taken that port by then; in a new network namespace every port is free.
struct Iperf {
    struct Report: Decodable {
        struct Start: Decodable { var connected: [Connection] }
        struct Connection: Decodable { var socket: Int, local_port: UInt16 }
        struct End: Decodable { var streams: [Stream] }
        /// TCP has one entry for each end. UDP has one entry for both ends.
        struct Stream: Decodable { var sender: Side?, udp: Side? }
        struct Side: Decodable { var socket: Int, bytes: UInt64 }
        var start: Start
        var end: End
    }

    /// The only field after a failure. The exit code is 0 even then.
    private struct Refusal: Decodable { var error: String? }

    static let port: UInt16 = 5201

    private let namespace: NetworkNamespace
    private let server: Program

    /// Returns once the server listens.
    init(in namespace: NetworkNamespace) async throws {
        self.namespace = namespace
        let (program, arguments) = try Self.command(in: namespace)
        self.server = try Program(
            program,
            arguments + ["--server", "--one-off", "--bind", "127.0.0.1", "--forceflush"]
        )
        while let line = try await self.server.line() {
            if String(decoding: line, as: UTF8.self).hasPrefix("Server listening on \(Self.port)") { return }
        }
        throw Program.Failure(description: "iperf3's server does not listen: \(self.server.errorText)")
    }

    private static func command(in namespace: NetworkNamespace) throws -> (program: URL, arguments: [String]) {
        let iperf = try #require(Machine.path(of: "iperf3"))
        let launcher = try namespace.launcher()
        return (launcher.program, launcher.arguments + [iperf.path, "--port", String(Self.port)])
    }

    /// One test of the client. The server serves only this test.
    func run(_ options: [String]) async throws -> Report {
        let (program, arguments) = try Self.command(in: self.namespace)
        let result = try await Program.run(program, arguments + ["--client", "127.0.0.1", "--json"] + options)
        if let error = try JSONDecoder().decode(Refusal.self, from: result.output).error {
            throw Program.Failure(description: "iperf3: \(error)")
        }
        #expect(result.code == 0, "\(result.error)")
        return try JSONDecoder().decode(Report.self, from: result.output)
    }

    func stop() async throws {
        try await self.server.exit()
    }
}
