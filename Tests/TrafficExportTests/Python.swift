import Foundation
import TestSupport

/// Runs a Python program: a reader of our formats that is not ours.
enum Python {
    struct Result: Equatable {
        var status: Int32
        var output: String
    }

    /// What the tests need and this machine lacks. `nil` where nothing is missing.
    static let missing: String? = {
        let result = try? Self.run("import jsonschema; jsonschema.Draft202012Validator", input: [])
        return result?.status == 0 ? nil : "python3 with jsonschema (pip install jsonschema) is not installed"
    }()

    static func run(_ program: String, arguments: [String] = [], input: [UInt8]) throws -> Result {
        let tool = try Tool.wait(
            for: "python3",
            ["-W", "ignore", "-c", program] + arguments,
            input: Data(input),
            mayFail: true
        )
        return Result(status: tool.status, output: tool.output + tool.error)
    }
}
