import TrafficModel

/// Everything known about the row under the cursor.
extension TopState {
    /// The details below the list, under a rule.
    var paneRows: [Frame.Row] {
        let lines = self.detailLines
        let room = self.paneHeight - 1
        var rule = self.line()
        rule.add(String(repeating: self.typeface.rule, count: 2), .dim)
        rule.add(lines.count > room ? " details, i shows all " : " details ", .label)
        rule.add(String(repeating: self.typeface.rule, count: rule.room), .dim)
        var rows = [rule.row()] + lines.prefix(room).map(self.row)
        while rows.count < self.paneHeight { rows.append(Frame.Row()) }
        return rows
    }

    var detailLines: [PageLine] {
        guard let row = self.selectedRow, let snapshot = self.shown else {
            return [PageLine(label: nil, text: "no row selected", role: .dim)]
        }
        switch row.content {
        case .usage(let usage):
            if usage.pid != nil, let index = usage.members.first, let process = snapshot.processes?[index] {
                return self.lines(of: process, snapshot)
            }
            return self.lines(of: usage, snapshot)
        case .socket(let index, _):
            guard let socket = snapshot.sockets?[index] else { return [] }
            return self.lines(of: socket, snapshot)
        case .endpoint(let endpoint):
            return self.lines(of: endpoint, row.id, snapshot)
        case .pending, .none, .ofExecutable:
            return []
        case .rest(_, let kind):
            return [PageLine(label: nil, text: "Enter shows the other \(kind.rawValue)", role: .dim)]
        }
    }

    func clean(_ text: String) -> String { self.typeface.printable(text, limit: 4000) }

    private func lines(of process: ProcessUsage, _ snapshot: Snapshot) -> [PageLine] {
        let details = process.details
        var lines = [
            PageLine(label: "process", text: "\(process.identity.pid) \(self.clean(details.name))", role: .title)
        ]
        lines += self.byteLines(process.bytes, process.rates)
        if process.explained > 0 {
            let (explained, rest) = (self.units.amount(process.explained), self.units.amount(process.unattributed))
            lines.append(PageLine(label: "reported", text: "\(explained) of the payload, \(rest) unattributed"))
        }
        if let commandLine = details.commandLine, !commandLine.isEmpty {
            lines += self.wrapped("command line", self.clean(Self.shellText(commandLine)))
        }
        if let executable = details.executable { lines += self.wrapped("executable", self.clean(executable)) }
        lines.append(PageLine(label: "user", text: "\(self.clean(details.userName)), uid \(details.uid)"))
        if let unit = details.systemdUnit { lines += self.wrapped("unit", self.clean(unit)) }
        if let container = details.containerID { lines += self.wrapped("container", self.clean(container)) }
        if let cgroup = details.cgroup { lines += self.wrapped("cgroup", self.clean(cgroup)) }
        if let started = details.startedAt {
            let age = TimeText.duration(seconds: seconds(from: started, to: process.exitedAt ?? snapshot.takenAt))
            lines.append(PageLine(label: "started", text: "\(started), ran \(age)"))
        }
        if let exited = process.exitedAt { lines.append(PageLine(label: "exited", text: exited.description)) }
        if let namespace = details.networkNamespace {
            lines.append(PageLine(label: "net namespace", text: String(namespace)))
        }
        lines.append(PageLine(label: "sockets open", text: String(process.socketsOpen)))
        lines += self.socketLines(snapshot) { $0.owners.contains { $0.identity == process.identity } }
        return lines
    }

    private func lines(of usage: UsageRow, _ snapshot: Snapshot) -> [PageLine] {
        var lines = [PageLine(label: self.grouping.rawValue, text: self.clean(usage.name), role: .title)]
        if case .group(let key) = usage.id, key != usage.name { lines += self.wrapped("", self.clean(key)) }
        lines += self.byteLines(usage.bytes, usage.rates)
        lines.append(PageLine(label: "processes", text: TimeText.grouped(UInt64(max(0, usage.processes)))))
        lines.append(PageLine(label: "sockets open", text: TimeText.grouped(UInt64(max(0, usage.sockets)))))
        if self.grouping == .remote, case .group(let address) = usage.id {
            lines += self.socketLines(snapshot) { $0.remote.address.description == address }
        }
        return lines
    }

