/// The page of keys. ``KeyBindings`` has the table for this page and for what the keys do.
extension TopState {
    var helpRows: [Frame.Row] {
        let lists = self.replay == nil ? KeyBindings.list : [KeyBindings.replay] + KeyBindings.list
        let groups = lists.map { title, bindings in
            [HelpEntry(key: nil, text: title)]
                + bindings.compactMap { binding in binding.label.map { HelpEntry(key: $0, text: binding.help) } }
        }
        let keys: [Frame.Row]
        if self.size.width >= Self.leastWidthForTwoColumns, let right = groups.last {
            let left = Array(groups.dropLast().joined(separator: [HelpEntry(key: nil, text: "")]))
            keys = (0..<max(left.count, right.count)).map { index in
                var line = self.line()
                if index < left.count { self.add(left[index], to: &line) }
                line.pad(to: self.size.width / 2)
                if index < right.count { self.add(right[index], to: &line) }
                return line.row()
            }
        } else {
            keys = groups.joined(separator: [HelpEntry(key: nil, text: "")]).map { entry in
                var line = self.line()
                self.add(entry, to: &line)
                return line.row()
            }
        }
        return keys + Self.notes.map(self.row)
    }

    private struct HelpEntry {
        /// `nil` for a heading.
        var key: String?
        var text: String
    }

    private static let leastWidthForTwoColumns = 76

    private func add(_ entry: HelpEntry, to line: inout Line) {
        line.add(" ")
        if let key = entry.key {
            line.add("  " + key, .key, width: 9)
            line.add(entry.text)
        } else {
            line.add(entry.text, .title)
        }
    }

    private static let notes: [PageLine] = [
        .blank, .heading("Filter: all terms must hold; - before a term turns it round"),
        PageLine(label: "  nginx", text: "part of the name, executable, user or unit"),
        PageLine(label: "  process: pid:", text: "user:  unit:  container:  cgroup:"),
        PageLine(label: "  port:443", text: "lport:  rport:  remote:10.0.0.0/8  local:  proto:udp"),
        PageLine(label: "  state:estab", text: "scope:internet  class:paid  role:client"),
        PageLine(label: "  host:api", text: "route:/orders  method:post  status:5xx  outcome:timeout"),
        PageLine(label: "  rx>1M", text: "tx  total: bytes;  rxrate  txrate  rate: bytes per second"),
        .blank, .heading("Mouse"),
        PageLine(label: "  Wheel", text: "up and down"),
        PageLine(label: "  Click", text: "a row: select, then open or close; a title: sort"),
        .blank, .heading("Columns"),
        PageLine(label: "  SENT RECV", text: "payload: what the process wrote and read, without headers"),
        PageLine(label: "  TRAFFIC", text: "both ways, a step per interval, each row to its own scale"),
        PageLine(label: "  RTT RETX", text: "of a socket: round-trip time, segments sent again"),
    ]
}
