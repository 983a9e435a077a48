import TrafficModel
import TrafficReport

/// What an exchange record claims: which of its parts may count, and what is known of each message that does.
struct ExchangeClaim {
    struct Message {
        let interval: Report.Interval
        /// The library says which bytes of which socket the message took.
        let hasPlace: Bool
        var quality: JoinQuality
        /// The message's part of the socket's wire bytes.
        var wire: UInt64 = 0
    }

    /// `nil`: there is no request, or it does not count.
    var request: Message?
    var response: Message?
    let hasOutcome: Bool
    /// For the outcome of the exchange. A later record may come when the socket is forgotten.
    var connection: ConnectionStart?
    /// Parts that earlier records told.
    private(set) var duplicates: UInt64 = 0
    /// Messages whose lengths are not the length of their interval.
    private(set) var contradictions: UInt64 = 0

    init(_ exchange: borrowing Report.Exchange, _ known: KnownParts) {
        self.hasOutcome = exchange.outcome != nil && !known.outcome
        if exchange.outcome != nil && known.outcome { self.duplicates += 1 }
        let hasSocket = exchange.cookie != 0
        if let request = exchange.request {
            self.request = self.message(request, isKnown: known.request, hasSocket: hasSocket)
        }
        if let response = exchange.response {
            self.response = self.message(response, isKnown: known.response, hasSocket: hasSocket)
        }
    }

    private mutating func message(
        _ message: borrowing Report.Exchange.Message,
        isKnown: Bool,
        hasSocket: Bool
    ) -> Message? {
        guard !isKnown else {
            self.duplicates += 1
            return nil
        }
        let quality = JoinQuality(message.quality)
        guard hasSocket, !message.interval.isEmpty else {
            return Message(interval: message.interval, hasPlace: false, quality: max(quality, .inferred))
        }
        guard message.interval.bytes == message.socketBytes else {
            self.contradictions += 1
            return nil
        }
        return Message(interval: message.interval, hasPlace: true, quality: quality)
    }

    /// The parts that count, for the rows of endpoints.
    func share(of exchange: borrowing Report.Exchange) -> ExchangeShare {
        var share = ExchangeShare()
        if let request = self.request, let message = exchange.request {
            share.request = MessageShare(message, isRequest: true, wire: request.wire, quality: request.quality)
        }
        if let response = self.response, let message = exchange.response {
            share.response = MessageShare(message, isRequest: false, wire: response.wire, quality: response.quality)
        }
        if self.hasOutcome { share.outcome = exchange.outcome }
        return share
    }
}
