import Foundation
import TestSupport
public import TrafficAudit
public import TrafficModel

/// What the daemon's audits say about the near side's two interfaces, and about sockets. Cumulative.
public struct WireAudit: Sendable {
    /// The lines of one direction. A missing line means 0.
    public typealias Lines = [AuditLine: Int64]

    /// The account of one interface.
    public struct Account: Sendable {
        public var sent: Lines = [:]
        public var received: Lines = [:]

        public init(sent: Lines = [:], received: Lines = [:]) {
            self.sent = sent
            self.received = received
        }

        /// - Parameter report: A report about one interface; `nil` where packets are not counted at interfaces.
        init(_ report: AuditReport?) {
            guard let section = report?.sections.first else { return }
            self.sent = Self.lines(section.sent)
            self.received = Self.lines(section.received)
        }

        private static func lines(_ lines: [AuditReport.Line]) -> Lines {
            Lines(lines.map { ($0.line, $0.bytes) }, uniquingKeysWith: +)
        }

        func growth(since earlier: Account) -> Account {
            Account(
                sent: self.sent.merging(earlier.sent.mapValues(-), uniquingKeysWith: +),
                received: self.received.merging(earlier.received.mapValues(-), uniquingKeysWith: +)
            )
        }
    }

    public var link = Account()
    public var loopback = Account()
    /// Whether the daemon counts packets at interfaces. If not, there is nothing to compare but the sockets.
    public var countsInterfaces = true
    /// Sockets of the whole machine whose witnesses disagree: calls, TCP and packets.
    public var disputes: [AuditReport.Dispute] = []
    /// Whether there are more disputes than those, of sockets that are gone.
    public var disputesAreCut = false
    /// Sum of the host's unexplained lines of sockets, as magnitudes.
    public var unexplained: UInt64 = 0

    /// A copy without the unexplained lines of the interfaces. What the audits could not explain before the first
    /// scenario then counts for that scenario.
    var withoutUnexplained: WireAudit {
        var copy = self
        for direction in [\WireAudit.link.sent, \.link.received, \.loopback.sent, \.loopback.received] {
            copy[keyPath: direction][.unexplainedAtInterface] = nil
        }
        return copy
    }

    public init() {}

    public init(link: AuditReport?, loopback: AuditReport?, host: AuditReport) {
        self.link = Account(link)
        self.loopback = Account(loopback)
        self.countsInterfaces = host.countsInterfaces
        self.disputes = host.disputes
        self.disputesAreCut = host.unlistedDisputedSockets > 0
        let sockets = host.sections.filter { $0.kind == .host }.flatMap { $0.sent + $0.received }
        self.unexplained = sockets.filter { $0.line == .unexplained }.reduce(0) { $0 + UInt64($1.bytes.magnitude) }
    }
}

extension WireAudit {
    /// Differences for the disputes about sockets of this run. Other programs of the machine may have their own
    /// disputes.
    func differences(_ truth: GeneratorResult) -> [Difference] {
        let cookies = Set(truth.sockets.map(\.cookie))
        let own = self.disputes.filter { dispute in
            cookies.contains(dispute.cookie.rawValue)
                || truth.processes.contains { process in
                    dispute.processes.contains {
                        truth.isSame($0, pid: process.pid, startTicks: process.startBoottimeTicks)
                    }
                }
        }
        var differences = own.map { dispute in
            Difference(
                subject: "[audit] \(dispute.name), \(dispute.direction), unexplained",
                expected: "0",
                actual: "\(dispute.unexplained) (payload \(dispute.payload), TCP \(Self.text(dispute.tcp)), packets "
                    + "\(Self.text(dispute.wirePayload)))"
            )
        }
        // Nothing tells which sockets these bytes belong to.
        if self.disputesAreCut || self.unexplained > 0 && self.disputes.isEmpty {
            differences.append(
                Difference(subject: "[audit] host, unexplained", expected: "0", actual: String(self.unexplained))
            )
        }
        return differences
    }

    private static func text(_ bytes: UInt64?) -> String {
        bytes.map(String.init) ?? "unknown"
    }
}

extension Daemon {
    /// - Parameter interface: An interface of the daemon's network namespace; `nil` for the host.
    public func audit(interface: String? = nil) async throws -> AuditReport {
        let path = interface.map { "/v1/audit?interface=\($0)" } ?? "/v1/audit"
        let answer = try await self.get(path)
        guard answer.code == 0 else { throw Program.Failure(description: "no audit: \(answer.error)") }
        return try JSONDecoder().decode(AuditReport.self, from: answer.output)
    }
}
