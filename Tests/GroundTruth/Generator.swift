public import Foundation

/// A run of `trafficgen` that holds its sockets open until it is told to close them.
public final class Generator {
    /// Its processes wait for each other, or for a kernel that does not go on.
    public struct Stall: Error, CustomStringConvertible {
        public let description: String
    }

    private let program: Program

    /// - Parameter launcher: A program, and its arguments, that runs the generator: `ip netns exec NAME`.
    public init(
        _ programs: Programs,
        scenario: String,
        pause: Bool = false,
        arguments: [String] = [],
        launcher: (program: URL, arguments: [String])? = nil
    ) throws {
        let all = ["--hold", "600"] + (pause ? ["--pause"] : []) + arguments + [scenario]
        if let launcher {
            self.program = try Program(launcher.program, launcher.arguments + [programs.generator.path] + all)
        } else {
            self.program = try Program(programs.generator, all)
        }
    }

    private static let stalled: Int32 = 75  // EX_TEMPFAIL

    /// The next phase that it reaches.
    ///
    /// - Throws: ``Stall``, or ``Program/Failure`` where it fails.
    public func result() async throws -> GeneratorResult {
        guard let line = try await self.program.line() else {
            let code = try await self.program.exit()
            let reason = "trafficgen exited with \(code): \(self.program.errorText)"
            if code == Self.stalled { throw Stall(description: reason) }
            throw Program.Failure(description: reason)
        }
        return try JSONDecoder().decode(GeneratorResult.self, from: line)
    }

    /// From the pause to the second half, or from the held sockets to their end.
    public func goOn() throws {
        try self.program.writeLine()
    }

    public func exit() async throws {
        let code = try await self.program.exit()
        guard code == 0 || code == 77 else {
            throw Program.Failure(description: "trafficgen exited with \(code): \(self.program.errorText)")
        }
    }

    /// Names of the scenarios that every run makes.
    public static func scenarios(_ programs: Programs) throws -> [String] {
        let process = Process()
        let output = Pipe()
        process.executableURL = programs.generator
        process.arguments = ["--list"]
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text.split(separator: "\n").compactMap { $0.split(separator: "\t").first.map(String.init) }
    }
}
