import Dispatch
import TrafficAPI
import TrafficCapture
import TrafficDocuments
import TrafficModel

/// Measures the capture's programs for the control API, on its own thread. Switching the kernel's statistics on and off
/// takes milliseconds in the kernel, and neither the counting thread nor the cooperative pool must wait for that.
struct CostMeter: CostSource {
    /// `nil` for a capture method without programs.
    private let meter: ProgramMeter?

    init(_ meter: ProgramMeter?) {
        self.meter = meter
    }

    func cost(over time: Duration) async throws -> CaptureCost {
        guard let meter else { return CaptureCost(seconds: 0, programs: []) }
        let isCancelled = DispatchSemaphore(value: 0)
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<CaptureCost, any Error>) in
                do throws(CaptureError) {
                    let thread = try OwnThread("cost") {
                        // When the continuation resumes, the statistics are off again.
                        continuation.resume(
                            with: Result { try Self.cost(from: meter, over: time, unless: isCancelled) }
                        )
                    }
                    thread.detach()
                } catch {
                    continuation.resume(throwing: CostError(reason: "\(error)"))
                }
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
