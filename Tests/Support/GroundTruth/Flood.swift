import Foundation
import TestSupport
public import TrafficModel

/// Unprivileged processes that load the daemon's machine as much as they can, beside other traffic.
public final class Flood {
    /// What one process did, by its own calls.
    private struct Result: Decodable {
        var sockets: UInt64
        var processes: UInt64
        var sent: UInt64
        var received: UInt64
    }

    /// How the daemon did during the flood, and what the daemon counted.
    public struct Report: Sendable {
        public var sockets: UInt64
        public var processes: UInt64
        /// Payload by the flood's own calls.
        public var truth: PayloadBytes
        /// Payload that the daemon counted, in any rows.
        public var counted: PayloadBytes
        /// Age in seconds of the oldest snapshot when its last byte arrived; `nil` where none came.
        public var oldestSnapshot: Double?
        /// Largest growth of the daemon's resident memory, in bytes.
        public var residentGrowth: Int
        public var loss: CaptureLoss
        /// Bytes in the row of no user, because they found no row of a user. They explain a difference.
        public var ofNobody: UInt64
        /// Bytes of IP packets sent, in the rows of the flood. A datagram of one byte takes 29 bytes. Where both
        /// payload and its packet are missing, a socket was lost or a call was not seen: packets of a socket that no
        /// process has used count for the kernel.
        public var wireSent: UInt64
        /// TCP sockets, of any process, that ended while process 1 ran. One kernel runs no BPF program for those ends
        /// (``EventsOfProcessOne``).
        public var endsOfProcessOne: Int

        public var isExact: Bool { self.truth == self.counted && !self.loss.isLossy }

        /// Whether the count is exact, except for connections of the flood whose end the kernel shows to no BPF program,
        /// and whose totals found no room when their last file was gone. Each such connection moves 100 bytes, in one
        /// direction.
        public var isExactButForHiddenEnds: Bool {
            guard !self.loss.isLossy, self.truth.sent >= self.counted.sent, self.truth.received >= self.counted.received
            else { return false }
            let missing = self.truth.growth(since: self.counted).total
            return missing.isMultiple(of: Flood.connectionBytes)
                && missing / Flood.connectionBytes <= UInt64(self.endsOfProcessOne)
        }

        public var description: String {
            "flood of \(self.sockets) sockets and \(self.processes) processes:"
                + " \(self.counted == self.truth ? "exact" : "expected \(self.truth), counted \(self.counted)"),"
                + " oldest snapshot \(self.oldestSnapshot.map { String(format: "%.2f s", $0) } ?? "none"),"
                + " resident +\(String(format: "%.1f", Double(self.residentGrowth) / 1e6)) MB,"
                + " \(self.loss.socketsFolded) sockets in rows"
                + (self.counted == self.truth ? "" : ", \(self.wireSent) bytes in packets sent")
                + (self.ofNobody > 0 ? ", \(self.ofNobody) bytes in nobody's row" : "")
                + (self.endsOfProcessOne > 0 ? ", \(self.endsOfProcessOne) TCP sockets ended while process 1 ran" : "")
        }
    }

    private static let name = "flooder"
    private static let uid: UInt32 = 65534
    /// What each socket of `trafficgen flood tcp` moves.
    private static let connectionBytes: UInt64 = 100

    private let programs: [Program]
    private let daemon: Daemon
    private let generator: URL
    private let before: ByteCounts
    private let residentBefore: Int
    private let endsOfProcessOne = EventsOfProcessOne(["tcp/tcp_destroy_sock"])
    private let watching: Task<Worst, Never>

    private struct Worst: Sendable {
        /// Seconds.
        var oldestSnapshot: Double?
        var resident = 0
    }

    /// - Parameters:
    ///   - kind: `trafficgen flood` lists the kinds.
    ///   - seconds: The least duration. The flood goes on until ``stop()``.
    ///   - held: How many sockets each process of the kind `held` has open at a time.
    public init(
        _ kind: String,
        processes: Int = 2,
        seconds: Int,
        held: Int = 15_000,
        programs: Programs,
        daemon: Daemon
    ) async throws {
        (self.daemon, self.generator) = (daemon, programs.generator)
        self.before = Self.counted(in: try await daemon.snapshot())
        self.residentBefore = Self.resident(daemon.program.pid)
        let arguments = ["flood", kind, String(seconds), String(held)]
        self.programs = try (0..<processes).map { _ in try Program(programs.generator, arguments) }
        self.watching = Self.watching(daemon.program.pid, programs.generator, daemon.directories.controlSocket.path)
    }

