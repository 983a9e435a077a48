import Foundation

/// The kernel's trace of some events on threads of process 1, or in softirqs that interrupt those threads. We know of
/// one kernel that runs no BPF program for these events (TrafficCapture's documentation).
public final class EventsOfProcessOne {
    private let instance: String

    /// - Parameter events: Such as `net/netif_receive_skb`.
    /// - Returns: `nil` without tracefs.
    public init?(_ events: [String]) {
        self.instance = "/sys/kernel/tracing/instances/trafficd-\(UUID().uuidString)"
        guard mkdir(self.instance, 0o700) == 0 else { return nil }
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/1/task")) ?? []
        self.write(threads.joined(separator: " "), to: "set_event_pid")
        for event in events { self.write("1", to: "events/\(event)/enable") }
    }

    /// - Returns: One line for each event.
    public func stop() -> [String] {
        self.write("0", to: "events/enable")
        let trace = (try? String(contentsOfFile: self.instance + "/trace", encoding: .utf8)) ?? ""
        rmdir(self.instance)
        return trace.split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
    }

    private func write(_ text: String, to file: String) {
        guard let handle = FileHandle(forWritingAtPath: "\(self.instance)/\(file)") else { return }
        try? handle.write(contentsOf: Data(text.utf8))
        try? handle.close()
    }
}
