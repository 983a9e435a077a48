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

    private let directory: TracingDirectory
    private let name: String

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel lets nobody make such an event.
    init(function: String, program: String, in directory: TracingDirectory) throws(CaptureError) {
        let name = "\(Self.group)_\(getpid())/\(program)_\(UInt32.random(in: 0...UInt32.max))"
        try directory.write("r\(Self.room):\(name) \(function)")
        self.directory = directory
        self.name = name
    }

    deinit {
        try? self.directory.write("-:\(self.name)")
    }

    /// Removes the events of daemons that are gone. Those in use stay: the kernel refuses that.
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

/// The kernel's tracing directory, in sight or not: containers and `ip netns exec` have a `/sys` without it.
final class TracingDirectory {
    let path: String
    private let mount: FileHandle?

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where it is not mounted and can't be.
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
        let file = try FileHandle(path: "\(self.path)/kprobe_events", flags: O_WRONLY | O_APPEND)
        try check("write", "kprobe_events: \(command)") {
            command.utf8.withContiguousStorageIfAvailable {
                Int32(Glibc.write(file.descriptor, $0.baseAddress, $0.count))
            } ?? -1
        }
    }
}
