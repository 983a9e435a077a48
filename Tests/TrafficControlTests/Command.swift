import Foundation

/// Runs a program that is not ours.
struct Command {
    struct Result: Sendable {
        var status: Int32
        var output: Data

        var text: String { String(decoding: self.output, as: UTF8.self) }
    }

    /// On a thread of its own: the server under test needs those that tasks run on, and so does Dispatch's pool.
    static func run(_ arguments: [String]) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Swift.Result { try Self.runBlocking(arguments) })
            }
        }
    }

    private static func runBlocking(_ arguments: [String]) throws -> Result {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Result(status: process.terminationStatus, output: data)
    }
}
