import CPrivileges
import Glibc

/// The rights that capturing needs (capabilities(7)).
public enum Privileges {
    private typealias Capability = (name: String, bit: UInt64)

    private static let bpf: Capability = ("CAP_BPF", 39)
    private static let perfmon: Capability = ("CAP_PERFMON", 38)
    private static let netAdmin: Capability = ("CAP_NET_ADMIN", 12)
    /// For `/proc/PID/exe` and `/proc/PID/ns` of other users' processes.
    private static let sysPtrace: Capability = ("CAP_SYS_PTRACE", 19)
    /// For the names of cgroups by their ids (open_by_handle_at(2)).
    private static let dacReadSearch: Capability = ("CAP_DAC_READ_SEARCH", 2)
    /// For entering network namespaces (setns(2)), and for the kernel's BPF statistics.
    private static let sysAdmin: Capability = ("CAP_SYS_ADMIN", 21)

    /// The rights to load and attach the programs.
    private static let needed = [bpf, perfmon, netAdmin, sysPtrace, dacReadSearch]
    /// The rights to go on counting after the start.
    private static let lasting = [bpf, sysPtrace, dacReadSearch]

    /// - Throws: ``CaptureError/permission(needs:)`` with the missing rights and how to get them.
    public static func checkBPF() throws(CaptureError) {
        let effective = effectiveCapabilities(status: text(ofFile: "/proc/self/status") ?? "")
        if effective & (1 << self.sysAdmin.bit) != 0 { return }
        let missing = self.needed.filter { effective & (1 << $0.bit) == 0 }.map(\.name)
        guard !missing.isEmpty else { return }
        throw .permission(
            needs: "counting needs root, or the capabilities \(missing.joined(separator: ", ")): "
                + "run it with sudo, or as a systemd service; --method poll counts less and needs no rights"
        )
    }

    /// Permanently gives up, in every thread, the rights that only the start needed: loading, attaching, changing the
    /// socket's group, entering namespaces.
    ///
    /// - Parameter keepsSysAdmin: CAP_SYS_ADMIN stays, for ``ProgramMeter`` and ``PollCapture``. It stays also if CAP_BPF is
    ///   missing.
    /// - Throws: ``CaptureError/system(call:object:errno:)``. Then some threads may have given up their rights and
    ///   others not.
    public static func giveUpThoseOfTheStart(keepsSysAdmin: Bool) throws(CaptureError) {
        let present = self.effectiveCapabilities(status: text(ofFile: "/proc/self/status") ?? "")
        // Without CAP_BPF, it lets the daemon read the maps.
        let isNeeded = keepsSysAdmin || present & 1 << self.bpf.bit == 0
        let kept = (self.lasting + (isNeeded ? [self.sysAdmin] : [])).reduce(0 as UInt64) { $0 | 1 << $1.bit }
        try check("capset", "every thread") { privileges_keep(kept) }
    }

    /// The rights of the process that walks through namespaces. It keeps CAP_SYS_ADMIN when the daemon gives that up.
    static let ofWalk = [bpf, sysPtrace, dacReadSearch, sysAdmin].reduce(0 as UInt64) { $0 | 1 << $1.bit }

    static func effectiveCapabilities(status: String) -> UInt64 {
        let line = status.split(separator: "\n").first { $0.hasPrefix("CapEff:") }
        return line.flatMap { UInt64($0.dropFirst(7).drop { $0 == "\t" || $0 == " " }, radix: 16) } ?? 0
    }
}
