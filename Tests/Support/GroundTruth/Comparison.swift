public import TrafficModel

/// One number or attribute of the daemon that differs from what the generator knows.
public struct Difference: Sendable, Equatable, CustomStringConvertible {
    public var subject: String
    public var expected: String
    public var actual: String

    public var description: String { "\(self.subject): expected \(self.expected), counted \(self.actual)" }
}

/// Compares a snapshot with what the generator's calls returned. Tolerance: 0 bytes.
public struct Comparison {
    private let truth: GeneratorResult
    private let snapshot: Snapshot
    private let socketsHeld: Bool
    private let reports: ReportCounters
    public private(set) var differences: [Difference] = []
    /// Of sockets whose role the generator knows: those of which the daemon knows it too, and those of which it may not.
    private var (knownRoles, unknownRoles) = (0, [String]())

    /// - Parameters:
    ///   - socketsHeld: The generator still holds its sockets open, so each must be listed. The daemon lists closed
    ///     sockets for a short time only. Where closed sockets are still listed, their numbers must be right.
    ///   - reports: The daemon's counters of reports before the run.
    public init(
        truth: GeneratorResult,
        snapshot: Snapshot,
        socketsHeld: Bool,
        since reports: ReportCounters = ReportCounters()
    ) {
        self.truth = truth
        self.snapshot = snapshot
        self.socketsHeld = socketsHeld
        self.reports = reports
        self.compareSockets()
        // Two connections must have begun at once for that, so it is an exception.
        if self.unknownRoles.count > self.knownRoles {
            self.differ("roles", expected: "few unknown", actual: "\(self.unknownRoles)")
        }
        self.compareProcesses()
        self.compareExcluded()
        self.compareReports()
        var loss = snapshot.capture.loss
        loss.missedRuns = 0  // the bytes show what a missed call costs
        if loss.isLossy { self.differ("loss", expected: "none", actual: "\(loss)") }
    }

    /// Whether the daemon says that bytes from before the snapshot come later.
    public var isOfLateSnapshot: Bool { self.snapshot.capture.blindSpots.contains(CaptureStatus.lateRows) }

    /// Whether the daemon says that it may not have seen which end opened a connection, because a program was refused.
    private var mayMissBeginnings: Bool {
        self.snapshot.capture.blindSpots.contains { $0.hasPrefix("which end opened a connection") }
    }

    /// Bytes that are still pending but count as sent here. Where the kernel left programs out, an open TCP socket has
    /// the bytes of those calls as pending until it closes. Otherwise every call of the generator has returned, and its
    /// bytes must be counted as sent.
    private func uncounted(_ bytes: ByteCounts) -> UInt64 {
        self.snapshot.capture.loss.missedRuns > 0 ? bytes.pendingSent : 0
    }

    /// Bytes by which the totals of all processes differ, added up.
    public private(set) var processDifference: UInt64 = 0

    private mutating func differ(_ subject: String, expected: String, actual: String) {
        self.differences.append(Difference(subject: subject, expected: expected, actual: actual))
    }

    /// - Returns: By how much the numbers differ.
    @discardableResult
    private mutating func compare(_ subject: String, expected: UInt64, actual: UInt64) -> UInt64 {
        guard expected != actual else { return 0 }
        self.differ(subject, expected: String(expected), actual: String(actual))
        return expected > actual ? expected - actual : actual - expected
    }

    // MARK: Sockets

    private mutating func compareSockets() {
        // An accepted MPTCP socket has its listener's cookie. Only the remote port tells such sockets apart.
        struct Name: Hashable {
            var cookie: UInt64
            var remotePort: UInt16?
        }
        let sharedCookies = Set(
            Dictionary(grouping: self.snapshot.sockets ?? [], by: \.cookie.rawValue).filter { $0.value.count > 1 }.keys
        )
        let listed = Dictionary(
            (self.snapshot.sockets ?? []).map { socket in
                let cookie = socket.cookie.rawValue
                return (
                    Name(cookie: cookie, remotePort: sharedCookies.contains(cookie) ? socket.remote.port : nil), socket
                )
            },
            uniquingKeysWith: { first, _ in first }
        )
        let truth = Dictionary(grouping: self.truth.sockets) { tally in
            let isShared = sharedCookies.contains(tally.cookie)
            return Name(cookie: tally.cookie, remotePort: isShared ? tally.remote?.port ?? 0 : nil)
        }
        for (name, tallies) in truth {
            let bytes = tallies.reduce(0) { $0 + $1.sent + $1.received }
            guard let socket = listed[name] else {
                if self.socketsHeld && tallies.allSatisfy(\.open) && bytes > 0 {
                    self.compare("socket \(name.cookie), not listed", expected: bytes, actual: 0)
                }
                continue
            }
            self.compare(socket, with: tallies)
        }
    }

