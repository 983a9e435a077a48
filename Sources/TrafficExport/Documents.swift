public import TrafficDocuments
public import TrafficModel

extension Snapshot {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``. It decodes to an equal
    /// snapshot, except that times are cut to milliseconds.
    public func json() -> [UInt8] {
        // Typical sizes of rows, so that the array grows once at most.
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
            writer.number(CodingKeys.socketsUnlisted, self.socketsUnlisted)
            writer.rows(CodingKeys.endpoints, self.endpoints)
            writer.rows(CodingKeys.interfaces, self.interfaces)
            writer.object(CodingKeys.totals) { self.totals.write(to: &$0) }
            writer.number(CodingKeys.alertsActive, self.alertsActive)
        }
        return writer.bytes
    }

    /// One JSON object per line. The first object has the type `totals`. It has `counting_since`, `capture` (with its
    /// losses), `sockets_unlisted`, `alerts_active` and the fields of the totals. Then comes an object for every process, `exited` row, socket, endpoint and
    /// interface. Each object begins with `type` (`process`, `exited`, `socket`, `endpoint`, `interface`), `taken_at`
    /// and `host_name`, followed by its fields in ``json()``.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            RowContext(kind: .totals, snapshot: self).write(to: &writer)
            writer.time(CodingKeys.countingSince, self.countingSince)
            writer.nested(CodingKeys.capture, self.capture)
            writer.number(CodingKeys.socketsUnlisted, self.socketsUnlisted)
            writer.number(CodingKeys.alertsActive, self.alertsActive)
            self.totals.write(to: &writer)
        }
        writer.lineFeed()
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

    /// RFC 4180 with a header line and stable columns: `taken_at`, `host_name` and the fields of ``json()``. Fields of
    /// inner objects have names such as `local_address`. A list is one cell with spaces between its elements. The
    /// owners of a socket are given by their pids. The document has one table only: totals, exited processes, losses
    /// and a process's own endpoints are in the other formats.
    ///
    /// A text that a spreadsheet would take for a formula gets a leading apostrophe.
    public func csv(_ table: Table) -> [UInt8] { self.delimited(.csv, table) }

    /// The same columns with tabs between them, for `cut` and `awk`. A row is one line: tabs and line feeds in a text
    /// are written as `\\t` and `\\n`.
    public func tsv(_ table: Table) -> [UInt8] { self.delimited(.tsv, table) }

    private func delimited(_ dialect: DelimitedWriter.Dialect, _ table: Table) -> [UInt8] {
        var writer = DelimitedWriter(dialect)
        switch table {
        case .processes: writer.lines(of: self.processes, header: .blank, in: self)
        case .sockets: writer.lines(of: self.sockets, header: .blank, in: self)
        case .endpoints: writer.lines(of: self.endpoints, header: .blank, in: self)
        }
        return writer.bytes
    }
}

extension ExchangeReport {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
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

    /// The same forms as ``Snapshot/csv(_:)`` and ``Snapshot/tsv(_:)``.
    package func delimited(_ dialect: DelimitedWriter.Dialect) -> [UInt8] {
        var writer = DelimitedWriter(dialect)
        let context = RowContext(kind: nil, takenAt: self.takenAt, host: self.host)
        writer.lines(of: self.exchanges, header: .blank, context: context)
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

extension HistoryReport {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter(capacity: 1024 + 300 * self.rows.count)
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.text(CodingKeys.host, self.host)
            writer.time(CodingKeys.since, self.since)
            writer.time(CodingKeys.until, self.until)
            writer.text(CodingKeys.localSince, self.localSince?.description)
            writer.text(CodingKeys.localUntil, self.localUntil?.description)
            writer.text(CodingKeys.timeZone, self.timeZone)
            writer.word(CodingKeys.level, self.level)
            writer.texts(CodingKeys.by, self.by.map(\.rawValue))
            writer.number(CodingKeys.countedSeconds, self.countedSeconds)
            writer.time(CodingKeys.keptSince, self.keptSince)
            writer.rows(CodingKeys.rows, self.rows)
            writer.number(CodingKeys.othersCount, self.othersCount)
            if let others = self.others { writer.nested(CodingKeys.others, others) }
            writer.nested(CodingKeys.sums, self.sums)
        }
        return writer.bytes
    }