    private static func watching(_ pid: Int32, _ generator: URL, _ socket: String) -> Task<Worst, Never> {
        Task { await self.watch(pid, generator, socket) }
    }

    private static func watch(_ pid: Int32, _ generator: URL, _ socket: String) async -> Worst {
        var worst = Worst()
        while !Task.isCancelled {
            if let age = try? await self.age(generator, socket) {
                worst.oldestSnapshot = max(worst.oldestSnapshot ?? 0, age)
            }
            worst.resident = max(worst.resident, self.resident(pid))
            try? await Task.sleep(for: .milliseconds(100))
        }
        return worst
    }

    /// The age of a snapshot in seconds; `nil` where none came. A separate program asks, because other tasks decode
    /// snapshots here. Decoding takes longer than the daemon's answer.
    private static func age(_ generator: URL, _ socket: String) async throws -> Double? {
        let answer = try await Program.run(generator, ["age", socket])
        return Double(String(decoding: answer.output.dropLast(), as: UTF8.self)).map { $0 / 1e9 }
    }

    /// Ends the flood and compares.
    public func stop() async throws -> Report {
        // On a busy machine the watching task may have no age yet, and loses the one that it waits for.
        let last = try await look(until: { $0 != nil || !self.daemon.program.isRunning }) {
            try await Self.age(self.generator, self.daemon.directories.controlSocket.path)
        }
        var results: [Result] = []
        for program in self.programs { try program.writeLine() }
        for program in self.programs {
            guard let line = try await program.line() else {
                throw Program.Failure(description: "the flood ended with: \(program.errorText)")
            }
            results.append(try JSONDecoder().decode(Result.self, from: line))
            _ = try await program.exit()
        }
        self.watching.cancel()
        let worst = await self.watching.value
        let truth = results.reduce(PayloadBytes()) { $0 + PayloadBytes(sent: $1.sent, received: $1.received) }
        // On a busy machine rows may come some sweeps late (`RowReader`), and the daemon says so.
        let snapshot = try await look(
            every: .milliseconds(500),
            until: { snapshot in
                Self.counted(in: snapshot).payload.growth(since: self.before.payload) == truth
                    || !snapshot.capture.blindSpots.contains(CaptureStatus.lateRows)
            }
        ) {
            try await self.daemon.snapshot()
        }
        let counted = Self.counted(in: snapshot)
        return Report(
            sockets: results.reduce(0) { $0 + $1.sockets },
            processes: results.reduce(0) { $0 + $1.processes },
            truth: truth,
            counted: counted.payload.growth(since: self.before.payload),
            oldestSnapshot: [worst.oldestSnapshot, last].compactMap(\.self).max(),
            residentGrowth: worst.resident - self.residentBefore,
            loss: snapshot.capture.loss,
            ofNobody: (snapshot.exited ?? []).filter { $0.group == .other(of: nil) }
                .reduce(0) { $0 + $1.bytes.payload.total },
            wireSent: PayloadBytes(sent: counted.wireSent ?? 0).growth(
                since: PayloadBytes(sent: self.before.wireSent ?? 0)
            ).sent,
            endsOfProcessOne: self.endsOfProcessOne?.stop().count ?? 0
        )
    }

    /// All rows of the flood: of its processes, of its exited processes, and of its user.
    private static func counted(in snapshot: Snapshot) -> ByteCounts {
        let processes = (snapshot.processes ?? []).filter { $0.details.uid == self.uid }
        let exited = (snapshot.exited ?? []).filter { $0.group.name == self.name || $0.group.uid == self.uid }
        return (processes.map(\.bytes) + exited.map(\.bytes)).reduce(ByteCounts(), +)
    }

    private static func resident(_ pid: Int32) -> Int {
        let text = (try? String(contentsOfFile: "/proc/\(pid)/statm", encoding: .utf8)) ?? ""
        return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0)
            * Int(sysconf(Int32(_SC_PAGESIZE)))
    }
}
