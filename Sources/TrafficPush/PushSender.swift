import HTTPCalls
import Logging
import NIOCore
import NIOHTTP1
import TrafficDocuments
import TrafficMetrics
import TrafficModel

/// Sends what waits for one destination, one request after the other.
struct PushSender: Sendable {
    private static let longestAnswer = 64 << 10

    let index: Int
    let receiver: PushReceiver
    let spool: PushSpool
    let board: PushStatusBoard
    let patience: Duration
    let logger: Logger

    private var destination: PushDestination { self.receiver.destination }

    /// Ends when the task is cancelled, mostly by throwing.
    ///
    /// - Parameter news: An element when there may be more to send.
    func run(_ news: AsyncStream<Void>) async throws {
        var backoff = PushBackoff()
        var log = PushLog(self.destination)
        for await _ in news {
            while let request = await self.spool.next(for: self.destination) {
                let answer = await self.send(request.body)
                try Task.checkCancellation()
                self.note(answer)
                if let line = log.line(answer, now: .now) { self.logger.log(level: line.level, "\(line.text)") }
                switch answer {
                case .delivered, .refused:
                    await self.spool.take(request, by: self.destination)
                    await self.count()
                    backoff.reset()
                case .failed(_, let seconds):
                    await self.count()
                    try await Task.sleep(for: .seconds(backoff.next(atLeast: seconds)))
                }
            }
        }
    }

    private func send(_ body: [UInt8]) async -> PushAnswer {
        let target = self.receiver.target
        var headers = self.receiver.headers
        if !headers.contains(name: "host") { headers.add(name: "host", value: target.authority) }
        headers.replaceOrAdd(name: "content-type", value: self.destination.format.mediaType)
        if self.destination.compression == .gzip { headers.replaceOrAdd(name: "content-encoding", value: "gzip") }
        headers.replaceOrAdd(name: "user-agent", value: "trafficd/\(TrafficVersion.current)")
        let call = HTTPCall(
            .POST,
            target.path,
            at: .network(host: target.host, port: target.port, tls: self.receiver.trust),
            headers: headers,
            body: body,
            connectTimeout: .seconds(10)
        )
        do throws(HTTPCallError) {
            // Of more the status alone says what becomes of the request.
            let answer = try await call.answer(atMost: Self.longestAnswer, within: self.patience)
            return PushAnswer(
                status: Int(answer.head.status.code),
                retryAfter: answer.head.headers.first(name: "retry-after"),
                body: Array(answer.body.readableBytesView),
                format: self.destination.format,
                now: .now()
            )
        } catch {
            return .failed(error)
        }
    }

    private func note(_ answer: PushAnswer) {
        self.board.change(self.index) { status in
            switch answer {
            case .delivered(let rejected, let message):
                status.delivered += 1
                status.rejectedPoints +|= rejected
                status.lastDelivery = .now()
                status.problem =
                    rejected > 0 ? "it \(PushAnswer.leftOut(rejected, message))" : nil
            case .refused(let reason):
                status.refused += 1
                status.problem = reason
            case .failed(let reason, _):
                status.failed += 1
                status.problem = reason
            }
        }
    }

    private func count() async {
        self.board.note(await self.spool.counts(of: self.destination), of: self.index)
    }
}
