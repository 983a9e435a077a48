public import Foundation

/// A receiver of metrics in Python, and what it got. Google's protobuf decodes OTLP there. Only one task uses it.
public final class MetricsReceiver: @unchecked Sendable {
    public struct Point: Decodable, Sendable {
        public var name: String
        public var unit: String?
        public var kind: String
        public var resource: [String: Word]
        public var attributes: [String: Word]
        /// Nanoseconds since 1970, of OTLP.
        public var start: UInt64?
        /// Of NDJSON.
        public var startTime: String?
        public var time: Word
        public var cumulative: Bool?
        public var value: Word?
        public var count: UInt64?
        public var sum: Double?
        public var buckets: [UInt64]?
        public var bounds: [Double]?

        enum CodingKeys: String, CodingKey {
            case name, unit, kind, resource, attributes, start, time, cumulative, value, count, sum, buckets, bounds
            case startTime = "start_time"
        }
    }

    /// A value as JSON has it. A whole number stays exact.
    public enum Word: Decodable, Hashable, Sendable {
        case text(String)
        case flag(Bool)
        case whole(Int64)
        case real(Double)

        public init(from decoder: any Decoder) throws {
            let value = try decoder.singleValueContainer()
            if let flag = try? value.decode(Bool.self) {
                self = .flag(flag)
            } else if let whole = try? value.decode(Int64.self) {
                self = .whole(whole)
            } else if let real = try? value.decode(Double.self) {
                self = .real(real)
            } else {
                self = .text(try value.decode(String.self))
            }
        }
    }

    public struct Request: Decodable, Sendable {
        /// The word of ``tell(_:)`` that was in force.
        public var did: String
        public var path: String?
        public var headers: [String: String]?
        public var points: [Point]
    }

    /// What the receiver needs and this machine lacks. `nil` where nothing is missing.
    public static let missing: String? = {
        // scripts/test installs both. Then a missing one is a failure, and no reason to skip a test.
        if ProcessInfo.processInfo.environment["TRAFFICD_TEST_COMPLETE"] == "1" { return nil }
        let python = try? Tool.wait(for: "/usr/bin/python3", ["-c", "import google.protobuf"], mayFail: true)
        let protoc = try? Tool.wait(for: "protoc", ["--version"], mayFail: true)
        return python?.status == 0 && protoc?.status == 0
            ? nil : "protobuf-compiler and python3-protobuf are not installed"
    }()

    /// Debian's Python, because its libraries come as packages.
    private static let python = "/usr/bin/python3"
    private let program: Program
    private let scheme: String
    public let port: Int

    /// - Parameters:
    ///   - root: Of the project.
    ///   - isQuiet: ``next()`` is not to be called: whoever forgets it would make the receiver wait.
    ///   - identity: Files of a certificate for `127.0.0.1` and of its key: the receiver speaks TLS.
    public init(
        root: URL,
        port: Int = 0,
        isQuiet: Bool = false,
        identity: (certificate: String, key: String)? = nil
    ) async throws {
        var options = ["--port", "\(port)"]
        if isQuiet { options.append("--quiet") }
        if let identity { options += ["--certificate", identity.certificate, "--key", identity.key] }
        self.scheme = identity == nil ? "http" : "https"
        self.program = try Program(
            URL(filePath: Self.python),
            [
                root.appending(path: "Tests/Tools/receiver/receiver.py").path,
                root.appending(path: "Tests/Tools/receiver/Protos").path,
            ] + options
        )
        let line = try await self.program.line()
        guard let line, let port = Int(String(decoding: line, as: UTF8.self)) else {
            throw Program.Failure(description: self.program.errorText)
        }
        self.port = port
    }

    public var url: String { "\(self.scheme)://127.0.0.1:\(self.port)/v1/metrics" }

    /// Changes how the receiver answers, from the next request on.
    ///
    /// - Returns: The requests that came before.
    @discardableResult
    public func tell(_ words: String) async throws -> [Request] {
        try self.program.writeLine(words)
        var requests: [Request] = []
        while true {
            let request = try await self.next()
            if request.did == "obeyed" { return requests }
            requests.append(request)
        }
    }

    public func next() async throws -> Request {
        guard let line = try await self.program.line() else {
            throw Program.Failure(description: self.program.errorText)
        }
        return try JSONDecoder().decode(Request.self, from: line)
    }

    /// As if the machine had gone: nothing answers at the port from now on.
    public func kill() async throws {
        self.program.signal(SIGKILL)
        try await self.program.exit()
    }
}
