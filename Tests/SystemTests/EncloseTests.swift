import Foundation
import GroundTruth
import TestSupport
import Testing

/// scripts/test runs in Tests/Tools/enclose/enclose.py, so that nothing of an interrupted run goes on.
@Suite("What a run of the tests leaves", .enabled(if: Machine.has("python3"), "python3 is not installed"))
struct EncloseTests {
    private static func run(_ script: String) async throws -> Program {
        try Program(Documents.root.appending(path: "Tests/Tools/enclose/enclose.py"), ["sh", "-c", script])
    }

    @Test("no process and no file, whatever ends it", arguments: [SIGTERM, SIGINT, nil])
    func processes(number: Int32?) async throws {
        // The second one has another parent, session and environment than the script.
        let program = try await Self.run(
            """
            sleep 1000 &
            (setsid env -i sleep 1001 & echo $! >"$TRAFFICD_TEST_FOLDER/pid")
            echo "$TRAFFICD_TEST_FOLDER" $! $(cat "$TRAFFICD_TEST_FOLDER/pid")
            \(number == nil ? "exit 7" : "wait")
            """
        )
        let words = String(decoding: try #require(try await program.line()), as: UTF8.self).split(separator: " ")
        let pids = words.dropFirst().compactMap { pid_t($0) }
        if let number { program.signal(number) }
        let code = try await program.exit()
        #expect(code == number.map { 128 + $0 } ?? 7)
        #expect(pids.count == 2 && pids.allSatisfy { kill($0, 0) == -1 && errno == ESRCH })
        #expect(!FileManager.default.fileExists(atPath: String(words[0])))
        // A run that ends by itself ought to leave nothing that it does not end.
        #expect(program.errorText.contains("left behind") == (number == nil), "\(program.errorText)")
    }

    @Test("no mount, and no network namespace of a process that is gone", .needsRoot, .needs("ip", "mount"))
    func kernel() async throws {
        let names = ["trafficd-test-\(pid_t.max)-1-\(UUID().uuidString.prefix(8))", NetworkNamespace().name]
        let program = try await Self.run(
            """
            mkdir "$TRAFFICD_TEST_FOLDER/a" "$TRAFFICD_TEST_FOLDER/b"
            mount -t tmpfs one "$TRAFFICD_TEST_FOLDER/a" && mkdir "$TRAFFICD_TEST_FOLDER/a/c" &&
                mount -t tmpfs two "$TRAFFICD_TEST_FOLDER/a/c" && mount --bind /etc "$TRAFFICD_TEST_FOLDER/b" &&
                ip netns add \(names[0]) && ip netns add \(names[1]) && echo "$TRAFFICD_TEST_FOLDER"
            """
        )
        let folder = String(decoding: try #require(try await program.line(), "\(program.errorText)"), as: UTF8.self)
        #expect(try await program.exit() == 0)
        #expect(!FileManager.default.fileExists(atPath: folder))
        #expect(try !String(contentsOfFile: "/proc/self/mountinfo", encoding: .utf8).contains(folder))
        #expect(FileManager.default.fileExists(atPath: "/etc/passwd"))
        // This process is not gone.
        #expect(names.map { FileManager.default.fileExists(atPath: "/run/netns/\($0)") } == [false, true])
        #expect(try await tool("ip", ["netns", "delete", names[1]]).code == 0)
    }
}
