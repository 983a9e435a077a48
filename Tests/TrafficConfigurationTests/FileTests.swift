import CommandOptions
import Foundation
import TestSupport
import Testing
import TrafficConfiguration

@Suite("The configuration file as a file")
struct FileTests {
    @Test(
        "what is no YAML, or YAML that is refused, is named with its place",
        arguments: [
            ("interval: 1s\n\tlog_level: info", "2:1: error: a tab: YAML wants blanks"),
            ("interval: \t1s", nil),
            (
                "classes: {a: [0.0.0.0/0, ::/0]}",
                "1:26: error: a colon that YAML does not expect: put a value with colons, such as \"::/0\", in quotes"
            ),
            (
                "interval: 1s\n  minute: 2d",
                "2:9: error: a colon that YAML does not expect: put a value with colons, such as \"::/0\", in quotes, or indent the line like the one above"
            ),
            (
                "listen: [::1]:80",
                "1:10: error: a colon that YAML does not expect: put a value with colons, such as \"::/0\", in quotes"
            ),
            (
                "interval: \"1s\nlog_level: debug\n",
                "3:1: error: not YAML: found unexpected end of stream, while scanning a quoted scalar that begins in line 1"
            ),
            ("a: &x [1]\nb: *x", "1:4: error: anchors (&) are not accepted: put a value that begins with & in quotes"),
            (
                "b: *x",
                "1:4: error: aliases (*) are not accepted: write the value here, or in quotes if it begins with *"
            ),
            ("interval: !!str 1s", "1:11: error: tags (!) are not accepted: put a value that begins with ! in quotes"),
            ("interval: 1s\n---\ninterval: 2s", "2:1: error: a second document begins here: the file has one"),
            ("é: 1\né: 1\ninterval: 1s\0", "3:13: error: not YAML: control characters are not allowed"),
        ] as [(String, String?)]
    )
    func syntax(text: String, line: String?) throws {
        #expect(try Written(text).lines() == (line.map { [$0] } ?? []))
    }

    @Test(
        "another encoding than UTF-8 is named with its place",
        arguments: [
            ([0x61, 0x0a, 0xc3, 0xa9, 0xe9], "2:2"), ([0xff, 0xfe, 0x61, 0x00], "1:1"), ([0xc3], "1:1"),
            ([0x61, 0xed, 0xa0, 0x80], "1:2"),
        ] as [([UInt8], String)]
    )
    func encoding(bytes: [UInt8], place: String) throws {
        #expect(try Written(bytes).lines() == ["\(place): error: not UTF-8: save the file in this encoding"])
    }

    @Test("lines and columns are right after Windows' ends of lines and characters of several bytes")
    func places() throws {
        #expect(try Written("# ä\r\nallow_hosts: [\"ä€😀\", [x]]\r\n").lines().first?.hasPrefix("2:22: ") == true)
    }

    @Test("a file may have a mebibyte, and lists in each other 16 deep")
    func limits() throws {
        let settings = "interval: 2s\n"
        let filling = String(repeating: "#", count: ConfigurationFile.largest - settings.utf8.count)
        #expect(try Written(settings + filling).configuration().interval.seconds == 2)
        #expect(
            try Written(settings + filling + "#").lines()
                == [" error: longer than 1048576 bytes"]
        )
        func nested(_ depth: Int) throws -> [String] {
            try Written("x: " + String(repeating: "[", count: depth) + String(repeating: "]", count: depth)).lines()
        }
        #expect(try nested(16).first?.contains("unknown key 'x'") == true)
        #expect(try nested(17).first == "1:20: error: lists and mappings are nested too deeply")
        #expect(try nested(100_000).first == "1:20: error: lists and mappings are nested too deeply")
    }

    @Test("a file that is not there, no file, or not readable is named")
    func unreadable() throws {
        func lines(_ path: String) -> [String] {
            do throws(ConfigurationFault) {
                _ = try ConfigurationFile(path: path).read()
                return []
            } catch {
                return error.lines
            }
        }
        #expect(lines("/nosuchfile") == ["/nosuchfile: error: can't read it: No such file or directory"])
        #expect(lines("/tmp") == ["/tmp: error: not a regular file"])
        #expect(lines("/dev/zero") == ["/dev/zero: error: not a regular file"])
        let pipe = temporaryPath("tp")
        try #require(mkfifo(pipe, 0o600) == 0)
        defer { unlink(pipe) }
        #expect(lines(pipe) == ["\(pipe): error: not a regular file"])
    }

    @Test("a file that others can write is refused", arguments: [0o602, 0o620, 0o666])
    func writable(mode: mode_t) throws {
        let file = try Written("interval: 2s")
        chmod(file.url.path, mode)
        #expect(file.lines().first?.hasPrefix(" error: other users can write it: ") == true)
        chmod(file.url.path, 0o644)
        #expect(try file.configuration().interval.seconds == 2)
    }

    @Test("a file of another user is refused", .enabled(if: geteuid() == 0, "needs root"))
    func ofOthers() throws {
        let file = try Written("interval: 2s")
        chown(file.url.path, 65_534, 0)
        #expect(file.lines().first?.hasPrefix(" error: belongs to user 65534, who can change it: ") == true)
    }

    @Test("whatever the bytes are, the file is read or refused with places in it")
    func fuzz() throws {
        var random = Seeded(5)
        let pieces = [
            "interval", "keep_history", "classes", ": ", ":", "\n", "  ", "- ", "[", "]", "{", "}", ", ", "\"", "'",
            "#", "&a",
            "*a", "!t ", "|\n", ">-\n", "? ", "---\n", "...\n", "%YAML 1.1\n", "\t", "é", "\u{85}", "\u{2028}", "1s",
            "10.0.0.0/8",
        ].map { Array($0.utf8) }
        var (read, refused) = (0, 0)
        for _ in 0..<5_000 {
            var text = (0..<Int.random(in: 0...12, using: &random)).flatMap { _ in
                pieces[Int.random(in: 0..<pieces.count, using: &random)]
            }
            if Int.random(in: 0..<4, using: &random) == 0, !text.isEmpty {
                text[Int.random(in: 0..<text.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let lines = try Written(text).lines()
            for line in lines {
                let numbers = line.split(separator: ":").prefix(2).map { Int($0) ?? -1 }
                #expect(
                    numbers.count == 2 && numbers[0] >= 1 && numbers[0] <= text.count + 1 && numbers[1] >= 1,
                    "\(line)"
                )
            }
            if lines.isEmpty { read += 1 } else { refused += 1 }
        }
        #expect(read > 100 && refused > 1_000, "\(read) \(refused)")
    }
}
