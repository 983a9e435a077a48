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
        if self.chain == 0 { self.chain = self.hop.exchange }
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
        if !ending.isBeforeRequest, var request = self.hop.lonelyRequest(at: time) {
            request.chain = self.chain
            self.monitor.report(.request(request))
        }
        self.report(ending, status: 0, at: time)
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
        if var messages = self.hop.messages(end, error == nil ? growth : nil, isRepeated: self.isRepeated) {
            (messages.request.chain, messages.response.chain) = (self.chain, self.chain)
            self.monitor.report(.request(messages.request))
            self.monitor.report(.response(messages.response))
        }
        let ending = error.map { Report.Ending($0, hasResponse: true) } ?? .init(status: response.statusCode)
        self.report(ending, status: UInt16(clamping: response.statusCode), at: time)
    }

    private func report(_ ending: Report.Ending, status: UInt16, at time: UInt64) {
        guard let name = self.hop.name else { return }
        var outcome = Report.Outcome(exchange: self.hop.exchange, name: name)
        outcome.chain = self.chain
        outcome.startedAt = self.hop.startedAt
        outcome.duration = time - self.hop.startedAt
        outcome.role = .client
        outcome.ending = ending
        outcome.status = status
        self.monitor.report(.outcome(outcome))
    }
}
