import CTrafficABI
import TrafficEvents
import TrafficModel

/// Reads the new names of processes that have called execve(2).
struct NameReader {
    private let executed: BPFMap

    init(map: BPFMap) {
        self.executed = map
    }

    /// Not kept for the next daemon: it looks all processes up again.
    func take(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var taken: [traffic_process_key] = []
        defer { for process in taken { self.executed.remove(process) } }
        try self.executed.forEach(
            keySize: MemoryLayout<traffic_process_key>.size,
            valueSize: MemoryLayout<traffic_execution>.size
        ) { key, value in
            let process = key.unsafeLoadUnaligned(as: traffic_process_key.self)
            let execution = value.unsafeLoadUnaligned(as: traffic_execution.self)
            taken.append(process)
            let identity = ProcessIdentity(
                pid: Int32(bitPattern: process.tgid),
                startBoottimeNanoseconds: process.start_boottime_ns
            )
            let name = withUnsafeBytes(of: execution.name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            emit(
                .executed(
                    identity,
                    Execution(name: name, uid: execution.uid, boottimeNanoseconds: execution.boottime_ns)
                )
            )
        }
    }
}
