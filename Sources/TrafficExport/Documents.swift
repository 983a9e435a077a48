public import TrafficModel

extension Snapshot {
    /// One JSON object on one line, without a line feed. Valid against ``jsonSchema``; decodes to an equal snapshot, times cut to
    /// milliseconds.
    public func json() -> [UInt8] {
        // Typical sizes of rows, so that the array grows at most once.
        var writer = JSONWriter(capacity: 4096 + 700 * (self.processes?.count ?? 0) + 900 * (self.sockets?.count ?? 0))
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.time(CodingKeys.takenAt, self.takenAt)
            writer.number(CodingKeys.takenBoottimeNanoseconds, self.takenBoottimeNanoseconds)
            writer.time(CodingKeys.countingSince, self.countingSince)
            writer.nested(CodingKeys.host, self.host)
            writer.nested(CodingKeys.daemon, self.daemon)
            writer.nested(CodingKeys.capture, self.capture)
            writer.rows(CodingKeys.processes, self.processes)
            writer.rows(CodingKeys.exited, self.exited)
            writer.rows(CodingKeys.sockets, self.sockets)
            writer.numbers(CodingKeys.socketsOf, self.socketsOf)
            writer.rows(CodingKeys.endpoints, self.endpoints)
            writer.rows(CodingKeys.interfaces, self.interfaces)
            writer.object(CodingKeys.totals) { self.totals.write(to: &$0) }
        }
        return writer.bytes
    }

    /// One JSON object per line for every process, `exited` row, socket, endpoint and interface. Each begins with `type` (`process`,
    /// `exited`, `socket`, `endpoint`, `interface`), `taken_at` and `host_name`, then has the fields that it has in ``json()``.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        writer.lines(.process, of: self.processes, in: self)
        writer.lines(.exited, of: self.exited, in: self)
        writer.lines(.socket, of: self.sockets, in: self)
        writer.lines(.endpoint, of: self.endpoints, in: self)
        writer.lines(.interface, of: self.interfaces, in: self)
        return writer.bytes
    }

    /// The lists that have a CSV form.
    public enum Table: Sendable {
        case processes, sockets, endpoints
    }

    /// RFC 4180 with a header line and stable columns: `taken_at`, `host_name` and the fields of ``json()``, those of inner objects as
    /// `local_address`. Lists share a cell, blanks between; owners of a socket are given by their pids. A process's own APIs are in JSON
    /// alone.
    ///
    /// A text that a spreadsheet would take for a formula gets a leading apostrophe.
    public func csv(_ table: Table) -> [UInt8] {
        var writer = CSVWriter()
        switch table {
        case .processes: writer.lines(of: self.processes, header: .blank, in: self)
        case .sockets: writer.lines(of: self.sockets, header: .blank, in: self)
        case .endpoints: writer.lines(of: self.endpoints, header: .blank, in: self)
        }
        return writer.bytes
    }
}

extension ExchangeReport {
    /// One JSON object on one line, without a line feed. Valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter(capacity: 4096 + 600 * self.exchanges.count)
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.time(CodingKeys.takenAt, self.takenAt)
            writer.text(CodingKeys.host, self.host)
            writer.rows(CodingKeys.exchanges, self.exchanges)
        }
        return writer.bytes
    }

    /// One JSON object per line.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        for exchange in self.exchanges {
            writer.object { exchange.write(to: &$0) }
            writer.lineFeed()
        }
        return writer.bytes
    }
}

extension DoctorReport {
    /// One JSON object on one line, without a line feed. Valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.nested(CodingKeys.capture, self.capture)
            writer.nested(CodingKeys.daemon, self.daemon)
            writer.nested(CodingKeys.host, self.host)
            writer.rows(CodingKeys.checks, self.checks)
            if let cost = self.cost { writer.nested(CodingKeys.cost, cost) }
        }
        return writer.bytes
    }
}

extension Totals {
    fileprivate func write(to writer: inout JSONWriter) {
        self.bytes.write(to: &writer)
        writer.nested(CodingKeys.rates, self.rates)
        self.write(self.byScope, under: CodingKeys.byScope, to: &writer)
        if let byClass { self.write(byClass, under: CodingKeys.byClass, to: &writer) }
    }

    private func write(_ sums: [String: ByteCounts], under key: CodingKeys, to writer: inout JSONWriter) {
        writer.object(key) { writer in
            // Sorted: the same snapshot is the same text.
            for (name, bytes) in sums.sorted(by: { $0.key < $1.key }) { writer.member(name, bytes) }
        }
    }
}

/// What a row needs to stand without its snapshot.
private struct RowContext: Row {
    enum Kind: String {
        case process, exited, socket, endpoint, interface
    }

    enum CodingKeys: String, CodingKey {
        case type
        case takenAt = "taken_at"
        /// The machine's: `host` is that of an API.
        case hostName = "host_name"
    }

    /// `nil` in CSV, where all rows are of one kind.
    var kind: Kind?
    var snapshot: Snapshot

    func write(to sink: inout some FieldSink) {
        if let kind = self.kind { sink.word(CodingKeys.type, kind) }
        sink.time(CodingKeys.takenAt, self.snapshot.takenAt)
        sink.text(CodingKeys.hostName, self.snapshot.host.name)
    }
}

extension JSONWriter {
    fileprivate mutating func lines(_ kind: RowContext.Kind, of rows: [some Row]?, in snapshot: Snapshot) {
        let context = RowContext(kind: kind, snapshot: snapshot)
        for row in rows ?? [] {
            self.object {
                context.write(to: &$0)
                row.write(to: &$0)
            }
            self.lineFeed()
        }
    }
}

extension CSVWriter {
    fileprivate mutating func lines<Element: Row>(of rows: [Element]?, header blank: Element, in snapshot: Snapshot) {
        let context = RowContext(kind: nil, snapshot: snapshot)
        var header = CSVHeader()
        context.write(to: &header)
        blank.write(to: &header)
        for column in header.columns { self.cell(column) }
        self.endLine()
        for row in rows ?? [] {
            context.write(to: &self)
            row.write(to: &self)
            self.endLine()
        }
    }
}

extension ProcessUsage {
    /// Names the columns where there is no row.
    fileprivate static var blank: Self {
        ProcessUsage(identity: .kernel, details: ProcessDetails(name: "", uid: 0))
    }
}

extension EndpointUsage {
    fileprivate static var blank: Self {
        EndpointUsage(process: ProcessGroup(name: ""), role: .client, subject: .host(""))
    }
}

extension SocketUsage {
    fileprivate static var blank: Self {
        let unspecified = SocketAddress(address: InternetAddress(bytes: .init(repeating: 0)), port: 0)
        return SocketUsage(
            serial: 0,
            cookie: SocketCookie(rawValue: 0),
            transport: .other,
            family: .ipv6,
            local: unspecified,
            remote: unspecified,
            role: .peer,
            scope: nil,
            state: .closed
        )
    }
}
