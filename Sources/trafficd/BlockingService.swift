import Foundation
import ServiceLifecycle

/// A long-running part that blocks a thread of its own, so that the cooperative pool keeps its threads.
struct BlockingService: Service {
    let name: String
    let body: @Sendable () throws -> Void
    let stop: @Sendable () -> Void

    func run() async throws {
        try await withGracefulShutdownHandler {
            try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                    let thread = Thread { continuation.resume(with: Result { try self.body() }) }
                    thread.name = self.name
                    thread.start()
                }
            } onCancel: {
                self.stop()
            }
        } onGracefulShutdown: {
            self.stop()
        }
    }
}
