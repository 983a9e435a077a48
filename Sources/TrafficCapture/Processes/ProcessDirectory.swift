import Glibc
package import TrafficModel

/// Reads `/proc/PID` of a process (proc(5)).
package enum ProcessDirectory {
    /// The pids of all processes.
    package static func pids() -> [Int32] {
        entries("/proc").compactMap { Int32($0) }
    }

    /// The start time in clock ticks since boot, field 22 of `stat`; `nil` if there is no such process.
    package static func startTicks(pid: Int32) -> UInt64? {
        contents(ofFile: "/proc/\(pid)/stat").flatMap { startTicks(stat: $0) }
    }

    /// The start time of a process and its real user, which the kernel attaches to messages.
    ///
    /// - Returns: `nil` if there is no such process.
    package static func startTicksAndUser(pid: Int32) -> (ticks: UInt64, uid: UInt32)? {
        // Of one process, also if the pid is another one's meanwhile.
        guard let folder = try? OwnedDescriptor(path: "/proc/\(pid)", flags: O_DIRECTORY),
            let status = contents(ofFile: "/proc/self/fd/\(folder.descriptor)/status"),
            let uid = user(status: status),
            let stat = contents(ofFile: "/proc/self/fd/\(folder.descriptor)/stat"),
            let ticks = startTicks(stat: stat)
        else { return nil }
        return (ticks, uid)
    }

    /// The real user of a process; `nil` if there is no such process.
    static func user(pid: Int32) -> UInt32? { contents(ofFile: "/proc/\(pid)/status").flatMap { user(status: $0) } }

    /// `Uid:`, then the real, effective, saved and file system user, separated by tabs. Names have no newline here.
    static func user(status: [UInt8]) -> UInt32? {
        let label = Array("Uid:".utf8)
        let line = status.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: label) }
        let users = line?.dropFirst(label.count).split(separator: UInt8(ascii: "\t"))
        return users?.first.flatMap { UInt32(String(decoding: $0, as: UTF8.self)) }
    }

    /// The second field is the name in parentheses. The name may contain blanks and parentheses, so fields are counted
    /// from the last parenthesis.
    static func startTicks(stat: [UInt8]) -> UInt64? {
        guard let end = stat.lastIndex(of: UInt8(ascii: ")")) else { return nil }
        let fields = stat[(end + 1)...].split(separator: UInt8(ascii: " "))
        // Field 3 is the first field after the parenthesis.
        return fields.count > 19 ? UInt64(String(decoding: fields[19], as: UTF8.self)) : nil
    }

    /// Whether the process has ended; its pid may then belong to another process. `stat` shows the start time rounded
    /// down to a tick.
    ///
    /// If `/proc` can't be read (no descriptor left), the process counts as still there.
    package static func isGone(_ process: ProcessIdentity) -> Bool {
        if kill(process.pid, 0) != 0 && errno == ESRCH { return true }
        guard let ticks = startTicks(pid: process.pid) else { return false }
        return ticks != process.startTicks
    }

    package static func name(pid: Int32) -> String? {
        text(ofFile: "/proc/\(pid)/comm")?.trimmedNewline
    }

    package static func executable(pid: Int32) -> String? {
        guard let target = linkTarget("/proc/\(pid)/exe") else { return nil }
        let deleted = " (deleted)"
        return target.hasSuffix(deleted) ? String(target.dropLast(deleted.count)) : target
    }

    /// The command line; `nil` for kernel threads. A command line longer than `limit` bytes is cut.
    package static func commandLine(pid: Int32, limit: Int = 4096) -> [String]? {
        guard let bytes = contents(ofFile: "/proc/\(pid)/cmdline", atMost: limit), !bytes.isEmpty else { return nil }
        return bytes.split(separator: 0, omittingEmptySubsequences: false)
            .map { String(decoding: $0, as: UTF8.self) }.droppingLastEmpty
    }

    /// Inode number of the network namespace.
    ///
    /// - Parameter task: A pid, or `thread-self`.
    package static func networkNamespace(task: String) -> UInt32? {
        // net:[4026531840]
        linkTarget("/proc/\(task)/ns/net").flatMap { UInt32($0.dropFirst(5).dropLast()) }
    }

    /// The inode numbers of the sockets that the process holds; empty if its descriptors can't be read.
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

    /// The path in the v2 hierarchy and, if systemd still uses a v1 hierarchy of its own, the path there.
    package static func cgroups(pid: Int32) -> (unified: String?, systemd: String?) {
        cgroups(text(ofFile: "/proc/\(pid)/cgroup") ?? "")
    }

    static func cgroups(_ text: String) -> (unified: String?, systemd: String?) {
        var paths: (unified: String?, systemd: String?)
        // By bytes, because users name cgroups: a Character may have a line end or a slash and what follows it.
        for line in text.utf8.split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3 else { continue }
            if fields[0].elementsEqual("0".utf8) && fields[1].isEmpty { paths.unified = String(Substring(fields[2])) }
            if fields[1].elementsEqual("name=systemd".utf8) { paths.systemd = String(Substring(fields[2])) }
        }
        return paths
    }
}