    private mutating func compare(_ socket: SocketUsage, with tallies: [GeneratorResult.Tally]) {
        let subject = "socket \(socket.cookie.rawValue) (\(socket.transport) \(socket.local) \(socket.remote))"
        for tally in tallies {
            let owner = socket.owners.first {
                self.truth.isSame($0.identity, pid: tally.pid, startTicks: tally.startBoottimeTicks)
            }
            var payload = owner?.payload ?? PayloadBytes()
            if owner != nil && socket.owners.count == 1 { payload.sent += self.uncounted(socket.bytes) }
            self.compare("\(subject) owner \(tally.pid) sent", expected: tally.sent, actual: payload.sent)
            self.compare("\(subject) owner \(tally.pid) received", expected: tally.received, actual: payload.received)
        }
        for owner in socket.owners where owner.payload.total > 0 {
            let known = tallies.contains {
                self.truth.isSame(owner.identity, pid: $0.pid, startTicks: $0.startBoottimeTicks)
            }
            if !known {
                self.compare(
                    "\(subject) owner \(owner.identity.pid), a stranger",
                    expected: 0,
                    actual: owner.payload.total
                )
            }
        }
        let sum = tallies.reduce(PayloadBytes()) { $0 + PayloadBytes(sent: $1.sent, received: $1.received) }
        self.compare(
            "\(subject) total sent",
            expected: sum.sent,
            actual: socket.bytes.payload.sent + self.uncounted(socket.bytes)
        )
        self.compare("\(subject) total received", expected: sum.received, actual: socket.bytes.payload.received)
        self.compare(
            "\(subject) explained",
            expected: tallies.reduce(0) { $0 + $1.explained },
            actual: socket.explained
        )
        self.compareAttributes(of: socket, subject, with: tallies)
        self.compareConnect(of: socket, subject, with: tallies)
    }

    /// The kernel's time must lie within the time of the call, where the generator measured the call and the daemon was
    /// there to see it. A socket that has not connected has no time. With `poll` no socket has a time.
    private mutating func compareConnect(
        of socket: SocketUsage,
        _ subject: String,
        with tallies: [GeneratorResult.Tally]
    ) {
        let call = tallies.first { $0.connectNanoseconds != nil }
        let actual = socket.connectMicroseconds.map { "\($0) us" } ?? "none"
        if let call, let nanoseconds = call.connectNanoseconds, !call.isOlder, self.snapshot.capture.method != .poll {
            // The kernel's clock for programs may differ from the processes' clock by some nanoseconds
            // (ktime_get_mono_fast_ns()).
            if socket.connectMicroseconds.map({ $0 > nanoseconds / 1_000 + 1 }) ?? true {
                self.differ("\(subject) connect", expected: "at most \(nanoseconds) ns", actual: actual)
            }
            return
        }
        let isKnown = call != nil || tallies.contains { $0.role == "server" || $0.role == "listener" }
        let connects = tallies.allSatisfy { ["tcp", "mptcp", "dccp"].contains($0.transport) }
        if isKnown || !connects, socket.connectMicroseconds != nil {
            self.differ("\(subject) connect", expected: "none", actual: actual)
        }
    }

    private mutating func compareAttributes(
        of socket: SocketUsage,
        _ subject: String,
        with tallies: [GeneratorResult.Tally]
    ) {
        guard let first = tallies.first(where: { $0.role != nil }) ?? tallies.first else { return }
        if socket.transport.rawValue != first.transport {
            self.differ("\(subject) protocol", expected: first.transport, actual: socket.transport.rawValue)
        }
        if socket.family.rawValue != first.family {
            self.differ("\(subject) family", expected: first.family, actual: socket.family.rawValue)
        }
        if let role = first.role, role != "peer", !socket.preexisting {
            let isRight = socket.role.rawValue == role
            if isRight { self.knownRoles += 1 }
            if !isRight && socket.role == .peer && self.mayMissBeginnings {
                self.unknownRoles.append(subject)
            } else if !isRight {
                self.differ("\(subject) role", expected: role, actual: socket.role.rawValue)
            }
        }
        guard let remote = first.remote else { return }
        let expected = InternetAddress(remote.address).map { SocketAddress(address: $0, port: remote.port) }
        if let expected, socket.remote != expected {
            self.differ("\(subject) remote", expected: "\(expected)", actual: "\(socket.remote)")
        }
    }

    // MARK: Processes

    private mutating func compareProcesses() {
        let listed = Dictionary(grouping: self.snapshot.processes ?? [], by: \.identity.pid)
        for process in self.truth.processes {
            let subject = "process \(process.pid) (\(process.name))"
            let counted = listed[process.pid]?.first {
                self.truth.isSame($0.identity, pid: process.pid, startTicks: process.startBoottimeTicks)
            }
            var payload = counted?.bytes.payload ?? PayloadBytes()
            payload.sent += counted.map { self.uncounted($0.bytes) } ?? 0
            let offSent = self.compare("\(subject) sent", expected: process.sent, actual: payload.sent)
            let offReceived = self.compare("\(subject) received", expected: process.received, actual: payload.received)
            self.processDifference += offSent + offReceived
            self.compare("\(subject) explained", expected: process.explained, actual: counted?.explained ?? 0)
            if let counted, counted.details.name != process.name {
                self.differ("\(subject) name", expected: process.name, actual: counted.details.name)
            }
        }
    }

    private mutating func compareExcluded() {
        let listed = Set((self.snapshot.sockets ?? []).map(\.cookie.rawValue))
        for cookie in self.truth.excluded where listed.contains(cookie) {
            self.differ("socket \(cookie)", expected: "not listed: no internet socket", actual: "listed")
        }
    }

    // MARK: Reports

    private mutating func compareReports() {
        let (before, after, truth) = (self.reports, self.snapshot.capture.reports, self.truth.reports)
        let counters: [(String, KeyPath<ReportCounters, UInt64>, UInt64)] = [
            ("joined", \.joined, truth.joined), ("inferred", \.inferred, 0),
            ("duplicate", \.duplicate, truth.duplicate),
            ("foreign", \.foreign, truth.foreign), ("impossible", \.impossible, truth.impossible),
            ("rejected", \.rejected, truth.rejected), ("missing", \.missingDatagrams, 0), ("dropped", \.dropped, 0),
        ]
        for (name, counter, expected) in counters {
            self.compare(
                "reports \(name)",
                expected: expected,
                actual: after[keyPath: counter] - before[keyPath: counter]
            )
        }
    }
}