    /// RFC 4180 with a header line and stable columns: the fields of a row of ``json()``.
    package func delimited(_ dialect: DelimitedWriter.Dialect) -> [UInt8] {
        var writer = DelimitedWriter(dialect)
        writer.lines(of: self.rows, header: .blank, context: nil)
        return writer.bytes
    }

    /// One JSON object per row.
    public func ndjson() -> [UInt8] {
        var writer = JSONWriter()
        for row in self.rows {
            writer.object { row.write(to: &$0) }
            writer.lineFeed()
        }
        return writer.bytes
    }
}

extension DoctorReport {
    /// One JSON object on one line, without a line feed. It is valid against ``jsonSchema``.
    public func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.number(CodingKeys.schemaVersion, self.schemaVersion)
            writer.nested(CodingKeys.capture, self.capture)
            writer.nested(CodingKeys.daemon, self.daemon)
            writer.nested(CodingKeys.host, self.host)
            writer.rows(CodingKeys.checks, self.checks)
            if let limits = self.limits { writer.rows(CodingKeys.limits, limits) }
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
            // Sorted, so that equal snapshots give equal text.
            for (name, bytes) in sums.sorted(by: { $0.key < $1.key }) { writer.member(name, bytes) }
        }
    }
}

/// What a row needs to be understood without its snapshot.
struct RowContext: Row {
    enum Kind: String {
        case totals, process, exited, socket, endpoint, interface
    }

    enum CodingKeys: String, CodingKey {
        case type
        case takenAt = "taken_at"
        /// The machine's name. The key `host` is already the host of an endpoint.
        case hostName = "host_name"
    }

    /// `nil` in CSV and TSV, where all rows are of the same kind.
    var kind: Kind?
    var takenAt: Timestamp
    var host: String

    init(kind: Kind?, takenAt: Timestamp, host: String) {
        (self.kind, self.takenAt, self.host) = (kind, takenAt, host)
    }

    init(kind: Kind?, snapshot: Snapshot) {
        self.init(kind: kind, takenAt: snapshot.takenAt, host: snapshot.host.name)
    }

    func write(to sink: inout some FieldSink) {
        if let kind = self.kind { sink.word(CodingKeys.type, kind) }
        sink.time(CodingKeys.takenAt, self.takenAt)
        sink.text(CodingKeys.hostName, self.host)
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

extension DelimitedWriter {
    fileprivate mutating func lines<Element: Row>(of rows: [Element]?, header blank: Element, in snapshot: Snapshot) {
        self.lines(of: rows, header: blank, context: RowContext(kind: nil, snapshot: snapshot))
    }

    mutating func lines<Element: Row>(
        of rows: [Element]?,
        header blank: Element,
        context: RowContext?
    ) {
        var header = DelimitedHeader()
        context?.write(to: &header)
        blank.write(to: &header)
        for column in header.columns { self.cell(column) }
        self.endLine()
        for row in rows ?? [] {
            context?.write(to: &self)
            row.write(to: &self)
            self.endLine()
        }
    }
}

extension ProcessUsage {
    /// Gives the column names when there is no row.
    fileprivate static var blank: Self {
        ProcessUsage(identity: .kernel, details: ProcessDetails(name: "", uid: 0))
    }
}

extension EndpointUsage {
    fileprivate static var blank: Self {
        EndpointUsage(process: ProcessGroup(name: ""), role: .client, subject: .host(""))
    }
}

extension HistoryRow {
    fileprivate static var blank: Self { HistoryRow(name: HistoryName(), bytes: ByteCounts()) }
}

extension ExchangeUsage {
    fileprivate static var blank: Self {
        ExchangeUsage(
            process: .kernel,
            processName: "",
            exchange: 0,
            role: .client,
            method: "",
            host: "",
            route: "",
            startedAt: Timestamp(nanosecondsSinceEpoch: 0)
        )
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
