import Foundation
import Glibc
import Testing

/// A terminal with a program in it, by tmux: keys in, screen out.
final class Terminal {
    private let socket: String
    let directory: String

    /// Whether tmux is here.
    static let isAvailable = (try? CommandResult.of("tmux", ["-V"]))?.status == 0

    /// - Parameter command: A line for sh; how it ended and the word "over" come after it on the screen.
    init(
        width: Int,
        height: Int,
        directory: String,
        command: String,
        locale: String = "C.UTF-8",
        type: String = "screen-256color"
    )
        throws
    {
        self.directory = directory
        self.socket = "\(directory)/tmux"
        // The shell outlives Ctrl-C, and Swift's own crash handler, which would wait for a key, stays out of it.
        // stty tells the whole state of the terminal; what top leaves changed shows as a difference.
        let script = """
            trap : INT; stty -a > '\(directory)/before'; \(command); echo "exit status $?"; stty -a > '\(directory)/after'; \
            echo over; exec sleep 1000
            """
        try self.tmux(
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "\(width)",
            "-y",
            "\(height)",
            "env TERM=\(type) LC_ALL=\(locale) SWIFT_BACKTRACE=enable=no sh -c \"$SCRIPT\"",
            environment: ["SCRIPT": script]
        )
        // Every byte that the program sends to the terminal.
        try self.tmux("pipe-pane", "-o", "cat >> '\(directory)/bytes'")
    }

    deinit {
        _ = try? self.tmux("kill-server")
    }

    @discardableResult
    private func tmux(_ arguments: String..., environment: [String: String] = [:]) throws -> String {
        let result = try CommandResult.of("tmux", ["-S", self.socket] + arguments, environment: environment)
        guard result.status == 0 else { throw TerminalFailure(text: "tmux \(arguments): \(result.error)") }
        return result.output
    }

    struct TerminalFailure: Error {
        var text: String
    }

    func press(_ keys: String...) throws {
        for key in keys { try self.tmux("send-keys", key) }
    }

    func type(_ text: String) throws {
        try self.tmux("send-keys", "-l", text)
    }

    func resize(width: Int, height: Int) throws {
        try self.tmux("resize-window", "-x", "\(width)", "-y", "\(height)")
    }

    var screen: String {
        get throws { try self.tmux("capture-pane", "-p") }
    }

    /// A variable of tmux, such as `alternate_on`.
    func variable(_ name: String) throws -> String {
        try self.tmux("display-message", "-p", "#{\(name)}").trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The process that runs the test's command.
    func pid(of name: String) throws -> pid_t {
        let shell = try self.variable("pane_pid")
        let found = try CommandResult.of("pgrep", ["-P", shell, "-x", name]).output
        return try #require(pid_t(found.trimmingCharacters(in: .whitespacesAndNewlines)), "no \(name) under \(shell)")
    }

    var bytes: Data {
        get throws { try Data(contentsOf: URL(filePath: "\(self.directory)/bytes")) }
    }

    /// Waits until the screen is as asked, and returns it.
    @discardableResult
    func wait(_ what: String, until holds: (String) throws -> Bool) async throws -> String {
        var screen = ""
        for _ in 0..<100 {
            screen = try self.screen
            if try holds(screen) { return screen }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw TerminalFailure(text: "waited in vain for \(what); the screen is:\n\(screen)")
    }

    @discardableResult
    func wait(for text: String) async throws -> String {
        try await self.wait("'\(text)'") { $0.contains(text) }
    }

    /// That the terminal is as it was before: same settings, first screen, visible cursor.
    ///
    /// Waits for the script's last word, which comes after the second list of settings is whole.
    func expectRestored() async throws {
        try await self.wait(for: "over")
        let before = try String(contentsOfFile: "\(self.directory)/before", encoding: .utf8)
        let after = try String(contentsOfFile: "\(self.directory)/after", encoding: .utf8)
        #expect(before == after)
        #expect(try self.variable("alternate_on") == "0")
        #expect(try self.variable("cursor_flag") == "1")
        #expect(try self.variable("keypad_cursor_flag") == "0")
    }
}

/// What a program said and how it ended.
struct CommandResult {
    /// 128 + the signal where one ended it.
    var status: Int32
    var output: String
    var error: String

    struct NotStarted: Error {
        var name: String
        var error: Int32
    }

    /// Runs `name`, found in PATH or a path, with nothing to read.
    ///
    /// Not Foundation's `Process`: that waits for all that inherited its files, and tmux leaves a server behind.
    static func of(_ name: String, _ arguments: [String], environment: [String: String] = [:]) throws -> CommandResult {
        let directory = FileManager.default.temporaryDirectory.appending(path: "command-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: directory) }

        // Files and not pipes: a pipe fills up and then waits for the reader that waits for the end.
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, directory + "/output", O_WRONLY | O_CREAT, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, directory + "/error", O_WRONLY | O_CREAT, 0o600)

        // The threads that tests run on have signals blocked, which children would inherit.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        posix_spawnattr_setsigmask(&attributes, &noSignals)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK))

        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        var argv = ([name] + arguments).map { strdup($0) } + [nil]
        var envp = variables.map { strdup($0) } + [nil]
        defer { (argv + envp).forEach { free($0) } }
        var pid: pid_t = 0
        let error = posix_spawnp(&pid, name, &actions, &attributes, &argv, &envp)
        guard error == 0 else { throw NotStarted(name: name, error: error) }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0, errno == EINTR {}
        let signal = status & 0x7f
        return CommandResult(
            status: signal == 0 ? (status >> 8) & 0xff : 128 + signal,
            output: String(decoding: try Data(contentsOf: URL(filePath: directory + "/output")), as: UTF8.self),
            error: String(decoding: try Data(contentsOf: URL(filePath: directory + "/error")), as: UTF8.self)
        )
    }
}

/// Where the test's programs are, and a directory that goes away.
enum Lab {
    static let binaries = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path()

    static func binary(_ name: String) -> String { Self.binaries + "/" + name }

    static func withDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        // Short: a socket's path has 107 bytes.
        let path = "/tmp/tt-\(UUID().uuidString.prefix(8))"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try await body(path)
    }
}
