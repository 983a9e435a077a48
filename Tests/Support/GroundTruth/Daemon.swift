public import Foundation
public import TestSupport
public import TrafficModel

/// The programs of one build, side by side in a directory.
public struct Programs: Sendable {
    public var directory: URL

    public init(directory: URL) {
        self.directory = directory
    }

    public var daemon: URL { self.directory.appending(path: "trafficd") }
    public var client: URL { self.directory.appending(path: "trafficctl") }
    public var generator: URL { self.directory.appending(path: "trafficgen") }
}

/// A `trafficd` with private directories and no TCP listener, so that any number of daemons can run side by side.
public final class Daemon {
    /// The daemon did not start. ``code`` and ``message`` are what a person would see.
    public struct Refusal: Error, CustomStringConvertible {
        public var code: Int32
        public var message: String

        public var description: String { "trafficd exited with \(self.code): \(self.message)" }
    }

    public let program: Program
    public let directories: DaemonDirectories
    private let programs: Programs

    /// Returns once the daemon answers on the control socket.
    ///
    /// - Parameters:
    ///   - interval: Seconds between two snapshots.
    ///   - configuration: The path of a configuration file, which then says what `method` and `interval` would. Without
    ///     one, the daemon reads none, whatever this machine has.
    ///   - launcher: A program and its arguments that start the daemon, such as `ip netns exec NAME`.
    /// - Throws: ``Refusal``, or ``Program/Failure`` where the daemon neither gets ready nor exits.
    public init(
        _ programs: Programs,
        method: String = "auto",
        interval: Double = 0.2,
        directories: DaemonDirectories? = nil,
        configuration: String? = nil,
        arguments: [String] = [],
        launcher: (program: URL, arguments: [String])? = nil
    ) async throws {
        self.programs = programs
        self.directories = try directories ?? DaemonDirectories()
        self.program = try Program(
            launcher?.program ?? programs.daemon,
            (launcher.map { $0.arguments + [programs.daemon.path] } ?? [])
                + ["run", "--config", configuration ?? "off"]
                + (configuration == nil
                    ? ["--method", method, "--listen", "off", "--interval", "\(interval)", "--log-level", "warning"]
                    : [])
                + self.directories.arguments
                + arguments
        )
        try await self.waitUntilReady()
    }

    private func waitUntilReady() async throws {
        let isReady = try await eventually(every: .milliseconds(20)) {
            guard self.program.isRunning else {
                let code = try await self.program.exit()
                throw Refusal(
                    code: code,
                    message: self.program.errorText.trimmingCharacters(in: .whitespacesAndNewlines)
                )
            }
            // Check which daemon answers: another daemon may have this runtime directory.
            return (try? await self.latestSnapshot())?.daemon.pid == self.program.pid
        }
        guard isReady else {
            self.program.signal(SIGKILL)
            throw Program.Failure(description: "trafficd is not ready: \(self.program.errorText)")
        }
    }

    private static let busy: Int32 = 75  // EX_TEMPFAIL

    /// GET by the generator's own few lines of C, so that our client does not check our server. Asks again where the
    /// daemon was too busy for a whole answer: it does not say so, and does not break off, before it has waited for two
    /// seconds or more. So an answer that is cut at once is a fault, and fails.
    public func get(_ path: String) async throws -> (code: Int32, output: Data, error: String) {
        try await look(until: { $0.isLast }) {
            let began = ContinuousClock.now
            let answer = try await Program.run(
                self.programs.generator,
                ["fetch", self.directories.controlSocket.path, path]
            )
            return (answer: answer, isLast: answer.code != Self.busy || ContinuousClock.now - began < .seconds(2))
        }.answer
    }

    public func latestSnapshot() async throws -> Snapshot {
        let answer = try await self.get("/v1/snapshot")
        guard answer.code == 0 else { throw Program.Failure(description: "no snapshot: \(answer.error)") }
        return try JSONDecoder().decode(Snapshot.self, from: answer.output)
    }

    /// The first snapshot that was taken entirely after this call. What was moved before the call must be in the
    /// snapshot, except what the daemon says to be late.
    public func snapshot() async throws -> Snapshot {
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        let called = UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
        let snapshot = try await look(until: { $0.takenBoottimeNanoseconds > called }) {
            try await self.latestSnapshot()
        }
        guard snapshot.takenBoottimeNanoseconds > called else {
            throw Program.Failure(description: "no new snapshot")
        }
        return snapshot
    }

    /// - Returns: The exit code.
    public func stop(_ signal: Int32 = SIGTERM) async throws -> Int32 {
        self.program.signal(signal)
        return try await self.program.exit()
    }
}

/// Temporary directories of a daemon, removed with all their files when this object goes away.
public final class DaemonDirectories {
    public let root: URL

    public init() throws {
        self.root = FileManager.default.temporaryDirectory.appending(path: "trafficd-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.root, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: self.root)
    }

    public var runtime: URL { self.root.appending(path: "run") }
    public var controlSocket: URL { self.runtime.appending(path: "control.sock") }
    public var reportSocket: URL { self.runtime.appending(path: "report.sock") }

    public var arguments: [String] {
        ["--runtime-directory", self.runtime.path]
    }
}
