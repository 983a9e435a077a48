import Hummingbird
import ServiceLifecycle
public import TrafficDocuments
import TrafficModel

/// Measures what counting costs, when a client asks.
public protocol CostSource: Sendable {
    /// Measures for `time`, then returns. Callers may call this function again while a measurement runs. If the task is
    /// cancelled, the function ends early and switches off what it switched on.
    ///
    /// - Throws: ``CostError``, `CancellationError`.
    func cost(over time: Duration) async throws -> CaptureCost
}

/// The kernel does not let the daemon measure.
public struct CostError: Error, Sendable, Hashable {
    /// The system's error message.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }
}

extension CostSource {
    /// - Parameters:
    ///   - nanoseconds: How long to measure. `nil`: not at all.
    ///   - request: If the connection of this request closes, the measurement ends.
    /// - Throws: ``Problem``.
    func measure(nanoseconds: UInt64?, for request: Request) async throws -> CaptureCost? {
        guard let nanoseconds else { return nil }
        do {
            return try await request.body.consumeWithCancellationOnInboundClose { _ in
                try await cancelWhenGracefulShutdown { try await self.cost(over: .nanoseconds(nanoseconds)) }
            }
        } catch let error as CostError {
            throw Problem(
                status: .internalServerError,
                detail: "The kernel does not tell what counting costs: \(error.reason)"
            )
        } catch is CancellationError {
            throw Problem(status: .serviceUnavailable, detail: "The measurement was broken off: the daemon stops.")
        }
    }
}
