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

    /// Whether the record is a whole exchange, so that nothing of it is or would be held.
    func passes(_ record: borrowing Report.Record) -> Bool {
        switch record {
        case .exchange(let exchange):
            exchange.isOver && (self.exchanges.isEmpty || self.exchanges.index(forKey: exchange.number) == nil)
        case .request, .response, .outcome, .connection: false
        }
    }

    /// - Returns: The whole exchange, if the record ends it. It is not held any more.
    mutating func take(_ record: borrowing Report.Record) -> Report.Record? {
        switch record {
        case .exchange(let exchange): return self.take(exchange)
        case .request(let message): return self.take(Report.Exchange(request: message))
        case .response(let message): return self.take(Report.Exchange(response: message))
        case .outcome(let outcome): return self.take(Report.Exchange(outcome: outcome))
        case .connection(let connection):
            self.connections[connection.cookie] = connection
            return nil
        }
    }

    private mutating func take(_ exchange: Report.Exchange) -> Report.Record? {
        guard exchange.outcome != nil else {
            if self.exchanges[exchange.number]?.merge(exchange) == nil { self.exchanges[exchange.number] = exchange }
            return nil
        }
        guard !self.exchanges.isEmpty, var whole = self.exchanges.removeValue(forKey: exchange.number) else {
            return .exchange(exchange)
        }
        whole.merge(exchange)
        return .exchange(whole)
    }

    /// Hands over the exchanges in the order of their numbers, and the connections.
    mutating func removeAll(_ body: (Report.Record) -> Void) {
        for number in self.exchanges.keys.sorted() {
            if let exchange = self.exchanges[number] { body(.exchange(exchange)) }
        }
        for connection in self.connections.values { body(.connection(connection)) }
        self.exchanges.removeAll(keepingCapacity: true)
        self.connections.removeAll(keepingCapacity: true)
    }
}
