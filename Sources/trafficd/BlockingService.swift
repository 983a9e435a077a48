import ServiceLifecycle
import Synchronization
import TrafficCapture

/// A long-running part of the daemon that blocks its own thread, so that the cooperative pool keeps its threads.
struct BlockingService: Service {
    let name: String
    let body: @Sendable () throws -> Void
    let stop: @Sendable () -> Void
    /// Called when the part has ended, or could not begin.
    var onEnd: @Sendable () -> Void = {}

    func run() async throws {
        defer { self.onEnd() }
        try await withGracefulShutdownHandler {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                    do throws(CaptureError) {
                        try OwnThread(self.name) { continuation.resume(with: Result { try self.body() }) }.detach()
                    } catch {
                        continuation.resume(throwing: error)
                    }
                }
            } onCancel: {
                self.stop()
            }
        } onGracefulShutdown: {
            self.stop()
        }
    }
}

/// Ends a part that must outlive another: when it has been asked to end, and the other has ended.
///
/// In a shutdown a group of services asks one part after the other, and takes a part that ends before its turn for a
/// failure. After a failure it asks all parts at once, and then the other may still have something for this one.
final class LaterEnd: Sendable {
    private let conditions = Mutex((isAsked: false, otherHasEnded: false))
    private let stop: @Sendable () -> Void

    /// - Parameter stop: May be called more than once.
    init(_ stop: @escaping @Sendable () -> Void) {
        self.stop = stop
    }

    func ask() { self.change { $0.isAsked = true } }

    func otherEnded() { self.change { $0.otherHasEnded = true } }

    private func change(_ set: (inout (isAsked: Bool, otherHasEnded: Bool)) -> Void) {
        let isTime = self.conditions.withLock { conditions in
            set(&conditions)
            return conditions.isAsked && conditions.otherHasEnded
        }
        if isTime { self.stop() }
    }
}
