import Foundation
import TrafficCapture
import TrafficControl
import TrafficModel

/// Measures the capture's programs for the control API, on a thread of its own: switching the kernel's statistics on and off takes
/// milliseconds in the kernel, and neither the thread that counts nor the cooperative pool shall wait for it.
struct CostMeter: CostSource {
    /// `nil` for a rung without programs.
    private let meter: ProgramMeter?

    init(_ meter: ProgramMeter?) {
        self.meter = meter
    }

    func cost(over time: Duration) async throws -> CaptureCost {
        guard let meter else { return CaptureCost(seconds: 0, programs: []) }
        let isCancelled = DispatchSemaphore(value: 0)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<CaptureCost, any Error>) in
                let thread = Thread {
                    // The statistics are off again when the continuation resumes.
                    continuation.resume(
                        with: Result { try Self.cost(from: meter, over: time, unless: isCancelled) }
                    )
                }
                thread.name = "cost"
                thread.start()
            }
        } onCancel: {
            isCancelled.signal()
        }
    }

    private static func cost(
        from meter: ProgramMeter,
        over time: Duration,
        unless isCancelled: DispatchSemaphore
    ) throws -> CaptureCost {
        do {
            let measurement = try meter.start()
            guard isCancelled.wait(timeout: .now() + time / .seconds(1)) == .timedOut else {
                throw CancellationError()
            }
            return try measurement.cost()
        } catch let error as CaptureError {
            throw CostError(reason: "\(error)")
        }
    }
}