/// Finds the service and the container in the path of a cgroup.
///
/// The system's service manager makes slices, in slices, and units in them. What is below a unit, or below a directory
/// that is neither, was made by whoever runs there: a user's own service manager, a container's, or any process of
/// that user. The name of such a unit begins with the place that made it.
package enum CgroupNaming {
    /// The unit: `…/nginx.service`, `…/session-3.scope`. A slice groups units and is no unit here.
    ///
    /// A unit that the system's manager did not make follows a slash: `user@1000.service/nginx.service` is a user's,
    /// and `docker/nginx.service` one in a container of Docker.
    package static func systemdUnit(_ path: String) -> String? {
        let components = Self.belowSlices(path)
        guard let outer = components.first else { return nil }
        let inner = components.dropFirst().last(where: Self.isUnit)
        guard let inner else { return Self.isUnit(outer) ? String(outer) : nil }
        return "\(outer)/\(inner)"
    }

    /// The container ID: 64 hexadecimal digits that Docker, containerd, CRI-O and Podman put in the name of a unit of the
    /// system's service manager, `docker-ID.scope`, `cri-containerd-ID.scope` or `libpod-ID.scope`, or of a directory
    /// below one of their own, `/docker/ID`.
    ///
    /// What is below a container or another unit may have any name, so of containers in each other the outer one counts.
    package static func containerID(_ path: String) -> String? {
        let components = Self.belowSlices(path)
        guard let outer = components.first else { return nil }
        return Self.engines.contains(String(outer)) ? components.lazy.compactMap(Self.id).first : Self.id(in: outer)
    }

    /// The directories of container engines that do without systemd.
    private static let engines: Set<String> = [
        "docker", "kubepods", "k8s.io", "default", "libpod_parent", "crio", "ecs",
    ]

    private static func id(in component: Substring) -> String? {
        let stem = component.hasSuffix(".scope") ? component.dropLast(6) : component
        let id = stem.split(separator: "-").last ?? stem
        return id.utf8.count == 64 && id.allSatisfy(\.isHexDigit) ? String(id) : nil
    }

    /// Without the slices, and without the way up to them from the daemon's own cgroup namespace.
    private static func belowSlices(_ path: String) -> ArraySlice<Substring> {
        path.utf8.split(separator: UInt8(ascii: "/")).map { Substring($0) }.drop {
            $0 == ".." || $0.hasSuffix(".slice")
        }
    }

    private static func isUnit(_ name: Substring) -> Bool { name.hasSuffix(".service") || name.hasSuffix(".scope") }
}

extension String {
    fileprivate var trimmedNewline: String { self.hasSuffix("\n") ? String(self.dropLast()) : self }
}

extension [String] {
    /// `cmdline` ends each argument with a zero byte, so the last piece is empty.
    fileprivate var droppingLastEmpty: [String] { self.last == "" ? self.dropLast() : self }
}
