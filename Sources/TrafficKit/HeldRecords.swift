import TrafficReport

/// Parts of exchanges that have not ended, and the last record of each connection, until the next datagrams are sent.
struct HeldRecords {
    /// Beyond this the records are written early, and an exchange may be two records.
    static let most = 1_024

    /// By number.
    private var exchanges: [UInt64: Report.Exchange] = [:]
    /// By cookie. They are cumulative, so only the last one matters.
    private var connections: [UInt64: Report.Connection] = [:]

    var isEmpty: Bool { self.exchanges.isEmpty && self.connections.isEmpty }

    var isFull: Bool { self.exchanges.count + self.connections.count >= Self.most }

    /// Whether this is a whole exchange, so that nothing of it is or would be held.
    func passes(_ exchange: borrowing Report.Exchange) -> Bool {
        exchange.isOver && (self.exchanges.isEmpty || self.exchanges.index(forKey: exchange.number) == nil)
    }

    /// - Returns: The whole exchange, if the record ends it. It is not held any more.
    mutating func take(_ exchange: borrowing Report.Exchange) -> Report.Exchange? {
        guard exchange.isOver else {
            if self.exchanges[exchange.number]?.merge(exchange) == nil {
                self.exchanges[exchange.number] = copy exchange
            }
            return nil
        }
        guard !self.exchanges.isEmpty, var whole = self.exchanges.removeValue(forKey: exchange.number) else {
            return copy exchange
        }
        whole.merge(exchange)
        return whole
    }

    mutating func take(_ connection: Report.Connection) { self.connections[connection.cookie] = connection }

    /// Hands over the exchanges in the order of their numbers.
    mutating func removeExchanges(_ body: (Report.Exchange) -> Void) {
        for number in self.exchanges.keys.sorted() {
            if let exchange = self.exchanges[number] { body(exchange) }
        }
        self.exchanges.removeAll(keepingCapacity: true)
    }

    mutating func removeConnections(_ body: (Report.Connection) -> Void) {
        for connection in self.connections.values { body(connection) }
        self.connections.removeAll(keepingCapacity: true)
    }
}
