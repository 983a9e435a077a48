import Foundation
import Glibc
import GroundTruth
import TestSupport
import TestTraits
import Testing
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    @Suite("Pins")
    struct PinTests {
        private let method = LiveMethod.probed.method ?? .tracepoint

        /// What a daemon keeps: the state of its ledger, and how far that ledger has come.
        private struct Kept {
            var ledger: Ledger
            var position: CapturePosition
        }

        private static func sweep(_ capture: BPFCapture, _ ledger: inout Ledger) throws -> Reading {
            try capture.sweep { ledger.absorb($0) }
            return ledger.tick(capture)
        }

        @Test(
            "daemons that end at any moment count each byte once",
            arguments: [false, true].flatMap { isSmall in (1...4).map { (isSmall: isSmall, seed: UInt64($0)) } }
        )
        func endings(isSmall: Bool, seed: UInt64) async throws {
            var random = Seeded(seed)
            let files = try BPFFileSystem()
            let pins = try PinDirectory(taking: "\(files.path)/trafficd")
            let mover = try Mover()
            // With little room, sockets close without a record and leave their bytes in rows.
            var capture = try BPFCapture(
                method: self.method,
                ringBytes: isSmall ? 8_192 : nil,
                deferredElements: isSmall ? 1_024 : nil,
                wire: .exact,
                outlivesDaemon: true
            )
            #expect(try capture.pin(in: pins))
            // And with no memory for closed sockets, a record that is read twice counts twice.
            var ledger = Ledger(retention: isSmall ? Ledger.Retention(closedSockets: .zero) : Ledger.Retention())
            _ = try Self.sweep(capture, &ledger)
            var kept = Kept(ledger: ledger, position: try #require(capture.position))
            var ends = 0
            for _ in 0..<80 {
                switch Int.random(in: 0..<10, using: &random) {
                case 0..<4: try await mover.tellAnything(&random)
                case 4: try capture.drain { ledger.absorb($0) }
                case 5: _ = try Self.sweep(capture, &ledger)
                case 6:
                    // The daemon is ended after it has kept its state, and before the kernel hears of that.
                    kept = Kept(ledger: ledger, position: try #require(capture.position))
                case 7, 8:
                    kept = Kept(ledger: ledger, position: try #require(capture.position))
                    try capture.acknowledge()
                default:
                    ends += 1
                    if Bool.random(using: &random) { try await mover.tellAnything(&random) }
                    capture = try BPFCapture(adopting: pins, from: kept.position)
                    ledger = kept.ledger
                }
            }
            let counted = try await look(every: .milliseconds(10), until: { $0 == mover.moved }) {
                let counted = try Self.sweep(capture, &ledger).snapshot.payload(of: mover)
                try capture.acknowledge()
                return counted
            }
            #expect(ends > 0 && counted == mover.moved, "\(counted) instead of \(mover.moved), \(ends) ends")
            #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
            try pins.removeAll()
        }

        /// A daemon keeps what it knows of some connections. Then each moves 100 bytes, and the daemon is killed before it
        /// can keep what its sweep says of that.
        ///
        /// - Returns: What the next daemon counts of the program.
        private func countUnacknowledged(
            of mover: Mover,
            connections: Int,
            _ meanwhile: (Mover) async throws -> Void
        ) async throws -> PayloadBytes {
            let files = try BPFFileSystem()
            let pins = try PinDirectory(taking: "\(files.path)/trafficd")
            var capture = try BPFCapture(method: self.method, wire: .exact, outlivesDaemon: true)
            #expect(try capture.pin(in: pins))
            var ledger = Ledger()
            try await mover.tell("hold \(connections) 0")
            _ = try Self.sweep(capture, &ledger)
            let kept = Kept(ledger: ledger, position: try #require(capture.position))
            try capture.acknowledge()
            try await mover.tell("use \(connections) 100")
            try capture.sweep { _ in }
            try await meanwhile(mover)
            capture = try BPFCapture(adopting: pins, from: kept.position)
            ledger = kept.ledger
            let counted = try await look(every: .milliseconds(10), until: { $0 == mover.moved }) {
                let counted = try Self.sweep(capture, &ledger).snapshot.payload(of: mover)
                try capture.acknowledge()
                return counted
            }
            try pins.removeAll()
            return counted
        }

        @Test("a socket that moves nothing more is reported again if its last report was not acknowledged")
        func unacknowledgedOpen() async throws {
            let mover = try Mover()
            #expect(try await self.countUnacknowledged(of: mover, connections: 3) { _ in } == mover.moved)
            #expect(mover.moved.sent == 300)
        }

        @Test(
            "a socket that closes before its last report is acknowledged has a record, though its user's part is full",
            SocketFlood.floods
        )
        func unacknowledgedClosed() async throws {
            let mover = try Mover()
            // A user's part has room for some 900 sockets in the ring, and for 16,384 in the map. Unacknowledged
            // ones have twice that.
            let connections = 9_500
            let counted = try await self.countUnacknowledged(of: mover, connections: connections) {
                try await $0.tell("drop \(connections) 0")
            }
            #expect(counted == mover.moved && mover.moved.sent == 100 * UInt64(connections))
        }

        /// Where ends may be missed, each of the others leaves a copy behind the ring.
        @Test(
            "a socket whose last report was not acknowledged has a record, though many others have closed",
            SocketFlood.floods
        )
        func unacknowledgedAfterFlood() async throws {
            let mover = try Mover()
            let counted = try await self.countUnacknowledged(of: mover, connections: 3) {
                try await $0.tell("churn 20000 100")
                try await $0.tell("drop 3 0")
            }
            #expect(counted == mover.moved && mover.moved.sent == 100 * 20_003)
        }

        @Test("what is pinned goes on without a daemon, and goes with its pins", SocketFlood.floods)
        func absence() async throws {
            let files = try BPFFileSystem()
            let path = "\(files.path)/trafficd"
            let mover = try Mover()
            var ledger = Ledger()
            var position: CapturePosition
            do {
                let pins = try PinDirectory(taking: path)
                #expect(try !pins.hasCapture())
                let capture = try BPFCapture(method: self.method, wire: .exact, outlivesDaemon: true)
                #expect(try capture.pin(in: pins))
                _ = try Self.sweep(capture, &ledger)
                position = try #require(capture.position)
                #expect(throws: PinError.inUse(path: path)) { try PinDirectory(taking: path) }
            }
            try await mover.tell("churn 20000 100")
            let pins = try PinDirectory(taking: path)
            #expect(try pins.hasCapture())
            do {
                #expect(position.counts(by: nil, wire: .exact) && position.counts(by: self.method, wire: .exact))
                #expect(!position.counts(by: .poll, wire: .exact) && !position.counts(by: nil, wire: .derived))
                let capture = try BPFCapture(adopting: pins, from: position)
                // On a busy machine it takes a while until no program can be adding to a row any more.
                let snapshot = try await look(every: .milliseconds(10), until: { $0.payload(of: mover) == mover.moved })
                {
                    let snapshot = try Self.sweep(capture, &ledger).snapshot
                    try capture.acknowledge()
                    return snapshot
                }
                #expect(snapshot.payload(of: mover) == mover.moved, "\(snapshot.capture.loss)")
                // Positions that are too old are refused: the kernel has forgotten what was read since.
                #expect(throws: AdoptionRefusal.forgotten) {
                    try BPFCapture(adopting: pins, from: position)
                }
                let before = LiveCaptureTests.openBPFDescriptors()
                #expect(before > 10)
            }
            try pins.removeDirectory()
            #expect(access(path, F_OK) != 0)
        }

        @Test("a directory that was given up can be taken at once, though a child process has a copy of its descriptor")
        func copiedDescriptor() throws {
            let files = try BPFFileSystem()
            let path = "\(files.path)/trafficd"
            var pins: PinDirectory? = try PinDirectory(taking: path)
            let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").first {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")) == path
            }
            // The copy shares the lock, like that of a child.
            let copy = dup(try #require(open.flatMap { Int32($0) }))
            defer { close(copy) }
            #expect(throws: PinError.inUse(path: path)) { try PinDirectory(taking: path) }
            withExtendedLifetime(pins) {}
            pins = nil
            _ = try PinDirectory(taking: path)
        }

        @Test("only a directory of trafficd in a BPF file system of the host is taken")
        func refusals() throws {
            let plain = "/tmp/trafficd-plain-\(UUID().uuidString)"
            #expect(throws: PinError.notBPF(path: plain)) { try PinDirectory(taking: plain) }
            #expect(access(plain, F_OK) != 0)
            #expect(throws: PinError.notBPF(path: "\(plain)/none")) { try PinDirectory(taking: "\(plain)/none") }
            #expect(throws: PinError.absent(path: plain)) { try PinDirectory(left: plain) }

            let files = try BPFFileSystem()
            let path = "\(files.path)/trafficd"
            #expect(mkdir(path, 0o755) == 0 && chmod(path, 0o755) == 0)
            #expect(throws: PinError.notSafe(path: path)) { try PinDirectory(taking: path) }
            // Root removes what a service with a user of its own has left, and follows no link out of the directory.
            #expect(chmod(path, 0o700) == 0 && chown(path, 65_534, 65_534) == 0)
            #expect(throws: PinError.notSafe(path: path)) { try PinDirectory(taking: path) }
            #expect(mkdir("\(files.path)/others", 0o700) == 0)
            #expect(symlink("\(files.path)/others", "\(path)/17") == 0)
            #expect(throws: PinError.system(call: "open", path: "\(path)/17", errno: ENOTDIR)) {
                try PinDirectory(left: path).removeDirectory()
            }
            #expect(access("\(files.path)/others", F_OK) == 0)
            #expect(unlink("\(path)/17") == 0 && mkdir("\(path)/17", 0o700) == 0)
            try PinDirectory(left: path).removeDirectory()
            #expect(access(path, F_OK) != 0)

            #expect(mkdir(path, 0o755) == 0)
            #expect(chmod(path, 0o700) == 0 && mkdir("\(path)/other", 0o700) == 0)
            #expect(throws: PinError.foreign(path: "\(path)/other")) { try PinDirectory(taking: path) }
            #expect(rmdir("\(path)/other") == 0)
            // What a daemon left that was ended while it pinned.
            #expect(mkdir("\(path)/new", 0o700) == 0)
            let pins = try PinDirectory(taking: path)
            #expect(try access("\(path)/new", F_OK) != 0 && !pins.hasCapture())
        }
    }
}
