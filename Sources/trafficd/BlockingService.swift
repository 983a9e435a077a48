import ServiceLifecycle
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
