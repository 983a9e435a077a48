import CLibbpf
import Glibc

/// The kretprobe of a kernel function, with room for many calls at a time, as an event of the kernel's tracing
/// directory.
///
/// `perf_event_open(2)` makes kretprobes too, and removes them by itself. But on kernels that can't be preempted such a
/// kretprobe has room for only as many calls as there are processors, and calls that wait in the function take all the
/// room. Only `kprobe_events` in the directory accepts a number (Documentation/trace/kprobetrace.rst). The event is
/// removed when the value goes away. An event that a killed daemon left behind calls nothing, and the next daemon
/// removes it.
struct ReturnProbe: ~Copyable {
    /// Calls that may be in the function at a time: KRETPROBE_MAXACTIVE_MAX of kernel/trace/trace_kprobe.c.
    private static let room = 4096
    private static let group = "trafficd"

    private let directory: TracingDirectory
    private let name: String

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel does not allow such an event.
    init(function: String, program: String, in directory: TracingDirectory) throws(CaptureError) {
        let name = "\(Self.group)_\(getpid())/\(program)_\(UInt32.random(in: 0...UInt32.max))"
        try directory.write("r\(Self.room):\(name) \(function)")
        self.directory = directory
        self.name = name
    }

    deinit {
        try? self.directory.write("-:\(self.name)")
    }

    /// Removes the events of daemons that have ended. The kernel refuses to remove events in use, so those stay.
    static func removeStale(in directory: TracingDirectory) {
        // r4096:trafficd_123/inet_sendmsg_returned_456 inet_sendmsg
        for line in directory.events.split(separator: "\n") {
            guard let name = line.split(separator: " ").first?.split(separator: ":").last,
                name.hasPrefix("\(Self.group)_")
            else { continue }
            try? directory.write("-:\(name)")
        }
    }

    borrowing func attach(_ program: BPFProgram) throws(CaptureError) -> BPFLink {
        let path = "\(self.directory.path)/events/\(self.name)/id"
        guard let id = text(ofFile: path)?.trimmed, let number = UInt64(id) else {
            throw .system(call: "read", object: path, errno: errno)
        }
        let event = try check("perf_event_open", self.name) { shim_open_tracepoint(number) }
        return try program.attach(toEvent: event)
    }
}

/// The kernel's tracing directory, visible or not: containers and `ip netns exec` have a `/sys` without it.
final class TracingDirectory {
    let path: String
    private let mount: OwnedDescriptor?

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the directory is not mounted and can't be mounted.
    init() throws(CaptureError) {
        let directories = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"]
        if let directory = directories.first(where: { access("\($0)/kprobe_events", W_OK) == 0 }) {
            self.path = directory
            self.mount = nil
            return
        }
        let mount = try DetachedMount.open("tracefs")
        self.path = "/proc/self/fd/\(mount.descriptor)"
        self.mount = consume mount
    }

    var events: String { text(ofFile: "\(self.path)/kprobe_events") ?? "" }

    func write(_ command: String) throws(CaptureError) {
        let file = try OwnedDescriptor(path: "\(self.path)/kprobe_events", flags: O_WRONLY | O_APPEND)
        try check("write", "kprobe_events: \(command)") {
            command.utf8.withContiguousStorageIfAvailable {
                Int32(Glibc.write(file.descriptor, $0.baseAddress, $0.count))
            } ?? -1
        }
    }
}
