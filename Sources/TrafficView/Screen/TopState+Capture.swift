import TrafficModel

/// The page about how bytes are counted, what is missing from the numbers, and all totals.
extension TopState {
    var captureLines: [PageLine] {
        guard let snapshot = self.timeline.snapshot else { return [PageLine(label: nil, text: "no data yet")] }
        let capture = snapshot.capture
        let clean = { (text: String) in self.typeface.printable(text) }
        var lines: [PageLine] = [
            .heading("How bytes are counted"),
            PageLine(label: "method", text: capture.method.rawValue, role: capture.isDegraded ? .warning : .plain),
        ]
        if let reason = capture.reason { lines += self.wrapped("why", clean(reason), .warning) }
        lines += self.wrapped("hooks", capture.hooks.isEmpty ? "none" : clean(capture.hooks.joined(separator: ", ")))
        if capture.blindSpots.isEmpty { lines.append(PageLine(label: "blind spots", text: "none known")) }
        for (index, spot) in capture.blindSpots.enumerated() {
            lines += self.wrapped(index == 0 ? "blind spots" : "", clean(spot), .warning)
        }
        lines += [
            PageLine(label: "daemon", text: clean("trafficd \(snapshot.daemon.version), pid \(snapshot.daemon.pid)")),
            PageLine(label: "counting since", text: snapshot.countingSince.description),
            PageLine(label: "kernel", text: clean(snapshot.host.kernel)),
            .blank, .heading("What is missing from the numbers"),
        ]
        let loss = capture.loss
        let losses: [(String, UInt64, String)] = [
            ("ring full", loss.ringFull, "records came late, none lost"),
            ("in rows", loss.socketsFolded +| loss.callsFolded, "sockets and calls count for their process alone"),
            ("map full", loss.mapFull, "reads or packets found no room"),
            ("malformed", loss.recordsMalformed, "records could not be read"),
            (
                "reports", loss.reportsDropped +| loss.reportsRejected,
                capture.method == .poll
                    ? "reports not joined: that needs exact counting" : "reports dropped or rejected"
            ),
            ("datagrams", capture.reports.missingDatagrams, "datagrams of reports never came"),
            ("backwards", loss.countersBackwards, "times a counter fell"),
            ("missed", loss.missedRuns, "calls were not seen: a program was preempted"),
            ("failed", loss.readsFailed, "times something could not be read, and was later"),
            (
                "uncounted", (loss.uncountedNanoseconds +| 999_999) / 1_000_000,
                "ms until other counting programs took over"
            ),
        ]
        for (label, count, meaning) in losses {
            let isHarmless =
                ["ring full", "in rows", "failed"].contains(label)
                || label == "reports" && capture.method == .poll && loss.reportsDropped == 0
            let role: Style.Role = count == 0 ? .dim : isHarmless ? .warning : .error
            lines.append(PageLine(label: label, text: "\(TimeText.grouped(count)) \(meaning)", role: role))
        }
        lines += [.blank, .heading("Totals")]
        lines += self.amounts("all", snapshot.totals.bytes.payloadSoFar)
        for (scope, bytes) in snapshot.totals.byScope.sorted(by: { $0.key < $1.key }) {
            lines += self.amounts(clean(scope), bytes.payloadSoFar)
        }
        for (name, bytes) in (snapshot.totals.byClass ?? [:]).sorted(by: { $0.key < $1.key }) {
            lines += self.amounts(clean("class \(name)"), bytes.payloadSoFar)
        }
        lines += [.blank, .heading("Interfaces, since they came up")]
        for interface in Self.ordered(snapshot.interfaces ?? []) {
            let bytes = PayloadBytes(sent: interface.sentBytes, received: interface.receivedBytes)
            lines += self.amounts(clean(interface.name), bytes)
        }
        return lines
    }

    private func amounts(_ label: String, _ bytes: PayloadBytes) -> [PageLine] {
        let text =
            "\(self.typeface.up) \(self.units.amount(bytes.sent))  \(self.typeface.down) \(self.units.amount(bytes.received))"
        return [PageLine(label: label, text: text)]
    }
}
