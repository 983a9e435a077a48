package import TrafficReport

/// Records of one connection, or of one exchange without a connection, on their way to the sender.
///
/// Nearly all records are exchanges, and an exchange has some 400 bytes. In an array of ``Report/Record`` each look at
/// one would copy it.
package struct RecordBatch {
    /// In the order in which they were told.
    package private(set) var exchanges: [Report.Exchange] = []
    /// They are cumulative and belong to no exchange, so their order among the exchanges does not matter.
    package private(set) var connections: [Report.Connection] = []

    package init() {}

    package var isEmpty: Bool { self.exchanges.isEmpty && self.connections.isEmpty }

    package var count: Int { self.exchanges.count + self.connections.count }

    package mutating func append(_ exchange: consuming Report.Exchange) { self.exchanges.append(exchange) }

    package mutating func append(_ connection: Report.Connection) { self.connections.append(connection) }

    package mutating func append(_ record: consuming Report.Record) {
        switch consume record {
        case .exchange(let exchange): self.append(exchange)
        case .connection(let connection): self.append(connection)
        }
    }

    /// Adds the records of a later batch.
    package mutating func append(contentsOf later: RecordBatch) {
        self.exchanges += later.exchanges
        self.connections += later.connections
    }

    /// Changes records that were told.
    mutating func correct(_ exchange: (inout Report.Exchange) -> Void, _ connection: (inout Report.Connection) -> Void)
    {
        for index in self.exchanges.indices { exchange(&self.exchanges[index]) }
        for index in self.connections.indices { connection(&self.connections[index]) }
    }

    /// Removes all records and keeps the memory.
    package mutating func removeAll() {
        self.exchanges.removeFew()
        self.connections.removeFew()
    }
}

extension RecordBatch: Sequence {
    /// The exchanges first.
    package func makeIterator() -> some IteratorProtocol<Report.Record> {
        let (exchanges, connections) = (self.exchanges, self.connections)
        return (0..<self.count).lazy.map { index in
            index < exchanges.count
                ? .exchange(exchanges[index]) : .connection(connections[index - exchanges.count])
        }.makeIterator()
    }
}
