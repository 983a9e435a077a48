import Foundation
import Glibc
import TestSupport
import Testing

/// A terminal made by tmux, with a program in it. Tests send keys and read the screen.
final class Terminal {
    private let socket: String
    let directory: String

    /// Whether tmux is installed.
    static let isAvailable = (try? Tool.wait(for: "tmux", ["-V"], mayFail: true))?.status == 0

    /// - Parameter command: A line for sh. After the command, the screen shows its exit status and the word "over".
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
        // Each terminal has its own server, because the server of an earlier terminal may still be ending.
        self.socket = "\(directory)/tmux-\(UUID().uuidString.prefix(4))"
        // The shell outlives Ctrl-C. Swift's own crash handler is off, because it would wait for a key.
        // stty prints the whole state of the terminal, so anything that top leaves changed shows as a difference.
        // The command begins when its output is being kept.
        try? FileManager.default.removeItem(atPath: "\(directory)/bytes")
        let script = """
            until [ -e '\(directory)/bytes' ]; do sleep 0.02; done; \
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
            // An empty directory, so that top finds no settings of another run.
            "env -u XDG_CONFIG_HOME HOME='\(directory)' TERM=\(type) LC_ALL=\(locale) SWIFT_BACKTRACE=enable=no sh -c \"$SCRIPT\"",
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
        let result = try Tool.wait(
            for: "tmux",
            ["-S", self.socket] + arguments,
            environment: environment,
            mayFail: true
        )
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
        let found = try Tool.wait(for: "pgrep", ["-P", shell, "-x", name], mayFail: true).output
        return try #require(pid_t(found.trimmingCharacters(in: .whitespacesAndNewlines)), "no \(name) under \(shell)")
    }

    /// What the program has sent so far. The end may be missing: another program keeps it.
    var bytes: Data { (try? Data(contentsOf: URL(filePath: "\(self.directory)/bytes"))) ?? Data() }

    /// All that the program sent, when the screen says that it is over.
    func allBytes() async throws -> Data {
        try await self.wait(for: "over")
        let isWhole = { (bytes: Data) in bytes.suffix(6) == Data("over\r\n".utf8) }
        let bytes = try await look(until: isWhole) { self.bytes }
        try #require(isWhole(bytes), "the end was not kept")
        return bytes
    }

    /// Waits until the screen fulfils the condition, and returns the screen.
    @discardableResult
    func wait(_ what: String, until holds: (String) throws -> Bool) async throws -> String {
        let screen = try await look(every: .milliseconds(100), until: { try holds($0) }) { try self.screen }
        guard try holds(screen) else {
            throw TerminalFailure(text: "waited in vain for \(what); the screen is:\n\(screen)")
        }
        return screen
    }

    @discardableResult
    func wait(for text: String) async throws -> String {
        try await self.wait("'\(text)'") { $0.contains(text) }
    }

    /// Checks that the terminal is as it was before: same settings, first screen, visible cursor.
    ///
    /// Waits for the script's last word, because only then is the second list of settings complete.
    func expectRestored() async throws {
        try await self.wait(for: "over")
        let before = try String(contentsOfFile: "\(self.directory)/before", encoding: .utf8)
        let after = try String(contentsOfFile: "\(self.directory)/after", encoding: .utf8)
        #expect(before == after)
        #expect(try self.variable("alternate_on") == "0")
        #expect(try self.variable("cursor_flag") == "1")
        #expect(try self.variable("keypad_cursor_flag") == "0")
        #expect(try self.variable("mouse_any_flag") == "0")
    }
}

/// The place of the test's programs, and a temporary directory.
enum Lab {
    static let binaries = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path()

    static func binary(_ name: String) -> String { Self.binaries + "/" + name }

    /// - Parameter script: A shell script. `$ctl` is the program, `$dir` the daemon's directory.
    static func shell(_ script: String, _ directory: String) throws -> Tool {
        try Tool.wait(
            for: "bash",
            ["-c", script],
            environment: ["ctl": Self.binary("trafficctl"), "dir": directory, "LC_ALL": "C.UTF-8"],
            mayFail: true
        )
    }

    static func withDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
        // The name is short, because a socket's path has at most 107 bytes.
        let path = temporaryPath("tt")
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try await body(path)
    }
}
