import Hummingbird
import NIOCore
import ServiceLifecycle
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
}

extension ResponseBody {
    /// Pieces of this size are written one after the other, each when the client has taken enough of the pieces before.
    static let pieceSize = 65_536

    /// A body of known length.
    init(_ bytes: [UInt8]) {
        let buffer = ByteBuffer(bytes: bytes)
        guard buffer.readableBytes > Self.pieceSize else {
            self.init(byteBuffer: buffer)
            return
        }
        self.init(contentLength: buffer.readableBytes) { writer in
            try await writer.write(inPieces: buffer)
            try await writer.finish(nil)
        }
    }

    /// One line of JSON per snapshot, until the client goes away, the daemon stops or the source ends.
    ///
    /// For one client the server holds at most the line that it is sending and one waiting reading. A newer reading
    /// replaces the waiting one.
    ///
    /// - Parameter slot: Taken until then. The same holds for the next one.
    init(
        lines query: SnapshotQuery,
        interval: UInt64?,
        of source: any ReadingSource,
        to request: Request,
        in slot: StreamSlots.Slot
    ) {
        self.init { writer in
            defer { withExtendedLifetime(slot) {} }
            // Without this the server would notice that a client left only at the next line, up to an hour later.
            try await request.body.consumeWithCancellationOnInboundClose { _ in
                var pacer = Pacer(interval: interval)
                for await reading in source.updates().cancelOnGracefulShutdown() {
                    guard pacer.admits(reading.snapshot.takenBoottimeNanoseconds) else { continue }
                    let line = query.apply(to: reading).encoded(as: .json, table: query.view.table)
                    try await writer.write(inPieces: ByteBuffer(bytes: line))
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

extension ResponseBody {
    /// The text may be taken away while a client reads it slowly. Then the connection ends.
    init(_ text: MetricsTexts.Text) {
        self.init(contentLength: text.length) { writer in
            var offset = 0
            while offset < text.length {
                guard let piece = text.piece(at: offset, atMost: Self.pieceSize) else { throw CancellationError() }
                offset += piece.readableBytes
                try await writer.write(piece)
            }
            try await writer.finish(nil)
        }
    }
}

extension ResponseBodyWriter {
    fileprivate mutating func write(inPieces buffer: ByteBuffer) async throws {
        var rest = buffer
        while let piece = rest.readSlice(length: min(ResponseBody.pieceSize, rest.readableBytes)),
            piece.readableBytes > 0
        {
            try await self.write(piece)
        }
    }
}
