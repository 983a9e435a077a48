import Hummingbird
import NIOCore
import ServiceLifecycle
import TrafficExport
import TrafficModel

/// Lets through one snapshot per interval, by the time that the snapshots themselves carry.
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
        // A tick comes a little early as often as late: without this, an interval of one tick would skip every second one.
        guard taken + interval / 10 >= due else { return false }
        // In step with the first one, unless so much was missed that the next is overdue too.
        self.due = due + interval > taken ? due + interval : taken + interval
        return true
    }
}

extension ResponseBody {
    /// Pieces of this size are written one by one, each when the client has taken enough of those before.
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
    /// One client holds at most the line it is being sent and the one snapshot that waits for it: what is published meanwhile replaces
    /// the waiting one.
    init(lines query: SnapshotQuery, interval: UInt64?, of source: any SnapshotSource, to request: Request) {
        self.init { writer in
            // Without this a client that left would be noticed at the next line, up to an hour later.
            try await request.body.consumeWithCancellationOnInboundClose { _ in
                var pacer = Pacer(interval: interval)
                for await snapshot in source.updates().cancelOnGracefulShutdown() {
                    guard pacer.admits(snapshot.takenBoottimeNanoseconds) else { continue }
                    let line = query.apply(to: snapshot).encoded(as: .json, table: query.view.table)
                    try await writer.write(inPieces: ByteBuffer(bytes: line))
                }
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
