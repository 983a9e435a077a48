public import Logging
public import ServiceLifecycle
import TrafficDocuments
public import TrafficFeed
import TrafficMetrics
import TrafficModel

/// Sends metrics to some receivers, again and again. Each receiver gets every reading in its order; one that is slow or
/// away holds up no other.
public struct PushService: Service {
    public let board: PushStatusBoard
    private let receivers: [PushReceiver]
    private let interval: Duration
    private let source: any ReadingSource
    private let hostName: String
    private let spoolPath: String?
    private let patience: Duration
    private let logger: Logger

    /// - Parameters:
    ///   - interval: Between two readings.
    ///   - hostName: For `host.name`.
    ///   - patience: For a whole request, with the answer.
    ///   - spoolPath: Of the database with what waits; `nil`: it waits in memory.
    public init(
        _ receivers: [PushReceiver],
        every interval: Duration,
        source: any ReadingSource,
        hostName: String,
        spoolPath: String?,
        patience: Duration = .seconds(30),
        logger: Logger
    ) {
        self.receivers = receivers
        self.interval = interval
        self.source = source
        self.hostName = hostName
        self.spoolPath = spoolPath
        self.patience = patience
        self.logger = logger
        self.board = PushStatusBoard(receivers.map(\.destination))
    }

    public func run() async throws {
        let spool = PushSpool(self.receivers.map(\.destination), path: self.spoolPath) { [logger] in
            logger.warning("\($0)")
        }
        // A part ends only when it is cancelled.
        try? await cancelWhenGracefulShutdown { try await self.run(spool) }
        await spool.close()
    }

    private func run(_ spool: PushSpool) async throws {
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            var news: [AsyncStream<Void>.Continuation] = []
            for (index, receiver) in self.receivers.enumerated() {
                let sender = PushSender(
                    index: index,
                    receiver: receiver,
                    spool: spool,
                    board: self.board,
                    patience: self.patience,
                    logger: self.logger
                )
                let (stream, continuation) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
                // What waited when the daemon ended.
                continuation.yield()
                news.append(continuation)
                tasks.addTask { try await sender.run(stream) }
            }
            tasks.addTask { [news] in
                try await self.read(into: spool) { for continuation in news { continuation.yield() } }
            }
            try await tasks.waitForAll()
        }
    }

    /// Returns when the task is cancelled.
    private func read(into spool: PushSpool, _ announce: () -> Void) async throws {
        let clock = ContinuousClock()
        var next = clock.now
        while true {
            // `nil` also in the first second of a daemon.
            if let reading = await self.source.freshMetrics() {
                let document = MetricsDocument(reading, push: self.board.all)
                var bodies: [PushDestination.Form: [[UInt8]]] = [:]
                for form in spool.forms {
                    bodies[form] = PushBatches.bodies(
                        of: document,
                        as: form,
                        hostName: self.hostName,
                        version: reading.daemon.version,
                        time: reading.takenAt
                    )
                }
                await spool.add(bodies)
                // A sender may be waiting for a receiver, for an hour.
                for (index, receiver) in self.receivers.enumerated() {
                    self.board.note(await spool.counts(of: receiver.destination), of: index)
                }
                announce()
                next = max(next + self.interval, clock.now)
            } else {
                next = clock.now + .seconds(1)
            }
            try await clock.sleep(until: next)
        }
    }
}
