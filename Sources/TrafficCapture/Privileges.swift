import Glibc

/// The rights that capturing needs (capabilities(7)).
public enum Privileges {
    private static let needed: [(name: String, bit: UInt64)] = [
        ("CAP_BPF", 39), ("CAP_PERFMON", 38), ("CAP_NET_ADMIN", 12), ("CAP_SYS_PTRACE", 19), ("CAP_DAC_READ_SEARCH", 2),
    ]
    private static let sysAdmin: UInt64 = 21

    /// - Throws: ``CaptureError/permission(needs:)`` that names what is missing and how to get it.
    public static func checkBPF() throws(CaptureError) {
        let effective = effectiveCapabilities(status: text(ofFile: "/proc/self/status") ?? "")
        if effective & (1 << self.sysAdmin) != 0 { return }
        let missing = self.needed.filter { effective & (1 << $0.bit) == 0 }.map(\.name)
        guard !missing.isEmpty else { return }
        throw .permission(
            needs: "counting needs root, or the capabilities \(missing.joined(separator: ", ")): "
                + "run it with sudo, or as a systemd service; --rung poll counts less and needs no rights"
        )
    }

    static func effectiveCapabilities(status: String) -> UInt64 {
        let line = status.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
        return line.flatMap { UInt64($0.dropFirst(7).drop { $0 == "\t" || $0 == " " }, radix: 16) } ?? 0
    }
}
