public import TrafficReport

extension Report.Exchange {
    /// The parts of the exchange, each in a record of its own.
    public var parts: [Report.Record] {
        var (request, response, outcome) = (self, self, self)
        (request.response, request.outcome) = (nil, nil)
        (response.request, response.outcome) = (nil, nil)
        // Only the messages tell the socket.
        (outcome.request, outcome.response, outcome.cookie) = (nil, nil, 0)
        return [request, response, outcome].filter(\.hasParts).map { .exchange($0) }
    }
}
