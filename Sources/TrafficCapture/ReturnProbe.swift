import CLibbpf
import Glibc

/// The kretprobe of a kernel function, with room for many calls at a time, as an event of the kernel's tracing directory.
///
/// `perf_event_open(2)` makes kretprobes too, and takes them back by itself, but with room for as many calls as there are processors,
/// on kernels that can't be preempted: calls that wait in the function are enough to hide the others. Only the directory's
/// `kprobe_events` takes a number (Documentation/trace/kprobetrace.rst). Removed when it goes away; what a killed daemon left behind
/// calls nothing, and the next one removes it.
struct ReturnProbe: ~Copyable {
    /// Calls that may be at work in the function at a time: KRETPROBE_MAXACTIVE_MAX of kernel/trace/trace_kprobe.c.
    private static let room = 4096
    private static let group = "trafficd"

    private let directory: String
    private let name: String

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where there is no tracing directory in sight, or the kernel lets nobody write
    ///   to it.
    init(function: String, program: String) throws(CaptureError) {
        let directories = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        guard let directory = directories.first(where: { access("\($0)/kprobe_events", W_OK) == 0 }) else {
            throw .system(call: "access", object: "/sys/kernel/tracing/kprobe_events", errno: errno)
        }
        let name = "\(Self.group)_\(getpid())/\(program)_\(UInt32.random(in: 0...UInt32.max))"
        try Self.write("r\(Self.room):\(name) \(function)", directory)
        self.directory = directory
        self.name = name
    }

    deinit {
        try? Self.write("-:\(self.name)", self.directory)
    }

    /// Removes the events of daemons that are gone. Those in use stay: the kernel refuses that.
    static func removeStale() {
        for directory in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
            // r4096:trafficd_123/inet_sendmsg_returned_456 inet_sendmsg
            for line in (text(ofFile: "\(directory)/kprobe_events") ?? "").split(separator: "\n") {
                guard let name = line.split(separator: " ").first?.split(separator: ":").last,
                    name.hasPrefix("\(Self.group)_")
                else { continue }
                try? Self.write("-:\(name)", directory)
            }
        }
    }

    borrowing func attach(_ program: BPFProgram) throws(CaptureError) -> BPFLink {
        let path = "\(self.directory)/events/\(self.name)/id"
        guard let id = text(ofFile: path)?.trimmed, let number = UInt64(id) else {
            throw .system(call: "read", object: path, errno: errno)
        }
        let event = try check("perf_event_open", self.name) { shim_open_tracepoint(number) }
        return try program.attach(toEvent: event)
    }

    private static func write(_ command: String, _ directory: String) throws(CaptureError) {
        let file = try FileHandle(path: "\(directory)/kprobe_events", flags: O_WRONLY | O_APPEND)
        try check("write", "kprobe_events: \(command)") {
            command.utf8.withContiguousStorageIfAvailable {
                Int32(Glibc.write(file.descriptor, $0.baseAddress, $0.count))
            } ?? -1
        }
    }
}
