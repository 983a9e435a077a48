import TrafficModel

/// Text over the whole screen, and what stands there before the first snapshot.
extension TopState {
    /// One line of a page: what it is, and its value.
    struct PageLine {
        var label: String?
        var text: String
        var role = Style.Role.plain

        static func heading(_ text: String) -> PageLine { PageLine(label: nil, text: text, role: .title) }
        static let blank = PageLine(label: nil, text: "")
    }

    func pageLines(_ page: Page) -> [PageLine] {
        switch page {
        case .help: self.helpLines
        case .details: self.detailLines(width: self.size.width)
        case .capture: self.captureLines
        }
    }

    func pageFrame(_ page: Page, scroll: Int) -> Frame {
        let lines = self.pageLines(page)
        let height = max(1, self.size.height - 2)
        var rows = [self.pageTitle(page, below: max(0, lines.count - scroll - height))]
        // The page may have become shorter than it was when it was scrolled.
        let start = max(0, min(scroll, lines.count - height))
        rows += lines[start..<min(lines.count, start + height)].map(self.row)
        while rows.count < self.size.height - 1 { rows.append(Frame.Row()) }
        var keys = self.line()
        for (key, label) in [("Esc", "back"), ("Up Down", "scroll")] {
            keys.addWhole([(" \(key) ", .key), (label + " ", .keyLabel)])
        }
        keys.pad(to: self.size.width, .keyLabel)
        rows.append(keys.row())
        return Frame(rows: Array(rows.prefix(self.size.height)))
    }

    private func pageTitle(_ page: Page, below: Int) -> Frame.Row {
        var line = self.line()
        let title =
            switch page {
            case .help: "Keys of trafficctl top"
            case .details: "Details"
            case .capture: "Capture"
            }
        line.add(" " + title, .columnTitle)
        if below > 0 { line.addWhole([("  \(below) more lines below", .columnTitle)]) }
        line.pad(to: self.size.width, .columnTitle)
        return line.row()
    }

    func row(_ pageLine: PageLine) -> Frame.Row {
        var line = self.line()
        line.add(" ")
        if let label = pageLine.label {
            line.add(label, .label, width: min(Self.labelWidth, max(0, self.size.width / 3)))
            line.add(" ")
        }
        line.add(pageLine.text, pageLine.role)
        return line.row()
    }

    static let labelWidth = 16

    // MARK: Help

    private var helpLines: [PageLine] {
        var lines: [PageLine] = []
        for (title, bindings) in KeyBindings.list {
            if !lines.isEmpty { lines.append(.blank) }
            lines.append(.heading(title))
            for binding in bindings {
                guard let label = binding.label else { continue }
                lines.append(PageLine(label: "  " + label, text: binding.help))
            }
        }
        lines += [
            .blank, .heading("Filter"),
            PageLine(label: "  nginx", text: "the name or the executable contains it"),
            PageLine(label: "  user: unit:", text: "who runs it: user:www-data  unit:nginx"),
            PageLine(label: "  port: remote:", text: "its sockets: port:443  remote:10.0.0.0/8  proto:udp"),
            PageLine(label: "  rx> tx>", text: "its rates: rx>1M"),
            .blank, .heading("Columns"),
            PageLine(label: "  SENT RECV", text: "payload: bytes that the process wrote and read, without headers"),
            PageLine(label: "  TRAFFIC", text: "both ways, one step per interval, each row to its own scale"),
            PageLine(label: "  1.20 ms 3r", text: "of a socket: round-trip time, segments sent again"),
        ]
        return lines
    }

    // MARK: Capture

    private var captureLines: [PageLine] {
        guard let snapshot = self.timeline.snapshot else { return [PageLine(label: nil, text: "no data yet")] }
        let capture = snapshot.capture
        let clean = { (text: String) in self.typeface.printable(text) }
        var lines: [PageLine] = [
            .heading("How bytes are counted"),
            PageLine(label: "rung", text: capture.rung.rawValue, role: capture.isDegraded ? .warning : .plain),
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
            ("map full", loss.mapFull, "records, owners or sockets found no room"),
            ("malformed", loss.recordsMalformed, "records could not be read"),
            ("reports", loss.reportsDropped + loss.reportsRejected, "reports dropped or rejected"),
            ("sent", loss.lostSentBytes, "bytes belong to no known socket"),
            ("received", loss.lostReceivedBytes, "bytes belong to no known socket"),
        ]
        for (label, count, meaning) in losses {
            let role: Style.Role = count == 0 ? .dim : label == "ring full" ? .warning : .error
            lines.append(PageLine(label: label, text: "\(TimeText.grouped(count)) \(meaning)", role: role))
        }
        lines += [.blank, .heading("Totals")]
        lines += self.amounts("all", snapshot.totals.bytes.payload)
        for (scope, bytes) in snapshot.totals.byScope.sorted(by: { $0.key < $1.key }) {
            lines += self.amounts(clean(scope), bytes.payload)
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

    /// Breaks a long text, which must be printable, into the lines that it needs.
    func wrapped(_ label: String, _ text: String, _ role: Style.Role = .plain) -> [PageLine] {
        let room = max(8, self.size.width - min(Self.labelWidth, self.size.width / 3) - 3)
        let lines = self.typeface.wrapped(text, to: room)
        return lines.enumerated().map { PageLine(label: $0 == 0 ? label : "", text: $1, role: role) }
    }

    // MARK: Before the first snapshot

    var waitingRows: [Frame.Row] {
        var lines: [PageLine] = [.blank]
        let path = self.typeface.printable(self.socketPath)
        switch self.connection {
        case .connecting, .live:
            lines.append(PageLine(label: nil, text: "connecting to trafficd at \(path)"))
        case .lost(let reason):
            lines += self.wrappedText("waiting for trafficd at \(path)", .warning)
            lines += self.wrappedText(self.typeface.printable(reason, limit: 400), .dim)
            lines.append(.blank)
            lines.append(PageLine(label: nil, text: "start it:"))
            lines.append(PageLine(label: nil, text: "  sudo systemctl start trafficd", role: .key))
            lines.append(PageLine(label: nil, text: "or in another terminal:"))
            lines.append(PageLine(label: nil, text: "  sudo trafficd run", role: .key))
        }
        return lines.map(self.row)
    }

    private func wrappedText(_ text: String, _ role: Style.Role) -> [PageLine] {
        self.wrapped("", text, role).map { PageLine(label: nil, text: $0.text, role: $0.role) }
    }
}
