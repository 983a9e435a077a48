public import TrafficAudit
import TrafficModel

/// An audit for people. Each account goes from the calls down to the interface's counter, with exact bytes in two
/// columns. The unexplained rest comes last.
public struct AuditView: Sendable {
    public var typeface: Typeface
    public var width: Int

    private static let columnWidth = 20

    public init(typeface: Typeface, width: Int) {
        self.typeface = typeface
        self.width = max(64, width)
    }

    public func frame(of report: AuditReport) -> Frame {
        var rows = [
            self.row("Audit since \(report.countingSince), method \(report.method.rawValue)", .title, "", "", .plain)
        ]
        for section in report.sections {
            rows.append(Frame.Row())
            rows.append(self.row(section.title, .title, "SENT", "RECEIVED", .columnTitle))
            rows += self.rows(of: section)
        }
        for dispute in report.disputes {
            rows.append(Frame.Row())
            rows += self.rows(of: dispute)
        }
        let hidden = report.unlistedDisputedSockets
        if hidden > 0 {
            let text = "and \(hidden) more \(hidden == 1 ? "socket" : "sockets")"
            rows.append(self.row(text, .warning, "", "", .plain))
        }
        if !report.countsInterfaces && report.sections.contains(where: { $0.kind == .host }) {
            let text = "Ends at the sockets. To compare the interfaces too: trafficd run --wire audited"
            rows.append(Frame.Row())
            rows.append(self.row(text, .warning, "", "", .plain))
        }
        rows.append(Frame.Row())
        rows.append(
            report.unexplained == 0
                ? self.row("Unexplained: 0 bytes", .received, "", "", .plain)
                : self.row("Unexplained: \(self.grouped(report.unexplained)) bytes", .error, "", "", .plain)
        )
        return Frame(rows: rows)
    }

    private func rows(of section: AuditReport.Section) -> [Frame.Row] {
        let sent = Dictionary(section.sent.map { ($0.line, $0.bytes) }, uniquingKeysWith: { $1 })
        let received = Dictionary(section.received.map { ($0.line, $0.bytes) }, uniquingKeysWith: { $1 })
        let order = Self.merged(section.sent.map(\.line)[...], section.received.map(\.line)[...])
        return order.map { line in
            let isWrong = line.isUnexplained && (sent[line] ?? 0) | (received[line] ?? 0) != 0
            let role: Style.Role = isWrong ? .error : line.isSum ? .name : .plain
            return self.row(
                (line.isSum ? "= " : "  ") + line.text(isInterface: section.kind == .interface),
                role,
                self.number(sent[line], line),
                self.number(received[line], line),
                role
            )
        }
    }

    /// Merges the lines of both directions, which have the same order. A direction leaves out lines without bytes.
    private static func merged(_ sent: ArraySlice<AuditLine>, _ received: ArraySlice<AuditLine>) -> [AuditLine] {
        var (sent, received, merged) = (sent, received, [AuditLine]())
        while let next = sent.first ?? received.first {
            let isShared = received.contains(next)
            let line = sent.isEmpty || isShared && received.first != next ? received.removeFirst() : sent.removeFirst()
            if received.first == line { received.removeFirst() }
            merged.append(line)
        }
        return merged
    }

    private func rows(of dispute: AuditReport.Dispute) -> [Frame.Row] {
        let who = dispute.processes.map { String($0.pid) }.joined(separator: " ")
        let title = "\(dispute.name), \(dispute.direction.rawValue)" + (who.isEmpty ? "" : ", pid \(who)")
        let witnesses: [(String, UInt64?)] = [
            ("counted from calls", dispute.payload), ("counted by TCP", dispute.tcp),
            ("carried by packets", dispute.wirePayload),
        ]
        return [self.row(title, .error, "", "", .plain)]
            + witnesses.map { self.row("  \($0.0)", .plain, $0.1.map(self.grouped) ?? "unknown", "", .plain) }
    }

    private func number(_ bytes: Int64?, _ line: AuditLine) -> String {
        guard let bytes else { return "" }
        let sign = bytes < 0 ? "-" : line.isSum || line == .payload ? "" : "+"
        return sign + self.grouped(UInt64(bytes.magnitude))
    }

    private func grouped(_ number: UInt64) -> String {
        var text = ""
        for (index, digit) in String(number).reversed().enumerated() {
            if index > 0 && index % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return String(text.reversed())
    }

    private func row(
        _ label: String,
        _ role: Style.Role,
        _ sent: String,
        _ received: String,
        _ numberRole: Style.Role
    ) -> Frame.Row {
        var line = Line(width: self.width, typeface: self.typeface)
        let column = Self.columnWidth
        guard !(sent.isEmpty && received.isEmpty) else {
            line.add(self.typeface.printable(label), role)
            return line.row()
        }
        let padded = { (text: String) in String(repeating: " ", count: max(1, column - text.count)) + text }
        line.add(self.typeface.printable(label), role, width: min(60, self.width - 2 * column))
        line.add(padded(sent), numberRole)
        line.add(padded(received), numberRole)
        return line.row()
    }
}

extension AuditReport.Section {
    fileprivate var title: String {
        switch self.kind {
        case .host: "Sockets of host \(self.name)"
        case .process: "Process \(self.name)"
        case .socket: "Socket \(self.name)"
        case .interface: "Interface \(self.name)"
        }
    }
}

extension AuditLine {
    fileprivate var isUnexplained: Bool { self == .unexplained || self == .unexplainedAtInterface }

    fileprivate func text(isInterface: Bool) -> String {
        switch self {
        case .payload: "payload of calls"
        case .othersPayload: "moved by others on shared sockets"
        case .pending: "in calls that have not returned"
        case .waiting: "waiting in sockets"
        case .abandoned: "still in sockets when they closed"
        case .again: "again: retransmitted, out of order"
        case .againAfterDrop: "again: dropped by this host"
        case .dropped: "dropped before the interface"
        case .framing: "framing (kernel TLS, sockmap)"
        case .datagrams: "datagrams held back, unread, dropped"
        case .earlier: "on their way when counting began"
        case .handshakePayload: "in handshakes"
        case .urgent: "urgent, unread"
        case .estimated: "estimated from counters"
        case .inUse: "in use while this was read"
        case .unexplained, .unexplainedAtInterface: "unexplained"
        case .headers: "TCP, UDP and IP headers"
        case .acknowledgements: "packets without payload"
        case .handshake: "SYN, FIN and RST packets"
        case .othersWire: "others' part of shared sockets"
        case .folded: "sockets closed without a record"
        case .noSocket: "packets of no socket (kernel)"
        case .fragments: "headers of fragments"
        case .queues: "dropped in queues"
        case .offload: "headers that offload adds later"
        case .otherProtocols: "other protocols (ARP)"
        case .linkHeaders: "link headers"
        case .onItsWay: "on their way while this was read"
        case .wirePayload: "payload in packets"
        case .wire: isInterface ? "wire bytes of sockets here" : "wire bytes of sockets"
        case .interfaceWire: "IP packets at interfaces"
        case .interfaceCounter: "the interface's own counter"
        }
    }
}
