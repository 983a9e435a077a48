public import Foundation
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

/// A `trafficd` of its own: private directories, no TCP listener, so that any number can run side by side.
public final class Daemon {
    /// It did not start; ``code`` and ``message`` are what a person would see.
    public struct Refusal: Error, CustomStringConvertible {
        public var code: Int32
        public var message: String

        public var description: String { "trafficd exited with \(self.code): \(self.message)" }
    }

    public let program: Program
    public let directories: DaemonDirectories
    private let programs: Programs

    /// Returns once the control socket accepts.
    ///
    /// - Parameters:
    ///   - interval: Seconds between two snapshots.
    ///   - launcher: A program, and its arguments, that becomes the daemon: `ip netns exec NAME`.
    /// - Throws: ``Refusal``, or ``Program/Failure`` where it neither starts nor exits.
    public init(
        _ programs: Programs,
        rung: String = "auto",
        interval: Double = 0.2,
        directories: DaemonDirectories? = nil,
        arguments: [String] = [],
        launcher: (program: URL, arguments: [String])? = nil
    ) async throws {
        self.programs = programs
        self.directories = try directories ?? DaemonDirectories()
        self.program = try Program(
            launcher?.program ?? programs.daemon,
            (launcher.map { $0.arguments + [programs.daemon.path] } ?? [])
                + ["run", "--rung", rung, "--listen", "off", "--interval", "\(interval)", "--log-level", "warning"]
                + self.directories.arguments
                + arguments
        )
        try await self.waitUntilReady()
    }

    private func waitUntilReady() async throws {
        let deadline = ContinuousClock.now + .seconds(60)
        while true {
            guard self.program.isRunning else {
                let code = try await self.program.exit()
                throw Refusal(
                    code: code,
                    message: self.program.errorText.trimmingCharacters(in: .whitespacesAndNewlines)
                )
            }
            // Ask who answers: another daemon may have this runtime directory.
            if let answer = try? await self.latestSnapshot(), answer.daemon.pid == self.program.pid { return }
            guard ContinuousClock.now < deadline else {
                self.program.signal(SIGKILL)
                throw Program.Failure(description: "trafficd is not ready: \(self.program.errorText)")
            }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// GET by the generator's own few lines of C: not our code checked by our code.
    public func get(_ path: String) async throws -> (code: Int32, output: Data, error: String) {
        try await Program.run(self.programs.generator, ["fetch", self.directories.controlSocket.path, path])
    }

    public func latestSnapshot() async throws -> Snapshot {
        let answer = try await self.get("/v1/snapshot")
        guard answer.code == 0 else { throw Program.Failure(description: "no snapshot: \(answer.error)") }
        return try JSONDecoder().decode(Snapshot.self, from: answer.output)
    }

    /// The first snapshot that was taken entirely after this call: what was moved before it must be in.
    public func snapshot() async throws -> Snapshot {
        var now = timespec()
        clock_gettime(CLOCK_BOOTTIME, &now)
        let called = UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
        let deadline = ContinuousClock.now + .seconds(120)  // in an emulated machine
        while true {
            let snapshot = try await self.latestSnapshot()
            if snapshot.takenBoottimeNanoseconds > called { return snapshot }
            guard ContinuousClock.now < deadline else {
                throw Program.Failure(description: "no new snapshot in 120 s")
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }

    /// - Returns: The exit code.
    public func stop(_ signal: Int32 = SIGTERM) async throws -> Int32 {
        self.program.signal(signal)
        return try await self.program.exit()
    }
}

/// Removed with everything in it when nobody uses it any more.
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
