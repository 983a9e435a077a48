import Foundation

/// Runs a Python program: a reader of our formats that is not ours.
enum Python {
    struct Result: Equatable {
        var status: Int32
        var output: String
    }

    /// What the tests need and this machine does not have. `nil` where nothing is missing.
    static let missing: String? = {
        let result = try? Self.run("import jsonschema; jsonschema.Draft202012Validator", input: [])
        return result?.status == 0 ? nil : "python3 with jsonschema (pip install jsonschema) is not installed"
    }()

    static func run(_ program: String, arguments: [String] = [], input: [UInt8]) throws -> Result {
        // A file, not a pipe: a pipe that no one reads yet would block at 64 KiB.
        let file = FileManager.default.temporaryDirectory.appending(path: "trafficd-\(UUID().uuidString)")
        try Data(input).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-W", "ignore", "-c", program] + arguments
        process.standardInput = try FileHandle(forReadingFrom: file)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return Result(status: process.terminationStatus, output: String(decoding: text, as: UTF8.self))
    }
}
