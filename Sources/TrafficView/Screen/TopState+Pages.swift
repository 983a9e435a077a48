import TrafficModel

/// Pages of text over the whole screen, and the text before the first snapshot.
extension TopState {
    /// One line of a page: a label and a value.
    struct PageLine {
        var label: String?
        var text: String
        var role = Style.Role.plain

        static func heading(_ text: String) -> PageLine { PageLine(label: nil, text: text, role: .title) }
        static let blank = PageLine(label: nil, text: "")
    }

    func pageRows(_ page: Page) -> [Frame.Row] {
        switch page {
        case .help: self.helpRows
        case .details: self.detailLines.map(self.row)
        case .capture: self.captureLines.map(self.row)
        }
    }

    func pageFrame(_ page: Page, scroll: Int) -> Frame {
        let lines = self.pageRows(page)
        let height = max(1, self.size.height - 2)
        var rows = [self.pageTitle(page, below: max(0, lines.count - scroll - height))]
        // The page may have become shorter since the person scrolled.
        let start = max(0, min(scroll, lines.count - height))
        rows += lines[start..<min(lines.count, start + height)]
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
        if below > 0 { line.addWhole([("  \(below) more below", .columnTitle)]) }
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

    /// Breaks a long text into lines that fit the page. The text must be printable.
    func wrapped(_ label: String, _ text: String, _ role: Style.Role = .plain) -> [PageLine] {
        let room = max(8, self.size.width - min(Self.labelWidth, self.size.width / 3) - 3)
        let lines = self.typeface.wrapped(text, to: room)
        return lines.enumerated().map { PageLine(label: $0 == 0 ? label : "", text: $1, role: role) }
    }

    // MARK: Before the first snapshot

    var waitingRows: [Frame.Row] {
        var lines: [PageLine] = self.size.height < 10 ? [] : [.blank]
        let path = self.typeface.printable(self.address)
        switch self.connection {
        case .connecting, .live:
            lines.append(PageLine(label: nil, text: "connecting to trafficd at \(path)"))
        case .lost(let reason):
            lines += self.wrappedText("waiting for trafficd at \(path)", .warning)
            lines += self.wrappedText(self.typeface.printable(reason, limit: 400), .dim)
            lines.append(.blank)
            guard self.isLocal else {
                lines += self.wrappedText("it needs the setting listen: docs/install.md says how", .plain)
                break
            }
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
