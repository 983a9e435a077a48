public import Foundation

/// A program of the system, run to its end.
public struct Tool {
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    public var status: Int32
    public var output: String
    public var error: String

    /// Not on a thread of the tasks: that has others to run.
    @discardableResult
    public static func run(
        _ name: String,
        _ arguments: [String],
        input: Data? = nil,
        mayFail: Bool = false
    ) async throws -> Tool {
        let tool: Tool = try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try Self.wait(name, arguments, input) })
            }
        }
        guard mayFail || tool.status == 0 else {
            throw Failure(description: "\(name) \(arguments): \(tool.status), \(tool.error)\(tool.output)")
        }
        return tool
    }

    private static func wait(_ name: String, _ arguments: [String], _ input: Data?) throws -> Tool {
        let folder = FileManager.default.temporaryDirectory
        // Files: no pipe can be full, or be read by nobody.
        let files = (0..<3).map { _ in folder.appending(path: "tool-\(UUID().uuidString)") }
        defer { for file in files { try? FileManager.default.removeItem(at: file) } }
        try (input ?? Data()).write(to: files[0])
        for file in files.dropFirst() { try Data().write(to: file) }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [name] + arguments
        process.standardInput = try FileHandle(forReadingFrom: files[0])
        process.standardOutput = try FileHandle(forWritingTo: files[1])
        process.standardError = try FileHandle(forWritingTo: files[2])
        try process.run()
        process.waitUntilExit()
        return Tool(
            status: process.terminationStatus,
            output: String(decoding: try Data(contentsOf: files[1]), as: UTF8.self),
            error: String(decoding: try Data(contentsOf: files[2]), as: UTF8.self)
        )
    }
}
