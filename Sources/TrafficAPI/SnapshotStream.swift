import Hummingbird
import NIOCore
import ServiceLifecycle
import TrafficDocuments
import TrafficExport
import TrafficFeed
import TrafficModel

/// Lets one snapshot per interval through, by the times in the snapshots.
struct Pacer {
    /// `nil` lets every snapshot through.
    let interval: UInt64?
    private var due: UInt64?

    init(interval: UInt64?) {
        self.interval = interval
    }

    /// - Parameter taken: ``Snapshot/takenBoottimeNanoseconds``.
    mutating func admits(_ taken: UInt64) -> Bool {
        guard let interval else { return true }
        guard let due else {
            self.due = taken + interval
            return true
        }
        // Ticks come a little early as often as a little late. Without this tolerance, an interval of one tick would
        // skip every second tick.
        guard taken + interval / 10 >= due else { return false }
        // Stays in step with the first snapshot. If so many snapshots were missed that the next one is overdue too, the
        // steps begin again here.
        self.due = due + interval > taken ? due + interval : taken + interval
        return true
    }

    /// Begins the steps again: a newer snapshot was sent than the one that was let through.
    mutating func restart(at taken: UInt64) { self.due = self.interval.map { taken + $0 } }
}

extension ResponseBody {
    /// Pieces of this size are written one after the other, each when the client has taken enough of the pieces before.
    static let pieceSize = 65_536

    /// A body of known length. Its payer may lose the answer while a client reads it slowly. Then the connection ends.
    ///
    /// - Parameter eventLoop: Of the connection.
    init(_ answer: UnreadAnswers.Answer, on eventLoop: any EventLoop) {
        self.init(contentLength: answer.length) { writer in
            try await writer.write(answer, on: eventLoop)
            try await writer.finish(nil)
        }
    }

    /// One line of JSON per snapshot, until the client goes away, the daemon stops or the source ends.
    ///
    /// For one client the server holds at most the line that it is sending and one waiting reading. A newer reading
    /// replaces the waiting one. So a line may be about a newer reading than the one that caused it.
    ///
    /// - Parameters:
    ///   - slot: Taken until then. The same holds for the next one.
    ///   - line: The line of the newest reading, and when that was taken; `nil` if the payer of the stream asks for too
    ///     much at this moment. Then the next reading gets a line, whatever the interval.
    init(
        interval: UInt64?,
        of source: any ReadingSource,
        to request: Request,
        on eventLoop: any EventLoop,
        in slot: StreamSlots.Slot,
        _ line: @escaping @Sendable () async -> (text: UnreadAnswers.Answer, takenAt: UInt64)?
    ) {
        self.init { writer in
            defer { withExtendedLifetime(slot) {} }
            // Without this the server would notice that a client left only at the next line, up to an hour later.
            try await request.body.consumeWithCancellationOnInboundClose { _ in
                var pacer = Pacer(interval: interval)
                var newest: UInt64 = 0
                // Only the time: the reading itself must not stay in memory while its line waits to be made.
                let times = source.updates().map(\.snapshot.takenBoottimeNanoseconds)
                for await time in times.cancelOnGracefulShutdown() where time > newest {
                    var next = pacer
                    guard next.admits(time), let line = await line() else { continue }
                    if line.takenAt > time { next.restart(at: line.takenAt) }
                    (pacer, newest) = (next, line.takenAt)
                    try await writer.write(line.text, on: eventLoop)
                }
            }
            try await writer.finish(nil)
        }
    }

    /// One line of JSON per change of an alert, the first one saying where that begins, until the client goes away or the
    /// daemon stops.
    ///
    /// While the client does not read, changes wait where the daemon keeps them for all.
    init(
        alertsAfter position: AlertPosition?,
        of source: any AlertSource,
        to request: Request,
        in slot: StreamSlots.Slot
    ) {
        self.init { writer in
            defer { withExtendedLifetime(slot) {} }
            try await request.body.consumeWithCancellationOnInboundClose { _ in
                let beginning = source.beginning(after: position)
                var number = beginning.position.number
                try await writer.write(ByteBuffer(bytes: beginning.json() + [UInt8(ascii: "\n")]))
                for await _ in source.news().cancelOnGracefulShutdown() {
                    for notice in source.notices(after: number) {
                        try await writer.write(ByteBuffer(bytes: notice.json() + [UInt8(ascii: "\n")]))
                        number = notice.position.number
                    }
                }
            }
            try await writer.finish(nil)
        }
    }
}

extension ResponseBodyWriter {
    fileprivate mutating func write(_ answer: UnreadAnswers.Answer, on eventLoop: any EventLoop) async throws {
        var offset = 0
        while offset < answer.length {
            guard let piece = answer.piece(at: offset, atMost: ResponseBody.pieceSize) else {
                throw CancellationError()
            }
            offset += piece.readableBytes
            try await self.write(piece)
            // The writer only hands the piece to the event loop. Without this, a loop that is busy at this moment would be
            // handed all pieces, however slowly the client reads: a copy of the answer for each connection.
            if offset < answer.length { try await eventLoop.submit {}.get() }
        }
    }
}
