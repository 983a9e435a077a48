import TrafficModel

/// Endpoints, as rows of the list and with all details.
extension TopState {
    func add(
        _ endpoint: EndpointRow,
        _ row: ListRow,
        _ snapshot: Snapshot,
        _ layout: ColumnLayout,
        to line: inout Line
    ) {
        line.add(self.branch(row) + " ", .dim)
        let counts = "\(TimeText.count(Int(clamping: endpoint.requests))) req"
        let end = layout.descriptionWidth
        let room = end - line.columns - counts.utf8.count - 1
        let arrow = endpoint.role == .client ? self.typeface.outgoing : self.typeface.incoming
        let name = self.typeface.printable(endpoint.name, limit: 400)
        line.add("\(arrow) ", .label)
        line.add(self.typeface.fitted(name, to: max(0, room - 2)), .plain)
        if room > 12 { line.add(" " + counts, endpoint.failures > 0 ? .warning : .label) }
        line.pad(to: end)
        for cell in layout.cells where !cell.column.isDescription {
            line.add(" ")
            switch cell.column {
            case .sparkline:
                let time = endpoint.p90.map { TimeText.shortRoundTrip(microseconds: $0) } ?? ""
                let text = time.isEmpty || time.utf8.count + 4 > cell.width ? time : "p90 " + time
                line.add(text, .label, width: cell.width)
            case .explained: line.add(endpoint.quality == .exact ? "" : "~", .dim, width: cell.width, .right)
            default:
                let bytes = PayloadBytes(sent: endpoint.sent, received: endpoint.received)
                self.addNumber(cell, bytes, nil, snapshot.totals.rates, isDim: false, to: &line)
            }
        }
    }

    // MARK: Details

    /// First the numbers of this process, then the numbers of all processes of its executable together.
    func lines(of row: EndpointRow, _ id: RowID, _ snapshot: Snapshot) -> [PageLine] {
        var lines = [PageLine(label: row.role.rawValue, text: self.clean(row.name), role: .title)]
        if row.isOwn {
            let failed = row.failures == 0 ? "" : ", \(row.failures) failed"
            let exchanges = "\(row.requests) requests, \(row.responses) responses\(failed)"
            lines += [
                PageLine(label: "sent", text: self.exact(row.sent)),
                PageLine(label: "received", text: self.exact(row.received)),
                PageLine(label: "exchanges", text: exchanges),
                PageLine(label: "quality", text: row.quality.rawValue),
            ]
        }
        guard !(row.isOwn && row.isRest), let endpoint = self.executables(row, id, snapshot) else { return lines }
        return lines + [.blank, .heading("All processes of its executable")] + self.lines(of: endpoint)
    }

    /// The numbers of the same endpoint for all processes of the executable.
    private func executables(_ row: EndpointRow, _ id: RowID, _ snapshot: Snapshot) -> EndpointUsage? {
        guard case .endpoint(_, _, .process(let identity)) = id,
            let process = snapshot.processes?.first(where: { $0.identity == identity })
        else { return nil }
        let group = ProcessGroup(process.details)
        return snapshot.endpoints?.first {
            $0.role == row.role && $0.subject == row.subject && $0.process == group
        }
    }

    private func lines(of endpoint: EndpointUsage) -> [PageLine] {
        var lines: [PageLine] = []
        for (label, bytes) in [("sent", endpoint.sent), ("received", endpoint.received)] {
            let parts = [
                ("line", bytes.line), ("header", bytes.header), ("body", bytes.body), ("framing", bytes.framing),
                ("TLS", bytes.tls),
            ]
            let text = parts.filter { $0.1 > 0 }.map { "\($0.0) \(self.units.amount($0.1))" }.joined(separator: ", ")
            lines += self.wrapped(label, text.isEmpty ? "nothing" : text)
        }
        lines.append(
            PageLine(label: "exchanges", text: "\(endpoint.requests) requests, \(endpoint.responses) responses")
        )
        let outcomes = endpoint.outcomes.map { "\($0.key.rawValue) \($0.value)" }.sorted().joined(separator: ", ")
        if !outcomes.isEmpty { lines += self.wrapped("outcomes", outcomes) }
        if let duration = endpoint.duration {
            let times = [("p50", duration.p50), ("p90", duration.p90), ("p99", duration.p99), ("max", duration.max)]
            lines += self.wrapped(
                "time",
                times.map { "\($0.0) \(TimeText.roundTrip(microseconds: $0.1))" }.joined(separator: ", ")
            )
        }
        if endpoint.waste.total > 0 {
            lines.append(PageLine(label: "wasted", text: self.units.amount(endpoint.waste.total)))
        }
        lines.append(PageLine(label: "quality", text: endpoint.quality.rawValue))
        return lines
    }
}
