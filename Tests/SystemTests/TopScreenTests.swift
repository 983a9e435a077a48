import Foundation
import Glibc
import Testing
import TrafficModel

/// `trafficctl top` in a real terminal against a made-up daemon.
@Suite("top in a terminal", .serialized, .enabled(if: Terminal.isAvailable, "tmux is not installed"))
struct TopScreenTests {
    private func withTop(
        width: Int = 80,
        height: Int = 24,
        options: String = "",
        locale: String = "C.UTF-8",
        type: String = "screen-256color",
        sockets: Int = 3,
        _ body: (Terminal, FakeDaemon, String) async throws -> Void
    ) async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample(sockets: sockets) }
            defer { daemon.stop() }
            let terminal = try Terminal(
                width: width,
                height: height,
                directory: directory,
                command:
                    "'\(Lab.binary("trafficctl"))' top --runtime-directory '\(directory)' --interval 0.1 \(options)",
                locale: locale,
                type: type
            )
            try await body(terminal, daemon, directory)
        }
    }

    @Test("shows rows, ends with q, and leaves the terminal as it was")
    func startAndQuit() async throws {
        try await self.withTop { terminal, _, _ in
            let screen = try await terminal.wait(for: "nginx")
            #expect(screen.contains("testhost · counting 1h 00m · fexit"))
            #expect(screen.contains("812 www-data ▸ nginx"))
            #expect(screen.contains("5.00 kB"))
            #expect(try terminal.variable("alternate_on") == "1")
            #expect(try terminal.variable("cursor_flag") == "0")
            try terminal.press("q")
            try await terminal.wait(for: "over")
            #expect(try terminal.screen.contains("exit status 0"))
            try await terminal.expectRestored()
        }
    }

    @Test("follows the keys: open, filter, group, details, help")
    func keys() async throws {
        try await self.withTop { terminal, _, _ in
            try await terminal.wait(for: "nginx")
            try terminal.press("Enter")
            try await terminal.wait(for: "tcp :443 ← 192.168.0.1:30000")
            try await terminal.wait(for: "1.2ms 3r")
            try terminal.press("Left", "/")
            try terminal.type("idl")
            try await terminal.wait("the filtered list") { $0.contains("idler") && !$0.contains("nginx") }
            try terminal.type(" no:such")
            try await terminal.wait(for: "unknown key 'no'")
            try terminal.press("Escape")
            try await terminal.wait("the whole list") { $0.contains("nginx") && !$0.contains("Filter:") }
            try terminal.press("g")
            try await terminal.wait(for: "by executable")
            try terminal.press("g", "g", "g", "g", "d")
            try await terminal.wait(for: "command line")
            try terminal.press("d", "?")
            try await terminal.wait(for: "Keys of trafficctl top")
            try terminal.press("q")
            try await terminal.wait("the list") { $0.contains("nginx") && !$0.contains("Keys of") }
            try terminal.press("q")
            try await terminal.wait(for: "exit status 0")
        }
    }

    @Test("takes the mouse: a click selects, a second click opens, a click on a title sorts, the wheel moves")
    func mouse() async throws {
        try await self.withTop { terminal, daemon, _ in
            /// A press and its release, in xterm's SGR protocol: the button, the column and the line, each from 1.
            func click(_ button: Int = 0, row: Int, column: Int) throws {
                for end in ["M", "m"] { try terminal.type("\u{1b}[<\(button);\(column + 1);\(row + 1)\(end)") }
            }
            func line(of text: String) async throws -> Int {
                let screen = try await terminal.wait(for: text)
                let lines = screen.split(separator: "\n", omittingEmptySubsequences: false)
                return try #require(lines.firstIndex { $0.contains(text) })
            }
            let nginx = try await line(of: "▸ nginx")
            #expect(try terminal.variable("mouse_standard_flag") == "1" && terminal.variable("mouse_sgr_flag") == "1")
            try click(row: try await line(of: "idler"), column: 20)
            try click(row: nginx, column: 20)
            try click(row: nginx, column: 20)
            try await terminal.wait(for: "tcp :443 ← 192.168.0.1:30000")
            let titles = try await line(of: "PID")
            let lines = try terminal.screen.split(separator: "\n", omittingEmptySubsequences: false)
            let pid = try #require(lines[titles].range(of: "PID"))
            try click(row: titles, column: lines[titles].distance(from: lines[titles].startIndex, to: pid.lowerBound))
            try await terminal.wait(for: "PID▲")
            try terminal.press("?")
            try await terminal.wait(for: "Keys of trafficctl top")
            try click(65, row: 5, column: 5)
            try await terminal.wait("the page three lines further") { $0.contains("Keys of") && !$0.contains("Up k") }
            try terminal.press("q")
            try await terminal.wait("the list") { !$0.contains("Keys of") }
            // Buttons without a meaning, reports that never end, and bytes that are no reports do not stop the screen.
            for button in [1, 2, 66, 67, 128, 99_999_999] { try click(button, row: 20, column: 5) }
            let separators = String(repeating: ";", count: 60)
            for text in ["1\(separators)9M", "\(separators)M", "0;-1;2M", "0;0;0M", "M", "é;1;1M", "1;2\u{1b}[<0;5"] {
                try terminal.type("\u{1b}[<" + text)
            }
            // The older protocol of the mouse, for terminals that know no other.
            try terminal.type("\u{1b}[M !!")
            daemon.stop()
            try await terminal.wait(for: "waiting for trafficd")
            try terminal.press("q")
            try await terminal.wait(for: "exit status 0")
            try await terminal.expectRestored()
        }
        try await self.withTop(options: "--no-mouse") { terminal, _, _ in
            try await terminal.wait(for: "nginx")
            #expect(try terminal.variable("mouse_any_flag") == "0")
        }
    }

    @Test("keeps the user's choices for the next start; options win, and a file of nonsense does no harm")
    func settings() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample() }
            defer { daemon.stop() }
            func start(_ options: String = "") throws -> Terminal {
                let top = "'\(Lab.binary("trafficctl"))' top --runtime-directory '\(directory)' --interval 0.1"
                return try Terminal(width: 80, height: 24, directory: directory, command: "\(top) \(options)")
            }
            let path = directory + "/.config/trafficctl/top.json"
            do {
                let terminal = try start()
                try await terminal.wait(for: "nginx")
                try terminal.press("P", "g", "b")
                try await terminal.wait("bits by executable") { $0.contains("by executable") && $0.contains("kbit") }
                try terminal.press("q")
                try await terminal.wait(for: "exit status 0")
            }
            let kept = try String(contentsOfFile: path, encoding: .utf8)
            #expect(kept.contains(#""group" : "executable""#) && kept.contains(#""sort" : "pid""#))
            do {
                let terminal = try start()
                try await terminal.wait("as it was") { $0.contains("by executable") && $0.contains("kbit") }
                try terminal.press("C-c")
                try await terminal.wait(for: "over")
            }
            do {
                let terminal = try start("--group process --sort name")
                try await terminal.wait("what the options say") { $0.contains("PROCESS▲") && $0.contains("kbit") }
                try terminal.press("C-c")
                try await terminal.wait(for: "over")
            }
            #expect(try String(contentsOfFile: path, encoding: .utf8) == kept, "only quitting keeps")
            try "{ nonsense".write(toFile: path, atomically: false, encoding: .utf8)
            do {
                let terminal = try start()
                try await terminal.wait("the defaults") { $0.contains("nginx") && $0.contains("PROCESS") }
                try terminal.press("q")
                try await terminal.wait(for: "exit status 0")
            }
            #expect(try String(contentsOfFile: path, encoding: .utf8).contains(#""group" : "process""#))
            // top replaces a link in place of the file and does not follow it. Where others may write, top keeps
            // nothing.
            let victim = directory + "/victim"
            for (mode, isReplaced) in [(mode_t(0o700), true), (0o777, false)] {
                try "precious".write(toFile: victim, atomically: false, encoding: .utf8)
                unlink(path)
                try #require(symlink(victim, path) == 0 && chmod(directory + "/.config", mode) == 0)
                let terminal = try start()
                try await terminal.wait(for: "nginx")
                try terminal.press("q")
                try await terminal.wait(for: "exit status 0")
                #expect(try String(contentsOfFile: victim, encoding: .utf8) == "precious")
                let link = try? FileManager.default.destinationOfSymbolicLink(atPath: path)
                #expect(link == (isReplaced ? nil : victim))
            }
        }
    }

    @Test("adapts to every size of the terminal, 20x5 included")
    func resize() async throws {
        try await self.withTop(sockets: 200) { terminal, _, _ in
            try await terminal.wait(for: "nginx")
            try terminal.press("Enter")
            for (width, height) in [(120, 40), (40, 12), (20, 5), (5, 2), (200, 50), (80, 24)] {
                try terminal.resize(width: width, height: height)
                let screen = try await terminal.wait("a screen of \(width)x\(height)") { screen in
                    let lines = screen.split(separator: "\n", omittingEmptySubsequences: false)
                    return width < 20 || lines.contains { $0.contains("nginx") }
                }
                #expect(screen.split(separator: "\n").allSatisfy { $0.count <= width })
            }
            try terminal.press("q")
            try await terminal.expectRestored()
        }
    }

    @Test("waits for a daemon that is not there or went away, and goes on when the daemon comes back")
    func lostDaemon() async throws {
        try await self.withTop(width: 120) { terminal, daemon, directory in
            try await terminal.wait(for: "nginx")
            daemon.stop()
            let screen = try await terminal.wait(for: "waiting for trafficd at \(directory)/control.sock")
            #expect(screen.contains("nginx"), "the last data stay")
            let again = try FakeDaemon(directory: directory) { .sample() }
            try await terminal.wait("live data") { !$0.contains("waiting for") && $0.contains("nginx") }
            again.stop()
            try await terminal.wait(for: "waiting for")
            try terminal.press("q")
            try await terminal.wait(for: "exit status 0")
            try await terminal.expectRestored()
        }
    }

    @Test("says how to start the daemon if there never was one")
    func noDaemon() async throws {
        try await Lab.withDirectory { directory in
            let terminal = try Terminal(
                width: 120,
                height: 24,
                directory: directory,
                command: "'\(Lab.binary("trafficctl"))' top --runtime-directory '\(directory)'"
            )
            let screen = try await terminal.wait(for: "waiting for trafficd at \(directory)/control.sock")
            #expect(screen.contains("sudo trafficd run"))
            try terminal.press("C-c")
            try await terminal.expectRestored()
        }
    }

    @Test(
        "after a fatal signal or a crash the terminal is as it was before",
        arguments: [SIGTERM, SIGHUP, SIGINT, SIGSEGV, SIGABRT, SIGILL, SIGBUS, SIGTRAP, SIGQUIT]
    )
    func signals(_ signal: Int32) async throws {
        try await self.withTop { terminal, _, _ in
            try await terminal.wait(for: "nginx")
            kill(try terminal.pid(of: "trafficctl"), signal)
            let screen = try await terminal.wait(for: "over")
            #expect(screen.contains("exit status \(128 + signal)"))
            try await terminal.expectRestored()
        }
    }

    @Test("restores the terminal and stops on Ctrl-Z, and goes on when continued")
    func suspend() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample() }
            defer { daemon.stop() }
            let top = "'\(Lab.binary("trafficctl"))' top --runtime-directory '\(directory)' --interval 0.1"
            // Job control needs an interactive shell.
            let terminal = try Terminal(
                width: 80,
                height: 24,
                directory: directory,
                command: "PS1='ready> ' bash --norc --noprofile -i"
            )
            try await terminal.wait(for: "ready>")
            try terminal.type(top)
            try terminal.press("Enter")
            try await terminal.wait(for: "nginx")
            try terminal.press("C-z")
            try await terminal.wait(for: "Stopped")
            #expect(try terminal.variable("alternate_on") == "0")
            try terminal.type("fg")
            try terminal.press("Enter")
            try await terminal.wait("the list again") { $0.contains("nginx") && $0.contains("quit") }
            #expect(try terminal.variable("alternate_on") == "1")
            try terminal.press("q")
            try await terminal.wait(for: "ready>")
            #expect(try terminal.variable("alternate_on") == "0")
        }
    }

    @Test("a hostile name never reaches the terminal raw", arguments: ["C.UTF-8", "C"])
    func hostileName(locale: String) async throws {
        try await self.withTop(width: 160, locale: locale) { terminal, _, _ in
            try await terminal.wait(for: "\\x1b[2J\\x1b]0;pwned\\x07\\u{202e}evil")
            try terminal.press("Down", "d")
            try await terminal.wait(for: "command line")
            try terminal.press("i")
            try await terminal.wait(for: "Details")
            try terminal.press("q", "q")
            let bytes = try await terminal.allBytes()
            #expect(bytes.range(of: Data("nginx".utf8)) != nil, "the stream was captured")
            #expect(bytes.range(of: Data("\u{1b}]0;".utf8)) == nil)
            #expect(bytes.range(of: Data("\u{202e}".utf8)) == nil)
            #expect(try terminal.variable("pane_title") != "pwned")
            if locale == "C" { #expect(bytes.allSatisfy { $0 < 0x80 }) }
        }
    }

    @Test("draws with ASCII if the locale has no more, and without colours if asked")
    func asciiWithoutColor() async throws {
        try await self.withTop(options: "--color never", locale: "C") { terminal, _, _ in
            let screen = try await terminal.wait(for: "nginx")
            #expect(screen.contains("+ nginx"))
            try terminal.press("q")
            let text = String(decoding: try await terminal.allBytes(), as: UTF8.self)
            #expect(text.utf8.allSatisfy { $0 < 0x80 })
            // SGR 30 to 49 and 90 to 107 are colours; programs use 39 and 49, "the default", to reset them.
            let colors = text.matches(of: /\u{1b}\[[0-9;]*?\b(3[0-8]|4[0-8]|9[0-7]|10[0-7])[0-9;]*m/)
            #expect(colors.isEmpty, "\(colors.map(\.output.0.debugDescription))")
        }
    }

    @Test("works on a terminal without colours", arguments: ["vt100", "screen"])
    func plainTerminal(type: String) async throws {
        try await self.withTop(type: type) { terminal, _, _ in
            try await terminal.wait(for: "nginx")
            try terminal.press("q")
            try await terminal.wait(for: "exit status 0")
        }
    }

    @Test("for an unknown terminal the message names the terminal and says what to do")
    func unknownTerminal() async throws {
        try await self.withTop(width: 200, type: "nosuchterm") { terminal, _, _ in
            let screen = try await terminal.wait(for: "over")
            #expect(screen.contains("terminfo does not know the terminal 'nosuchterm'"))
            #expect(screen.contains("top --once"))
            #expect(screen.contains("exit status 1"))
        }
    }
}
