public import TrafficDocuments
import TrafficLimits
import TrafficModel

/// The report of `doctor` for people: first the daemon and its capture method, then each check, with its remedy where
/// there is one, then the limits where they are asked for, then the cost of counting where it was measured.
public struct DoctorView: Sendable {
    public var typeface: Typeface
    public var width: Int

    public init(typeface: Typeface, width: Int) {
        self.typeface = typeface
        self.width = max(20, width)
    }

    /// - Parameter showsLimits: Also how much users may make the daemon keep.
    public func frame(of report: DoctorReport, showsLimits: Bool = false) -> Frame {
        var rows: [Frame.Row] = []
        if report.capture.isFallback {
            rows += self.rows(
                "",
                "NOT EXACT: every exact method is refused. trafficd polls: it sees only TCP, and misses the last bytes of connections",
                .error
            )
        }
        let host =
            "trafficd \(report.daemon.version), pid \(report.daemon.pid), on \(report.host.name), Linux \(report.host.kernel)"
        rows += self.rows("", host, .title)
        rows.append(Frame.Row())
        rows += self.rows("method", report.capture.method.rawValue, report.capture.isDegraded ? .warning : .plain)
        if let reason = report.capture.reason { rows += self.rows("why", reason) }
        rows += self.rows("hooks", report.capture.hooks.isEmpty ? "none" : report.capture.hooks.joined(separator: ", "))
        if report.capture.blindSpots.isEmpty { rows += self.rows("can't see", "nothing that is known") }
        for (index, spot) in report.capture.blindSpots.enumerated() {
            rows += self.rows(index == 0 ? "can't see" : "", spot, .warning)
        }
        rows += self.rows(
            "losses",
            report.capture.lossSummary?.text ?? "none",
            report.capture.lossSummary?.role ?? .plain
        )
        if let reports = report.capture.reportSummary { rows += self.rows("reports", reports.text, reports.role) }
        rows.append(Frame.Row())
        for check in report.checks {
            let role: Style.Role =
                switch check.status {
                case .ok: .received
                case .degraded: .warning
                case .failed: .error
                }
            rows += self.rows(check.status.rawValue, "\(check.name): \(check.detail)", labelRole: role)
            if let remedy = check.remedy { rows += self.rows("", "\(self.typeface.outgoing) \(remedy)", .key) }
        }
        if showsLimits { rows += self.rows(of: report.limits ?? []) }
        if let cost = report.cost { rows += self.rows(of: cost) }
        rows.append(Frame.Row())
        rows += self.rows("next", self.next(report))
        return Frame(rows: rows)
    }

    /// What to do about the worst finding; where there is none, what to look at.
    private func next(_ report: DoctorReport) -> String {
        for status in [DoctorReport.Status.failed, .degraded] {
            guard let check = report.checks.first(where: { $0.status == status }) else { continue }
            return "\(check.name): \(check.remedy ?? "see above"). Then run this again"
        }
        return "nothing to mend. See what moves now: trafficctl top. See that no byte is missing: sudo trafficctl audit"
    }

    private func rows(of limits: [StatedLimit]) -> [Frame.Row] {
        var rows = [Frame.Row()] + self.rows("limits", limits.isEmpty ? "this daemon tells none" : "the most of each")
        for limit in limits {
            let amounts = [("a process", limit.process), ("a user", limit.user), ("all", limit.all)]
                .compactMap { who, amount in amount.map { "\(who) \(TimeText.grouped($0))" } }
            rows += self.rows("", limit.of, .title)
            rows += self.rows("", "  " + amounts.joined(separator: ", "))
            rows += self.rows("", "  beyond: " + limit.beyond, .dim)
        }
        return rows
    }

    private static let labelWidth = 11

    func rows(
        _ label: String,
        _ text: String,
        _ role: Style.Role = .plain,
        labelRole: Style.Role = .label
    ) -> [Frame.Row] {
        let indent = label.isEmpty && (role == .title || role == .error) ? 0 : Self.labelWidth
        let lines = self.typeface.wrapped(self.typeface.printable(text), to: self.width - indent)
        return lines.enumerated().map { index, text in
            var line = Line(width: self.width, typeface: self.typeface)
            line.add(index == 0 ? label : "", labelRole, width: indent)
            line.add(text, role)
            return line.row()
        }
    }
}

extension CaptureStatus {
    /// `nil` where no program reports.
    fileprivate var reportSummary: (text: String, role: Style.Role)? {
        let reports = self.reports
        guard reports.datagrams > 0 else { return nil }
        let isPolling = self.method == .poll
        let parts = [
            ("datagrams", reports.datagrams), ("missing", reports.missingDatagrams), ("records", reports.records),
            (isPolling ? "not joined, because that needs exact counting" : "rejected", reports.rejected),
            ("dropped", reports.dropped),
        ]
        let text = parts.filter { $0.1 > 0 }.map { "\(TimeText.grouped($0.1)) \($0.0)" }.joined(separator: ", ")
        let lost = reports.missingDatagrams +| (isPolling ? 0 : reports.rejected) +| reports.dropped
        return (text, lost > 0 ? .error : .plain)
    }
}
