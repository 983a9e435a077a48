import Foundation
import FoundationNetworking
import TrafficKit
import TrafficReport

/// Reports the traffic of a task, hop after hop.
struct TaskTraffic {
    private let monitor: TrafficMonitor
    private var hop: Hop
    /// The number of the chain's first exchange; 0: there is no chain so far.
    private var chain: UInt64 = 0
    private var isRepeated = false
    private var responseStartedAt: UInt64?

    /// Begins the task's first exchange.
    init(_ request: URLRequest, body: UInt64?, monitor: TrafficMonitor) {
        self.monitor = monitor
        self.hop = Hop(request, body: body, index: 0, monitor)
    }

    mutating func responseBegan() {
        if self.responseStartedAt == nil { self.responseStartedAt = TrafficClock.nanoseconds() }
    }

    /// The session will send the request again, with credentials, and show only the last response.
    mutating func willRepeat() {
        self.isRepeated = true
    }

    /// The exchange has ended with a redirect, and the next exchange begins. It has no body: the session drops the
    /// body, also for 307 and 308.
    mutating func redirected(_ response: HTTPURLResponse, to request: URLRequest) {
        if self.chain == 0 { self.chain = self.hop.number }
        self.report(response, delivered: nil, nil)
        self.isRepeated = false
        self.responseStartedAt = nil
        self.hop = Hop(request, body: 0, index: self.hop.index + 1, self.monitor)
    }

    /// The task and its last exchange have ended.
    mutating func ended(_ response: HTTPURLResponse?, delivered: UInt64, _ error: (any Error)?) {
        if let response { return self.report(response, delivered: delivered, error) }
        _ = self.hop.end()
        let time = TrafficClock.nanoseconds()
        let ending = error.map { Report.Ending($0, hasResponse: false) } ?? .unknown
        self.report(ending.isBeforeRequest ? self.hop.record : self.hop.record(unansweredAt: time), ending, at: time)
    }

    private func report(_ response: HTTPURLResponse, delivered: UInt64?, _ error: (any Error)?) {
        let growth = self.hop.end()
        let time = TrafficClock.nanoseconds()
        let end = HopResponse(
            response: response,
            deliveredBytes: delivered,
            isComplete: error == nil,
            startedAt: self.responseStartedAt ?? time,
            finishedAt: time
        )
        let ending = error.map { Report.Ending($0, hasResponse: true) } ?? .init(status: end.status)
        let exchange = self.hop.record(answeredBy: end, error == nil ? growth : nil, isRepeated: self.isRepeated)
        self.report(exchange, ending, at: time)
    }

    /// Completes the record of the exchange and reports it.
    private func report(_ exchange: Report.Exchange?, _ ending: Report.Ending, at time: UInt64) {
        guard var exchange else { return }
        exchange.chain = self.chain
        var outcome = Report.Exchange.Outcome()
        outcome.duration = time - self.hop.startedAt
        outcome.ending = ending
        outcome.status = exchange.response?.status ?? 0
        exchange.outcome = outcome
        self.monitor.report(.exchange(exchange))
    }
}
