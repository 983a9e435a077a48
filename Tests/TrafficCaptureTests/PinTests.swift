import Foundation
import Glibc
import TestSupport
import Testing
import TrafficLedger
import TrafficModel

@testable import TrafficCapture

/// A BPF file system of the test's own.
private final class BPFFileSystem {
    let path = "/tmp/trafficd-pins-\(UUID().uuidString)"

    init() throws {
        try #require(mkdir(self.path, 0o700) == 0)
        try #require(mount("bpf", self.path, "bpf", 0, nil) == 0, "mount: errno \(errno)")
    }

    deinit {
        umount2(self.path, Int32(MNT_DETACH))
        rmdir(self.path)
    }
}

/// A program that moves bytes as it is told, and says after each command what its calls have returned so far.
private final class Mover {
    private static let program = """
        import os, socket, sys
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        sent = received = 0
        held = []
        def connect():
            client = socket.create_connection(listener.getsockname())
            return client, listener.accept()[0]
        def move(pair, size):
            global sent, received
            pair[0].sendall(bytes(size))
            sent += size
            while size > 0:
                got = len(pair[1].recv(65536))
                received += got
                size -= got
        def end(pair):
            for half in pair: half.close()
        for line in sys.stdin:
            word, number, size = line.split()
            number, size = int(number), int(size)
            if word == "churn":
                for _ in range(number):
                    pair = connect()
                    move(pair, size)
                    end(pair)
            elif word == "hold":
                for _ in range(number): held.append(connect())
            elif word == "use":
                for pair in held[:number]: move(pair, size)
            elif word == "drop":
                for pair in held[:number]: end(pair)
                del held[:number]
            elif word == "datagrams":
                pair = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                pair[1].bind(("127.0.0.1", 0))
                for _ in range(number):
                    sent += pair[0].sendto(bytes(size), pair[1].getsockname())
                    received += len(pair[1].recv(65536))
                end(pair)
            elif word == "share":
                pair = connect()
                for _ in range(number):
                    reading, writing = os.pipe()
                    child = os.fork()
                    if child == 0:
                        sent = received = 0
                        move(pair, size)
                        os.write(writing, b"%d %d" % (sent, received))
                        os._exit(0)
                    os.waitpid(child, 0)
                    more = os.read(reading, 100).split()
                    sent += int(more[0])
                    received += int(more[1])
                    os.close(reading)
                    os.close(writing)
                end(pair)
            print(sent, received, flush=True)
        """

    let name = "mv-\(UUID().uuidString.prefix(8))"
    private let folder = FileManager.default.temporaryDirectory.appending(path: "mover-\(UUID().uuidString)")
    private let running: Program
    private(set) var moved = PayloadBytes()

