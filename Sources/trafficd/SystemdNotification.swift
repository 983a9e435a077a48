import CUnixSocket
import FoundationEssentials
import Glibc
import TrafficCapture

/// Tells systemd the daemon's state (sd_notify(3)), if systemd asked for it.
struct SystemdNotification {
    private let path: String?

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.path = environment["NOTIFY_SOCKET"]
    }

    func ready() { self.send("READY=1\n") }

    /// The configuration is being read again. ``ready()`` ends that.
    func reloading() { self.send("RELOADING=1\nMONOTONIC_USEC=\(MonotonicClock.nanoseconds() / 1_000)\n") }

    func stopping() { self.send("STOPPING=1\n") }

    /// For `WatchdogSec=`: counting goes on.
    func alive() { self.send("WATCHDOG=1\n") }

    /// Errors are ignored: systemd may be gone, and nothing depends on the arrival of the datagram.
    private func send(_ message: String) {
        guard let path, !path.isEmpty else { return }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        unix_socket_send(descriptor, message, message.utf8.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT), path)
    }
}
