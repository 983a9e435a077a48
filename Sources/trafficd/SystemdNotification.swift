import Foundation

/// Tells systemd about the daemon's state (sd_notify(3)), where it asked for it.
struct SystemdNotification {
    private let path: String?

    init(environment: [String: String] = ProcessInfo.processInfo.environment) {
        self.path = environment["NOTIFY_SOCKET"]
    }

    func ready() { self.send("READY=1\n") }

    func stopping() { self.send("STOPPING=1\n") }

    /// A datagram to the socket; a leading `@` is the abstract namespace. systemd may be gone: nothing depends on it.
    private func send(_ message: String) {
        guard let path, !path.isEmpty else { return }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        guard bytes.count < MemoryLayout.size(ofValue: address.sun_path) else { return }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        if path.hasPrefix("@") { address.sun_path.0 = 0 }
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + bytes.count)
        withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = sendto(descriptor, message, message.utf8.count, Int32(MSG_NOSIGNAL), address, length)
            }
        }
    }
}