    init() throws {
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        let link = self.folder.appending(path: self.name)
        try FileManager.default.createSymbolicLink(
            atPath: link.path,
            withDestinationPath: URL(filePath: "/usr/bin/python3").resolvingSymlinksInPath().path
        )
        self.running = try Program(link, ["-c", Self.program])
    }

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    func tell(_ command: String) async throws {
        try self.running.writeLine(command)
        let line = try #require(try await self.running.line(), "\(self.running.errorText)")
        let numbers = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { UInt64($0) }
        self.moved = PayloadBytes(sent: try #require(numbers.first), received: try #require(numbers.last))
    }

    /// - Parameter shares: Also sockets of more than two processes. If such a socket closes while the maps are full, the
    ///   programs count a loss (`shared_lost`).
    func tellAnything(_ random: inout Seeded, shares: Bool) async throws {
        let size = Int.random(in: 1...3_000, using: &random)
        let command =
            switch Int.random(in: 0..<(shares ? 6 : 5), using: &random) {
            case 0: "churn \(Int.random(in: 1...150, using: &random))"
            case 1: "hold \(Int.random(in: 1...40, using: &random))"
            case 2: "use \(Int.random(in: 1...40, using: &random))"
            case 3: "drop \(Int.random(in: 1...40, using: &random))"
            case 4: "datagrams \(Int.random(in: 1...50, using: &random))"
            default: "share \(Int.random(in: 1...5, using: &random))"
            }
        try await self.tell("\(command) \(size)")
    }

    /// What a ledger says of the program and its children.
    func counted(_ reading: Reading) -> PayloadBytes {
        let listed = (reading.snapshot.processes ?? []).filter { $0.details.name == self.name }
        let ended = (reading.snapshot.exited ?? []).filter { $0.group.name == self.name }
        return (listed.map(\.bytes.payload) + ended.map(\.bytes.payload)).reduce(PayloadBytes(), +)
    }
}

@Suite("Pins", .serialized, .enabled(if: LiveMethod.isAvailable, "\(LiveMethod.probed.reason)"))
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
            mapElements: isSmall ? 128 : nil,
            wire: .exact,
            outlivesDaemon: true
        )
        try capture.pin(in: pins)
        var ledger = Ledger()
        _ = try Self.sweep(capture, &ledger)
        var kept = Kept(ledger: ledger, position: try #require(capture.position))
        var ends = 0
        for _ in 0..<80 {
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<4: try await mover.tellAnything(&random, shares: !isSmall)
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
                if Bool.random(using: &random) { try await mover.tellAnything(&random, shares: !isSmall) }
                capture = try BPFCapture(adopting: pins, from: kept.position, wanted: self.method, wire: .exact)
                ledger = kept.ledger
            }
        }
        var counted = PayloadBytes()
        for _ in 0..<200 where counted != mover.moved {
            counted = mover.counted(try Self.sweep(capture, &ledger))
            try capture.acknowledge()
            usleep(10_000)
        }
        #expect(ends > 0 && counted == mover.moved, "\(counted) instead of \(mover.moved), \(ends) ends")
        #expect(!capture.status.loss.isLossy, "\(capture.status.loss)")
        try pins.removeAll()
    }

    @Test("what is pinned goes on without a daemon, and goes with its pins")
    func absence() async throws {
        let files = try BPFFileSystem()
        let path = "\(files.path)/trafficd"
        let mover = try Mover()
        var ledger = Ledger()
        var position: CapturePosition
        do {
            let pins = try PinDirectory(taking: path)
            #expect(!pins.hasCapture)
            let capture = try BPFCapture(method: self.method, wire: .exact, outlivesDaemon: true)
            try capture.pin(in: pins)
            _ = try Self.sweep(capture, &ledger)
            position = try #require(capture.position)
            #expect(throws: PinError.inUse(path: path)) { try PinDirectory(taking: path) }
        }
        try await mover.tell("churn 20000 100")
        let pins = try PinDirectory(taking: path)
        #expect(pins.hasCapture)
        do {
            #expect(throws: AdoptionRefusal.options) {
                try BPFCapture(adopting: pins, from: position, wanted: nil, wire: .estimated)
            }
            let capture = try BPFCapture(adopting: pins, from: position, wanted: nil, wire: .exact)
            var counted = PayloadBytes()
            for _ in 0..<200 where counted != mover.moved {
                counted = mover.counted(try Self.sweep(capture, &ledger))
                try capture.acknowledge()
                usleep(10_000)
            }
            #expect(counted == mover.moved)
            // Positions that are too old are refused: the kernel has forgotten what was read since.
            #expect(throws: AdoptionRefusal.forgotten) {
                try BPFCapture(adopting: pins, from: position, wanted: nil, wire: .exact)
            }
            let before = LiveCaptureTests.openBPFDescriptors()
            #expect(before > 10)
        }
        try pins.removeDirectory()
        #expect(access(path, F_OK) != 0)
    }

    @Test("only a directory of trafficd in a BPF file system of the host is taken")
    func refusals() throws {
        let plain = "/tmp/trafficd-plain-\(UUID().uuidString)"
        #expect(throws: PinError.notBPF(path: plain)) { try PinDirectory(taking: plain) }
        #expect(access(plain, F_OK) != 0)

        let files = try BPFFileSystem()
        let path = "\(files.path)/trafficd"
        #expect(mkdir(path, 0o755) == 0 && chmod(path, 0o755) == 0)
        #expect(throws: PinError.notSafe(path: path)) { try PinDirectory(taking: path) }
        #expect(chmod(path, 0o700) == 0 && mkdir("\(path)/other", 0o700) == 0)
        #expect(throws: PinError.foreign(path: "\(path)/other")) { try PinDirectory(taking: path) }
        #expect(rmdir("\(path)/other") == 0)
        // What a daemon left that was ended while it pinned.
        #expect(mkdir("\(path)/new", 0o700) == 0)
        let pins = try PinDirectory(taking: path)
        #expect(access("\(path)/new", F_OK) != 0 && !pins.hasCapture)
    }
}
