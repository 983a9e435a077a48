public import Foundation
import TestSupport

/// A run of `trafficgen`, which holds its sockets open until ``goOn()``.
public final class Generator {
    /// The generator's processes wait for each other, or for a kernel that does not go on.
    public struct Stall: Error, CustomStringConvertible {
        public let description: String
    }

    private let program: Program

    /// - Parameter launcher: A program and its arguments that start the generator, such as `ip netns exec NAME`.
    public init(
        _ programs: Programs,
        scenario: String,
        pause: Bool = false,
        arguments: [String] = [],
        launcher: (program: URL, arguments: [String])? = nil
    ) throws {
        let all =
            ["--hold", "600", "--timeout", "\(Self.patience)"] + (pause ? ["--pause"] : []) + arguments + [scenario]
        if let launcher {
            self.program = try Program(launcher.program, launcher.arguments + [programs.generator.path] + all)
        } else {
            self.program = try Program(programs.generator, all)
        }
    }

    private static let stalled: Int32 = 75  // EX_TEMPFAIL
    /// After so many seconds the generator says where it is stuck. This is soon enough for ``result()`` to hear it.
    private static let patience = Program.patience.components.seconds - 60

    /// The result of the next phase that the generator reaches.
    ///
    /// - Throws: ``Stall``, or ``Program/Failure`` where the generator fails.
    public func result() async throws -> GeneratorResult {
        guard let line = try await self.program.line() else {
            let code = try await self.program.exit()
            let reason = "trafficgen exited with \(code): \(self.program.errorText)"
            if code == Self.stalled { throw Stall(description: reason) }
            throw Program.Failure(description: reason)
        }
        return try JSONDecoder().decode(GeneratorResult.self, from: line)
    }

    /// Lets the generator go on: from the pause to the second half, or from the held sockets to their end.
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
        let text = try Tool.wait(for: programs.generator.path, ["--list"]).output
        return text.split(separator: "\n").compactMap { $0.split(separator: "\t").first.map(String.init) }
    }
}
