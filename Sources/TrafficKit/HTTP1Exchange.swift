import TrafficReport

/// An exchange of an HTTP/1.x connection that has not ended.
struct HTTP1Exchange {
    /// Unique in the process.
    let number: UInt64
    /// The number of the request on its connection, from 1.
    let ordinal: Int
    let startedAt: UInt64
    var requestEndedAt: UInt64?
    var responseBeganAt: UInt64?
    /// `nil`: the exchange has no name yet, or the app keeps it out.
    var name: Report.Name?
    /// The request of a server with a router, until the exchange has a name.
    var asked: MessageHead.Request?
    /// A request that has ended and is not told yet.
    var request: Report.Exchange.Message?
    /// A response that ended before its request did, if it is not told yet. An array takes little room while it is
    /// empty.
    var response: [Report.Exchange.Message] = []
    /// There are such messages.
    var hasUntold = false
    /// The status of the last response.
    var status: UInt16 = 0
    /// The request's method, until the response's head has come.
    var method: HTTP1Method?
    /// The request's head has come.
    var hasHead = false
    /// The head of the final response has come.
    var isAnswered = false
    /// The response has ended.
    var hasResponded = false

    init(number: UInt64, ordinal: Int, at time: UInt64) {
        (self.number, self.ordinal, self.startedAt) = (number, ordinal, time)
    }

    var isKeptOut: Bool { self.name == nil && self.asked == nil }

    /// There are messages that have ended and are not told yet.
    var isTellable: Bool { self.hasUntold && self.name != nil }

    /// - Parameter start: What is known of the connection's start.
    func outcome(_ ending: Report.Ending, at time: UInt64, _ start: ConnectionStart) -> Report.Exchange.Outcome {
        let phases = Report.Phases(
            startedAt: self.startedAt,
            requestEndedAt: self.requestEndedAt,
            responseBeganAt: self.responseBeganAt,
            responseEndedAt: time
        )
        let isFirst = self.ordinal == 1
        return .init(ending, status: self.status, from: self.startedAt, to: time, phases, isFirst ? start : nil)
    }
}

/// The open exchanges of a connection, oldest first: the request or the response has not ended. The oldest is inline,
/// because most connections have only one at a time.
struct HTTP1OpenExchanges {
    /// Has no meaning if `count` is 0. Not an optional: the compiler would copy all of it for each look.
    var oldest = HTTP1Exchange(number: 0, ordinal: 0, at: 0)
    private var others: [HTTP1Exchange] = []
    private(set) var count = 0

    var isEmpty: Bool { self.count == 0 }

    /// Only the oldest exchange and the newest ones may have messages that are not told.
    @inline(__always)
    var isTellable: Bool {
        self.count > 0 && (self.oldest.isTellable || self.count > 1 && self.others[self.count - 2].isTellable)
    }

    /// The caller must not ask for more than there are.
    @inline(__always)
    mutating func with<Result>(_ index: Int, _ body: (inout HTTP1Exchange) -> Result) -> Result {
        index == 0 ? body(&self.oldest) : body(&self.others[index &- 1])
    }

    mutating func append(_ exchange: HTTP1Exchange) {
        if self.count == 0 { self.oldest = exchange } else { self.others.append(exchange) }
        self.count &+= 1
    }

    mutating func remove(at index: Int) {
        self.count &-= 1
        if index > 0 {
            self.others.remove(at: index &- 1)
        } else if !self.others.isEmpty {
            self.oldest = self.others.removeFirst()
        }
    }
}
