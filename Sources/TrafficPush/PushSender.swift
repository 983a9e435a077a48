import AsyncHTTPClient
import Logging
import NIOCore
import NIOHTTP1
import TrafficMetrics
import TrafficModel

/// Sends what waits for one destination, one request after the other.
struct PushSender: Sendable {
    private static let longestAnswer = 64 << 10

    let index: Int
    let destination: PushDestination
    let headers: HTTPHeaders
    let client: HTTPClient
    let spool: PushSpool
    let board: PushStatusBoard
    let patience: Duration
    let logger: Logger

    /// Returns when the task is cancelled.
    ///
    /// - Parameter news: An element when there may be more to send.
    func run(_ news: AsyncStream<Void>) async throws {
        var backoff = PushBackoff()
        var isWell = true
        for await _ in news {
            await self.count()
            while let request = await self.spool.next(for: self.destination) {
                let answer = await self.send(request.body)
                try Task.checkCancellation()
                self.note(answer, wasWell: isWell)
                switch answer {
                case .delivered, .refused:
                    await self.spool.take(request, by: self.destination)
                    await self.count()
                    backoff.reset()
                    if case .delivered = answer { isWell = true } else { isWell = false }
                case .failed(_, let seconds):
                    isWell = false
                    await self.count()
                    try await Task.sleep(for: .seconds(backoff.next(atLeast: seconds)))
                }
            }
        }
    }

    /// Within ``patience``, whatever the receiver does. The client's own limit ends at the head of the answer.
    private func send(_ body: [UInt8]) async -> PushAnswer {
        await withTaskGroup(of: PushAnswer?.self) { tasks in
            tasks.addTask { await self.exchange(body) }
            tasks.addTask {
                try? await Task.sleep(for: self.patience)
                return nil
            }
            let first = await tasks.next() ?? nil
            tasks.cancelAll()
            return first ?? .failed("no whole answer within \(self.patience)", seconds: nil)
        }
    }

    private func exchange(_ body: [UInt8]) async -> PushAnswer {
        var request = HTTPClientRequest(url: self.destination.url)
        request.method = .POST
        request.headers = self.headers
        request.headers.replaceOrAdd(name: "content-type", value: self.destination.format.mediaType)
        if self.destination.compression == .gzip {
            request.headers.replaceOrAdd(name: "content-encoding", value: "gzip")
        }
        request.headers.replaceOrAdd(name: "user-agent", value: "trafficd/\(TrafficVersion.current)")
        request.body = .bytes(ByteBuffer(bytes: body))
        do {
            let response = try await self.client.execute(request, timeout: .hours(1))
            let answer = try await response.body.collect(upTo: Self.longestAnswer)
            return PushAnswer(
                status: Int(response.status.code),
                retryAfter: response.headers.first(name: "retry-after"),
                body: Array(answer.readableBytesView),
                format: self.destination.format,
                now: .now()
            )
        } catch {
            return .failed("\(error)", seconds: nil)
        }
    }

    private func note(_ answer: PushAnswer, wasWell: Bool) {
        self.board.change(self.index) { status in
            switch answer {
            case .delivered(let rejected, _):
                status.delivered += 1
                status.rejectedPoints +|= rejected
                status.lastDelivery = .now()
                status.problem = nil
            case .refused(let reason):
                status.refused += 1
                status.problem = reason
            case .failed(let reason, _):
                status.failed += 1
                status.problem = reason
            }
        }
        self.log(answer, wasWell: wasWell)
    }

    /// Only what changes: a receiver may be away for days.
    private func log(_ answer: PushAnswer, wasWell: Bool) {
        let name = self.destination.name
        switch answer {
        case .delivered(let rejected, let message):
            if rejected > 0 || !message.isEmpty {
                self.logger.warning("\(name) left out \(rejected) points: \(message.prefix(200).description.printable)")
            } else if !wasWell {
                self.logger.notice("\(name) takes metrics again")
            }
        case .refused(let reason):
            if wasWell { self.logger.warning("\(name) refuses metrics: \(reason)") }
        case .failed(let reason, _):
            if wasWell { self.logger.warning("can't send metrics to \(name), and goes on trying: \(reason)") }
        }
    }

    private func count() async {
        let counts = await self.spool.counts(of: self.destination)
        self.board.change(self.index) { ($0.waiting, $0.dropped) = (counts.waiting, counts.dropped) }
    }
}