    private func lines(of socket: SocketUsage, _ snapshot: Snapshot) -> [PageLine] {
        let text = SocketText(socket, typeface: self.typeface, at: snapshot.takenAt)
        var lines = [
            PageLine(label: "socket", text: "\(socket.transport.rawValue) \(text.endpoints)", role: .title)
        ]
        lines += self.byteLines(socket.bytes, socket.rates)
        lines.append(PageLine(label: "state", text: "\(socket.state.shortName), \(socket.role.rawValue)"))
        if let scope = socket.scope { lines.append(PageLine(label: "scope", text: scope.rawValue)) }
        if let name = socket.addressClass { lines.append(PageLine(label: "class", text: self.clean(name))) }
        if let microseconds = socket.smoothedRoundTripMicroseconds, microseconds > 0 {
            lines.append(PageLine(label: "round trip", text: TimeText.roundTrip(microseconds: microseconds)))
        }
        if let sent = socket.segmentsSent, let received = socket.segmentsReceived {
            let again = socket.retransmittedSegments.map { ", \(TimeText.grouped($0)) sent again" } ?? ""
            let text = "\(TimeText.grouped(sent)) sent, \(TimeText.grouped(received)) received\(again)"
            lines.append(PageLine(label: "segments", text: text))
        }
        if let opened = socket.openedAt {
            lines.append(PageLine(label: "opened", text: "\(opened), \(text.age ?? "") ago"))
        } else {
            lines.append(PageLine(label: "opened", text: "before trafficd; counted from then on"))
        }
        if let closed = socket.closedAt { lines.append(PageLine(label: "closed", text: closed.description)) }
        lines.append(PageLine(label: "cookie", text: String(socket.cookie.rawValue)))
        if let namespace = socket.networkNamespace {
            lines.append(PageLine(label: "net namespace", text: String(namespace)))
        }
        for (index, owner) in socket.owners.enumerated() {
            let name = snapshot.processes?.first { $0.identity == owner.identity }?.details.name
            let bytes = self.directions(owner.payload.sent, owner.payload.received)
            let text =
                "\(owner.identity.pid) \(self.clean(name ?? "")) \(bytes)" + (owner.isFormer ? ", no longer" : "")
            lines.append(PageLine(label: index == 0 ? "owners" : "", text: text))
        }
        return lines
    }

    private func byteLines(_ bytes: ByteCounts, _ rates: PayloadRates) -> [PageLine] {
        let up = self.typeface.up
        let down = self.typeface.down
        var lines = [
            PageLine(
                label: "rate",
                text: "\(up) \(self.units.rate(rates.sent))  \(down) \(self.units.rate(rates.received))"
            ),
            PageLine(label: "payload", text: self.directions(bytes.payload.sent, bytes.payload.received)),
        ]
        if bytes.pendingSent > 0 {
            let text = "\(up) \(self.exact(bytes.pendingSent)) taken by TCP from calls not counted yet"
            lines.append(PageLine(label: "pending", text: text))
        }
        if let sent = bytes.wireSent, let received = bytes.wireReceived {
            lines.append(PageLine(label: "wire", text: self.directions(sent, received)))
            if bytes.wireEstimated > 0 {
                let text = "\(self.exact(bytes.wireEstimated)) of these wire bytes"
                lines.append(PageLine(label: "estimated", text: text))
            }
        }
        if let again = bytes.retransmitted {
            let role: Style.Role = again == 0 ? .plain : .warning
            lines.append(PageLine(label: "retransmitted", text: self.exact(again), role: role))
        }
        return lines
    }

    private func directions(_ sent: UInt64, _ received: UInt64) -> String {
        "\(self.typeface.up) \(self.exact(sent))  \(self.typeface.down) \(self.exact(received))"
    }

    /// `1.23 MB (1,234,567 B)`: the first number is easy to read, the second is exact.
    func exact(_ bytes: UInt64) -> String {
        bytes < 1000 ? self.units.text(bytes) : "\(self.units.text(bytes)) (\(TimeText.grouped(bytes)) B)"
    }

    /// The first sockets, in the order of the list, for which `isMember` is true.
    private func socketLines(_ snapshot: Snapshot, where isMember: (SocketUsage) -> Bool) -> [PageLine] {
        let sockets = (snapshot.sockets ?? []).filter(isMember).sorted(by: self.order.precedes)
        guard !sockets.isEmpty else { return [] }
        var lines: [PageLine] = [.blank, .heading("Sockets")]
        for socket in sockets.prefix(ListBuilder.socketsShown) {
            let text = SocketText(socket, typeface: self.typeface, at: snapshot.takenAt)
            let payload = socket.bytes.payloadSoFar
            let bytes = self.directions(payload.sent, payload.received)
            lines.append(
                PageLine(
                    label: "\(socket.transport.rawValue) \(socket.state.shortName)",
                    text: "\(text.endpoints)  \(bytes)  \(text.timing(width: 20))",
                    role: socket.closedAt == nil ? .plain : .dim
                )
            )
        }
        if sockets.count > ListBuilder.socketsShown {
            lines.append(PageLine(label: nil, text: "\(sockets.count - ListBuilder.socketsShown) more", role: .dim))
        }
        return lines
    }

    /// Joins the arguments. An argument that is empty or contains a blank gets quotes.
    private static func shellText(_ arguments: [String]) -> String {
        var text = ""
        for argument in arguments {
            if text.utf8.count > 4000 { break }
            let needsQuotes = argument.isEmpty || argument.contains(" ")
            text += (text.isEmpty ? "" : " ") + (needsQuotes ? "'\(argument)'" : argument)
        }
        return text
    }
}
