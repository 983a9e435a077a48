import Hummingbird
import ServiceLifecycle
public import TrafficModel

/// Measures what counting costs, when somebody asks.
public protocol CostSource: Sendable {
    /// Returns when the time is over. May be called again meanwhile. Ends early, and switches off what it switched on, where the task
    /// is cancelled.
    ///
    /// - Throws: ``CostError``, `CancellationError`.
    func cost(over time: Duration) async throws -> CaptureCost
}

/// The kernel does not let the daemon measure.
public struct CostError: Error, Sendable, Hashable {
    /// The system's words.
    public var reason: String

    public init(reason: String) {
        self.reason = reason
    }
}

extension CostSource {
    /// - Parameters:
    ///   - nanoseconds: For how long; `nil` for not at all.
    ///   - request: The measurement ends with its connection.
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
