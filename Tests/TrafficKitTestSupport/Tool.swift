public import Foundation
import Glibc

/// A program of the system, run to its end.
public struct Tool: Sendable {
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
        for file in files { try (file == files[0] ? input ?? Data() : Data()).write(to: file) }
        let status = try Self.spawn([name] + arguments, files.map(\.path))
        return Tool(
            status: status,
            output: String(decoding: try Data(contentsOf: files[1]), as: UTF8.self),
            error: String(decoding: try Data(contentsOf: files[2]), as: UTF8.self)
        )
    }

    /// Starts a program that goes on. Whoever does so ends it.
    static func start(_ words: [String], output: String) throws -> pid_t {
        try Data().write(to: URL(filePath: output))
        return try Self.begin(words, ["/dev/null", output, "/dev/null"])
    }

    private static func spawn(_ words: [String], _ files: [String]) throws -> Int32 {
        let pid = try Self.begin(words, files)
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 && errno == EINTR {}
        return status & 0x7f == 0 ? status >> 8 & 0xff : -(status & 0x7f)
    }

    /// Foundation's `Process` waits for the end of all who inherit its descriptors, daemons among them.
    private static func begin(_ words: [String], _ files: [String]) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (index, file) in files.enumerated() {
            posix_spawn_file_actions_addopen(&actions, Int32(index), file, index == 0 ? O_RDONLY : O_WRONLY, 0)
        }
        // What other tests have open is not for a daemon; those that are not open do no harm.
        for descriptor: Int32 in 3..<1_024 { posix_spawn_file_actions_addclose(&actions, descriptor) }
        // Signals as a shell would leave them: the test process has some blocked.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        sigaddset(&signals, SIGTERM)
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        let arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var pid: pid_t = 0
        let result = posix_spawnp(&pid, words[0], &actions, &attributes, arguments, environ)
        guard result == 0 else { throw Failure(description: "\(words[0]): \(String(cString: strerror(result)))") }
        return pid
    }
}
