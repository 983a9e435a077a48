import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// Numbered datagrams of a program in another language, over the daemon's own socket.
    @Suite(.needsBPF, .needs("python3"))
    struct MissingReportTests {
        /// `send(number)` returns whether the socket took the datagram. The process opens a socket, so that the kernel
        /// counts for it.
        private static let prelude = """
            import socket, struct, sys
            own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            own.bind(("127.0.0.1", 0))
            own.sendto(b"x", own.getsockname())
            own.recv(1)
            reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            def send(number):
                header = b"TRFC" + struct.pack("<BBHIIQ", 1, 24, 0, number, 0, 0)
                try:
                    return reports.sendto(header, sys.argv[1]) == len(header)
                except BlockingIOError:
                    return False

            """

        private func sender(_ script: String, to daemon: Daemon) throws -> Program {
            let python = try #require(Machine.path(of: "python3"))
            return try Program(python, ["-c", Self.prelude + script, daemon.directories.reportSocket.path])
        }

        /// The daemon's snapshot once the daemon has received this many datagrams. Then no more must come for a while.
        private func settled(_ daemon: Daemon, datagrams: UInt64) async throws -> Snapshot {
            var snapshot = try await look(until: { $0.capture.reports.datagrams >= datagrams }) {
                try await daemon.snapshot()
            }
            for _ in 0..<3 { snapshot = try await daemon.snapshot() }
            #expect(snapshot.capture.reports.datagrams == datagrams && snapshot.capture.reports.rejected == 0)
            return snapshot
        }

        @Test("skipped numbers are missing; numbers out of order, or of a second numbering, are not")
        func leftOut() async throws {
            // Each numbering ends with 64 numbers in order (`SenderNumbers.longestDelay`), so that no gap waits for a tick.
            let script = """
                import random
                random.seed(1)
                numbers = [number for number in range(1000) if number == 0 or number % 10]
                for start in range(0, len(numbers), 32):
                    block = numbers[start:start + 32]
                    if start: random.shuffle(block)
                    for number in block: send(number)
                for number in range(1000, 1064): send(number)
                for number in range(100 + 64):
                    if number != 50: send(number)
                """
            // The longest interval: after a tick without datagrams, the daemon waits for no number any more, although the
            // sender only rests.
            try await withDaemon(arguments: ["--interval", "60"]) { daemon in
                let sender = try self.sender(script, to: daemon)
                #expect(try await sender.exit() == 0, "\(sender.errorText)")
                let snapshot = try await self.settled(daemon, datagrams: 901 + 64 + 99 + 64)
                #expect(snapshot.capture.reports.missingDatagrams == 99 + 1)
                let doctor = try await Program.run(
                    Machine.programs.client,
                    ["doctor", "--runtime-directory", daemon.directories.runtime.path]
                )
                #expect(String(decoding: doctor.output, as: UTF8.self).contains("1,128 datagrams, 100 missing"))
            }
        }

        @Test("every datagram for which a daemon that hangs had no room is missing")
        func hangs() async throws {
            let script = """
                reports.setblocking(False)
                print("ready", send(0), flush=True)
                input()
                print(sum(not send(number) for number in range(1, 501)), flush=True)
                input()
                print(send(501), flush=True)
                """
            try await withDaemon { daemon in
                let sender = try self.sender(script, to: daemon)
                #expect(try await sender.line() == Data("ready True".utf8), "\(sender.errorText)")
                _ = try await self.settled(daemon, datagrams: 1)
                // A thread that goes on would take datagrams.
                try await daemon.program.halt()
                try sender.writeLine()
                let line = try #require(try await sender.line())
                daemon.program.signal(SIGCONT)
                let refused = try #require(UInt64(String(decoding: line, as: UTF8.self)))
                #expect(refused > 0)
                _ = try await self.settled(daemon, datagrams: 501 - refused)
                try sender.writeLine()
                #expect(try await sender.line() == Data("True".utf8))
                let snapshot = try await self.settled(daemon, datagrams: 502 - refused)
                #expect(snapshot.capture.reports.missingDatagrams == refused)
            }
        }
    }
}
