import Hummingbird
import Synchronization

/// Limits the answers without an end: each takes the daemon some time at every interval.
final class StreamSlots: Sendable {
    private let limit: Int
    private let taken = Mutex(0)

    init(limit: Int) { self.limit = limit }

    /// Requests that come at the same time may all see the same room, and be a few too many.
    var hasRoom: Bool { self.taken.withLock { $0 < self.limit } }

    /// The body counts while it is written. It never is for HEAD, and where the client is gone.
    func counted(_ body: ResponseBody) -> ResponseBody {
        ResponseBody { writer in
            self.taken.withLock { $0 += 1 }
            defer { self.taken.withLock { $0 -= 1 } }
            try await body.write(writer)
        }
    }
}
