import Dispatch
import Synchronization
import TrafficModel

/// Reads the host's addresses on a thread of its own, because a user can make thousands of network namespaces, and each
/// of them has to be entered. Whoever counts waits for a moment at most.
///
/// The thread is made at once: later there may be no room for one, because users can fill the table of processes.
final class AddressReader {
    /// How long ``read(begins:)`` waits for a reading that it begins. That takes some milliseconds with a hundred
    /// namespaces.
    private static let patience = DispatchTimeInterval.milliseconds(100)

    private let worker = Worker()

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel makes no further thread.
    init() throws(CaptureError) {
        try OwnThread("addresses") { [worker] in worker.run() }.detach()
    }

    /// If a reading is under way, the thread ends after it, and nobody waits for that.
    deinit {
        self.worker.isStopped.store(true, ordering: .relaxed)
        self.worker.asked.signal()
    }

    /// - Parameter begins: Begins a reading. Otherwise one is under way.
    /// - Returns: `nil`: the reading is still under way.
    func read(begins: Bool) -> AddressReading? {
        if begins { self.worker.asked.signal() }
        let deadline = begins ? DispatchTime.now() + Self.patience : .now()
        guard self.worker.answered.wait(timeout: deadline) == .success else { return nil }
        return self.worker.reading.withLock { $0.take() }
    }

    private final class Worker: Sendable {
        let asked = DispatchSemaphore(value: 0)
        let answered = DispatchSemaphore(value: 0)
        let isStopped = Atomic<Bool>(false)
        let reading = Mutex<AddressReading?>(nil)

        func run() {
            while true {
                self.asked.wait()
                if self.isStopped.load(ordering: .relaxed) { return }
                let begin = MonotonicClock.threadNanoseconds()
                let result = Result { () throws(CaptureError) in try HostAddresses.read() }
                // Processor time: wall-clock time would include the time of other processes.
                let cost = MonotonicClock.threadNanoseconds() -| begin
                self.reading.withLock { $0 = AddressReading(result: result, cost: cost) }
                self.answered.signal()
            }
        }
    }
}

package struct AddressReading: Sendable {
    package var result: Result<HostAddresses, CaptureError>
    /// Nanoseconds of a processor.
    package var cost: UInt64

    package init(result: Result<HostAddresses, CaptureError>, cost: UInt64) {
        (self.result, self.cost) = (result, cost)
    }
}
