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
            var body: [UInt8] = []
            for try await part in response.body {
                body += part.readableBytesView
                // The status alone says what becomes of the request.
                guard body.count <= Self.longestAnswer else { break }
            }
            return PushAnswer(
                status: Int(response.status.code),
                retryAfter: response.headers.first(name: "retry-after"),
                body: body,
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
