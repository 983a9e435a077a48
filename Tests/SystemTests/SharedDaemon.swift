import GroundTruth
import TestSupport
import Testing

/// A daemon for the tests of a suite, which run one after the other. It starts with the first that asks for it.
///
/// A start and an end take longer than most of what such tests look at.
final class SharedDaemon: @unchecked Sendable {
    /// That of the suite in which this is read.
    @TaskLocal static var ofSuite: SharedDaemon?

    private var running: Daemon?

    func daemon() async throws -> Daemon {
        if let running, running.program.isRunning { return running }
        try await self.end()
        // No process's row may leave the list between two looks at it.
        let daemon = try await Daemon(
            Machine.programs,
            method: Machine.method,
            arguments: ["--keep-exited", "86400"]
        )
        self.running = daemon
        return daemon
    }

    /// Ends the daemon and checks that it left nothing behind. The next test has a new one.
    func end() async throws {
        guard let daemon = self.running else { return }
        self.running = nil
        try await finish(daemon)
    }
}

struct SharedDaemonTrait: SuiteTrait, TestScoping {
    func provideScope(
        for test: Test,
        testCase: Test.Case?,
        performing function: @Sendable () async throws -> Void
    ) async throws {
        let shared = SharedDaemon()
        do {
            try await SharedDaemon.$ofSuite.withValue(shared) { try await function() }
        } catch {
            try? await shared.end()
            throw error
        }
        try await shared.end()
    }
}
