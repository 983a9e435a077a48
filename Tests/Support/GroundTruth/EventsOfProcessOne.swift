import Foundation
import Glibc

/// The kernel's trace of some events on threads of process 1, or in softirqs that interrupt those threads. We know of
/// one kernel that runs no BPF program for these events (TrafficCapture's documentation).
public final class EventsOfProcessOne {
    /// Where tracefs is mounted for this object alone: a machine may have it nowhere.
    private let mount = FileManager.default.temporaryDirectory.appending(path: "tracefs-\(UUID().uuidString)").path
    private var instance: String { self.mount + "/instances/trafficd" + self.mount.suffix(36) }

    /// - Parameter events: Such as `net/netif_receive_skb`.
    /// - Returns: `nil` without tracefs.
    public init?(_ events: [String]) {
        mkdir(self.mount, 0o700)
        guard Glibc.mount("tracefs", self.mount, "tracefs", 0, nil) == 0, mkdir(self.instance, 0o700) == 0 else {
            self.leave()
            return nil
        }
        // Threads that process 1 starts later, too.
        self.write("1", to: "options/event-fork")
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/1/task")) ?? []
        self.write(threads.joined(separator: " "), to: "set_event_pid")
        for event in events { self.write("1", to: "events/\(event)/enable") }
    }

    deinit { self.leave() }

    /// - Returns: One line for each event.
    public func stop() -> [String] {
        self.write("0", to: "events/enable")
        let trace = (try? String(contentsOfFile: self.instance + "/trace", encoding: .utf8)) ?? ""
        return trace.split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
    }

    private func leave() {
        rmdir(self.instance)
        umount2(self.mount, Int32(MNT_DETACH))
        rmdir(self.mount)
    }

    private func write(_ text: String, to file: String) {
        guard let handle = FileHandle(forWritingAtPath: "\(self.instance)/\(file)") else { return }
        try? handle.write(contentsOf: Data(text.utf8))
        try? handle.close()
    }
}
