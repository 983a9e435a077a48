import Glibc
package import TrafficModel

/// What `/proc/PID` says of a process (proc(5)).
package enum ProcessDirectory {
    /// The pids of all processes.
    package static func pids() -> [Int32] {
        entries("/proc").compactMap { Int32($0) }
    }

    /// Start time in clock ticks since boot, field 22 of `stat`; `nil` where there is no such process.
    package static func startTicks(pid: Int32) -> UInt64? {
        contents(ofFile: "/proc/\(pid)/stat").flatMap { startTicks(stat: $0) }
    }

    /// The second field is the name in parentheses and may hold blanks and parentheses itself: count from the last one.
    static func startTicks(stat: [UInt8]) -> UInt64? {
        guard let end = stat.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = stat[(end + 1)...].split(separator: UInt8(ascii: " "))
        // Field 3 is the first after the parenthesis.
        return fields.count > 19 ? UInt64(String(decoding: fields[19], as: UTF8.self)) : nil
    }

    /// Clock ticks per second as the kernel shows them to user space (`USER_HZ`).
    static let ticksPerSecond = UInt64(max(1, sysconf(Int32(_SC_CLK_TCK))))

    /// Whether the process has ended, and its pid may be another's by now. `stat` shows the start time rounded down to a tick.
    ///
    /// Where `/proc` can't be read (no descriptor left) it is there for all that is known.
    package static func isGone(_ process: ProcessIdentity) -> Bool {
        if kill(process.pid, 0) != 0 && errno == ESRCH { return true }
        guard let ticks = startTicks(pid: process.pid) else { return false }
        return ticks != process.startBoottimeNanoseconds / (1_000_000_000 / ticksPerSecond)
    }

    package static func name(pid: Int32) -> String? {
        text(ofFile: "/proc/\(pid)/comm")?.trimmedNewline
    }

    package static func executable(pid: Int32) -> String? {
        guard let target = linkTarget("/proc/\(pid)/exe") else { return nil }
        let deleted = " (deleted)"
        return target.hasSuffix(deleted) ? String(target.dropLast(deleted.count)) : target
    }

    /// `nil` for kernel threads. Longer ones than `limit` bytes are cut.
    package static func commandLine(pid: Int32, limit: Int = 4096) -> [String]? {
        guard let bytes = contents(ofFile: "/proc/\(pid)/cmdline"), !bytes.isEmpty else { return nil }
        return bytes.prefix(limit).split(separator: 0, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }.droppingLastEmpty
    }

    /// Inode number of the network namespace.
    ///
    /// - Parameter task: A pid, or `thread-self`.
    package static func networkNamespace(task: String) -> UInt32? {
        // net:[4026531840]
        linkTarget("/proc/\(task)/ns/net").flatMap { UInt32($0.dropFirst(5).dropLast()) }
    }

    /// Inode numbers of the sockets that the process holds; none where its descriptors may not be read.
    package static func socketInodes(pid: Int32) -> [UInt32] {
        entries("/proc/\(pid)/fd").compactMap { name in
            // socket:[12345]
            guard let target = linkTarget("/proc/\(pid)/fd/\(name)"), target.hasPrefix("socket:[") else { return nil }
            return UInt32(target.dropFirst(8).dropLast())
        }
    }

    package static func entries(_ path: String) -> [String] {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafeBytes(of: &entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            )
        }
        return names
    }

    /// Path in the v2 hierarchy and, where systemd still uses a v1 hierarchy of its own, the path there.
    package static func cgroups(pid: Int32) -> (unified: String?, systemd: String?) {
        cgroups(text(ofFile: "/proc/\(pid)/cgroup") ?? "")
    }

    static func cgroups(_ text: String) -> (unified: String?, systemd: String?) {
        var paths: (unified: String?, systemd: String?)
        for line in text.split(separator: "\n") {
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            if fields[0] == "0" && fields[1].isEmpty { paths.unified = String(fields[2]) }
            if fields[1] == "name=systemd" { paths.systemd = String(fields[2]) }
        }
        return paths
    }
}

/// What a cgroup's path tells of the service and the container that live in it.
package enum CgroupNaming {
    /// The innermost unit: `…/nginx.service`, `…/session-3.scope`. A slice groups units and is none itself.
    package static func systemdUnit(_ path: String) -> String? {
        path.split(separator: "/").last { $0.hasSuffix(".service") || $0.hasSuffix(".scope") }.map(String.init)
    }

    /// The 64 hexadecimal digits that Docker, containerd, CRI-O and Podman put in the last such component, as
    /// `docker-ID.scope`, `cri-containerd-ID.scope`, `libpod-ID.scope` or the bare ID.
    package static func containerID(_ path: String) -> String? {
        for component in path.split(separator: "/").reversed() {
            let stem = component.hasSuffix(".scope") ? component.dropLast(6) : component
            let id = stem.split(separator: "-").last ?? stem
            if id.utf8.count == 64 && id.allSatisfy(\.isHexDigit) { return String(id) }
        }
        return nil
    }
}

extension String {
    fileprivate var trimmedNewline: String { self.hasSuffix("\n") ? String(self.dropLast()) : self }
}

extension [String] {
    /// `cmdline` ends each argument with a zero byte, so the last piece is empty.
    fileprivate var droppingLastEmpty: [String] { self.last == "" ? self.dropLast() : self }
}
