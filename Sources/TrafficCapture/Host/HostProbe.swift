import Glibc

/// A property of the machine that affects how exactly the daemon can count.
public struct HostProbe: Sendable, Hashable {
    public var name: String
    public var isGood: Bool
    public var finding: String
    public var remedy: String

    public static func all() -> [HostProbe] {
        [self.btf(), self.cgroup(), self.pidNamespace(), self.lockdown()]
    }

    static func btf() -> HostProbe {
        let path = "/sys/kernel/btf/vmlinux"
        let isThere = access(path, R_OK) == 0
        return HostProbe(
            name: "kernel BTF",
            isGood: isThere,
            finding: isThere ? path : "\(path) is missing: BPF programs can't be fitted to this kernel",
            remedy: "use a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions ship it"
        )
    }

    private static func cgroup() -> HostProbe {
        let path = CgroupRoot.mountPoint()
        return HostProbe(
            name: "cgroup v2",
            isGood: path != nil,
            finding: path ?? "not mounted: units and containers of processes that ended early stay unknown",
            remedy: "mount -t cgroup2 none /sys/fs/cgroup/unified"
        )
    }

    /// The BPF programs use pids of the initial namespace; /proc shows the pids of its own namespace.
    private static func pidNamespace() -> HostProbe {
        let initial = "pid:[4026531836]"  // PROC_PID_INIT_INO, include/linux/proc_ns.h
        let own = linkTarget("/proc/self/ns/pid") ?? "unknown"
        return HostProbe(
            name: "PID namespace",
            isGood: own == initial,
            finding: own == initial ? "the host's" : "\(own), not the host's: pids do not match /proc here",
            remedy: "run the daemon in the host's PID namespace (docker run --pid=host)"
        )
    }

    private static func lockdown() -> HostProbe {
        // none [integrity] confidentiality
        let text = TrafficCapture.text(ofFile: "/sys/kernel/security/lockdown")?.trimmed
        let mode = text.flatMap { $0.split(separator: "[").last?.split(separator: "]").first }.map(String.init)
        return HostProbe(
            name: "kernel lockdown",
            isGood: mode != "confidentiality",
            finding: mode ?? "none known",
            remedy: "in confidentiality mode the kernel lets no BPF program read it: use lockdown=integrity"
        )
    }
}
