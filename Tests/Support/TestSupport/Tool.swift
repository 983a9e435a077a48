public import Foundation
import Glibc

/// A program of the system, run to its end.
public struct Tool: Sendable {
    public struct Failure: Error, CustomStringConvertible {
        public let description: String

        public init(description: String) {
            self.description = description
        }
    }

    public let pid: pid_t
    /// The exit code, or 128 + the number of the signal that ended the program, as in a shell.
    public let status: Int32
    public let outputData: Data
    public let error: String

    public var output: String { String(decoding: self.outputData, as: UTF8.self) }

    /// Runs a program on a thread of its own, so that the threads of the tasks stay free.
    ///
    /// - Parameters:
    ///   - name: A name in `PATH`, or a path.
    ///   - environment: Variables that are added to those of this process, or replace them.
    ///   - input: What the program reads. Without it, the program reads nothing.
    /// - Throws: ``Failure`` where the program can't be started, or where it fails and `mayFail` is `false`.
    @discardableResult
    public static func run(
        _ name: String,
        _ arguments: [String],
        environment: [String: String] = [:],
        input: Data? = nil,
        mayFail: Bool = false
    ) async throws -> Tool {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(
                    with: Result {
                        try Self.wait(
                            for: name,
                            arguments,
                            environment: environment,
                            input: input,
                            mayFail: mayFail
                        )
                    }
                )
            }
        }
    }

    /// The same on the calling thread. The program gets that thread's namespaces.
    @discardableResult
    public static func wait(
        for name: String,
        _ arguments: [String],
        environment: [String: String] = [:],
        input: Data? = nil,
        mayFail: Bool = false
    ) throws -> Tool {
        let folder = FileManager.default.temporaryDirectory
        // Files and not pipes, because a pipe can be full or have no reader.
        let files = (0..<3).map { _ in folder.appending(path: "tool-\(UUID().uuidString)") }
        defer { for file in files { try? FileManager.default.removeItem(at: file) } }
        for file in files { try (file == files[0] ? input ?? Data() : Data()).write(to: file) }
        let pid = try Self.begin([name] + arguments, environment, files.map(\.path))
        let tool = Tool(
            pid: pid,
            status: Self.end(of: pid),
            outputData: try Data(contentsOf: files[1]),
            error: String(decoding: try Data(contentsOf: files[2]), as: UTF8.self)
        )
        guard mayFail || tool.status == 0 else {
            throw Failure(description: "\(name) \(arguments): \(tool.status), \(tool.error)\(tool.output)")
        }
        return tool
    }

    /// Starts a program that goes on. The caller must end the program.
    public static func start(_ words: [String], output: String = "/dev/null") throws -> pid_t {
        if output != "/dev/null" { try Data().write(to: URL(filePath: output)) }
        return try Self.begin(words, [:], ["/dev/null", output, "/dev/null"])
    }

    /// Waits for a child, and returns its ``status``.
    @discardableResult
    public static func end(of pid: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 && errno == EINTR {}
        let signal = status & 0x7f
        return signal == 0 ? status >> 8 & 0xff : 128 + signal
    }

    /// Does not use Foundation's `Process`, which waits for all processes that inherit its descriptors, also for
    /// daemons.
    private static func begin(_ words: [String], _ environment: [String: String], _ files: [String]) throws -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (index, file) in files.enumerated() {
            posix_spawn_file_actions_addopen(&actions, Int32(index), file, index == 0 ? O_RDONLY : O_WRONLY, 0)
        }
        // A daemon must not hold what other tests have open. Closing a descriptor that is not open does no harm.
        for descriptor: Int32 in 3..<1_024 { posix_spawn_file_actions_addclose(&actions, descriptor) }
        // The program gets signals as from a shell: threads of the test process have some blocked, and a test process in
        // the background may ignore some.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var signals = sigset_t()
        sigemptyset(&signals)
        posix_spawnattr_setsigmask(&attributes, &signals)
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] { sigaddset(&signals, number) }
        posix_spawnattr_setsigdefault(&attributes, &signals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        let arguments = words.map { strdup($0) } + [nil]
        let strings = variables.map { strdup($0) } + [nil]
        defer { for string in arguments + strings { free(string) } }
        var pid: pid_t = 0
        let result = posix_spawnp(&pid, words[0], &actions, &attributes, arguments, strings)
        guard result == 0 else { throw Failure(description: "\(words[0]): \(String(cString: strerror(result)))") }
        return pid
    }
}

extension Tool {
    /// What another program's SQLite, that of Python, finds in a database: a line for each row.
    ///
    /// - Parameter sql: One statement. Only what begins with SELECT leaves the file as it is.
    public static func sql(_ path: String, _ sql: String) async throws -> String {
        let mode = sql.hasPrefix("SELECT") ? "ro" : "rw"
        let script = """
            import sqlite3, sys
            file = sqlite3.connect("file:" + sys.argv[1] + "?mode=\(mode)", uri=True)
            for row in file.execute(sys.argv[2]).fetchall(): print(*row)
            file.commit()
            """
        return try await Self.run("python3", ["-c", script, path, sql]).output
    }
}
