import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

/// Daemons, one after the other, that pin in one directory.
struct PinnedDaemons {
    let directories: DaemonDirectories
    private let files: BPFFileSystem

    init() throws {
        (self.files, self.directories) = (try BPFFileSystem(), try DaemonDirectories())
    }

    /// The pin directory.
    var path: String { "\(self.files.path)/trafficd" }
    var arguments: [String] { ["--pin-directory", self.path] }
    /// A state directory.
    var state: String { self.directories.root.appending(path: "state").path }

    /// A configuration file. Each change of its classes ends a minute at the next SIGHUP.
    var configuration: URL { self.directories.root.appending(path: "trafficd.yaml") }

    /// - Parameter number: Another one means other classes of addresses.
    func configure(_ number: Int) throws {
        try Data("classes: {c\(number): [10.0.0.0/8]}\n".utf8).write(to: self.configuration)
        #expect(chmod(self.configuration.path, 0o600) == 0)
    }

    func start(_ arguments: [String] = []) async throws -> Daemon {
        try await Daemon(
            Machine.programs,
            method: Machine.method,
            directories: self.directories,
            arguments: self.arguments + arguments
        )
    }

    /// What history has of the program.
    func inHistory(_ mover: Mover) async throws -> PayloadBytes {
        let said = try await look(until: { $0.isLast }) {
            let began = ContinuousClock.now
            let said = try await Program.run(
                Machine.programs.client,
                ["history", "--since", "1d", "--format", "json"] + self.directories.arguments
            )
            // The daemon breaks off an answer that takes two seconds.
            return (said: said, isLast: said.code == 0 || ContinuousClock.now - began < .seconds(2))
        }.said
        #expect(said.code == 0, "\(said.error)")
        let rows = try JSONDecoder().decode(HistoryReport.self, from: said.output).rows
        return rows.filter { $0.name.process == mover.name }.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
    }

    func unload(sourceLocation: SourceLocation = #_sourceLocation) async throws {
        let unloaded = try await Program.run(Machine.programs.daemon, ["unload"] + self.arguments)
        #expect(unloaded.code == 0 && unloaded.error.isEmpty, "\(unloaded.error)", sourceLocation: sourceLocation)
    }
}

extension Daemon {
    /// Until a checkpoint has what was counted before this call.
    ///
    /// - Returns: `false` if none came for a long while.
    func waitForCheckpoint() async throws -> Bool {
        let (file, asked) = (self.directories.runtime.appending(path: "checkpoint").path, Date())
        return try await eventually {
            try #require(self.program.isRunning, "\(self.program.errorText)")
            let attributes = try? FileManager.default.attributesOfItem(atPath: file)
            return attributes?[.modificationDate] as? Date ?? .distantPast > asked
        }
    }

    /// The payload that the daemon has for the program, when it is as much as wanted, or after a long while.
    ///
    /// - Parameter wanted: `nil`: what the program says.
    func counted(_ mover: Mover, wanted: PayloadBytes? = nil) async throws -> PayloadBytes {
        let wanted = wanted ?? mover.moved
        return try await look(until: { $0 == wanted }) { try await self.snapshot().payload(of: mover) }
    }
}
