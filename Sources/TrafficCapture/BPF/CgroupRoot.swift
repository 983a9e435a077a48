import CLinux
import Glibc

/// The root of the cgroup v2 hierarchy, at any mount point.
package enum CgroupRoot {
    /// Opens the root directory. If no mount of the hierarchy is visible (hosts with only cgroup v1), this makes a
    /// detached mount. No other process sees that mount, and it goes away with the descriptor.
    ///
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if the kernel has no cgroup v2.
    package static func open() throws(CaptureError) -> OwnedDescriptor {
        if let path = mountPoint(), let root = try? OwnedDescriptor(path: path, flags: O_RDONLY | O_DIRECTORY) {
            return root
        }
        do {
            return try DetachedMount.open("cgroup2")
        } catch {
            throw .unsupported(feature: "cgroup v2", reason: "not mounted, and \(error)")
        }
    }

    /// Where the whole hierarchy is mounted and visible: another mount may cover a mount point.
    static func mountPoint() -> String? {
        mountPoints(mountinfo: text(ofFile: "/proc/self/mountinfo") ?? "").first { path in
            var status = statfs()
            return statfs(path, &status) == 0 && status.f_type == 0x6367_7270  // CGROUP2_SUPER_MAGIC, linux/magic.h
        }
    }

    /// - Parameter mountinfo: `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
    static func mountPoints(mountinfo: String) -> [String] {
        var paths: [String] = []
        for line in mountinfo.split(separator: "\n") {
            let halves = line.split(separator: " - ", maxSplits: 1)
            guard halves.count == 2, halves[1].hasPrefix("cgroup2 ") else { continue }
            let fields = halves[0].split(separator: " ")
            guard fields.count > 4, fields[3] == "/" else { continue }
            paths.append(String(fields[4]))
        }
        return paths
    }
}

/// Paths of cgroups by their id, for processes that ended before the daemon could read `/proc`.
package struct CgroupPaths: ~Copyable {
    private let mountPoint: String
    private let root: OwnedDescriptor
    private var known: [UInt64: String] = [:]

    /// - Returns: `nil` if the hierarchy is not mounted.
    package init?() {
        guard let mountPoint = CgroupRoot.mountPoint(),
            let root = try? OwnedDescriptor(path: mountPoint, flags: O_RDONLY | O_DIRECTORY)
        else { return nil }
        self.mountPoint = mountPoint
        self.root = root
    }

    /// - Parameter id: The inode number of the cgroup's directory, as `bpf_get_current_cgroup_id()` returns it.
    /// - Returns: The path below the mount, or `nil` if the cgroup is gone too.
    package mutating func path(of id: UInt64) -> String? {
        if let path = self.known[id] { return path }
        guard id != 0, let path = self.lookUp(id) else { return nil }
        if self.known.count >= 4096 { self.known.removeAll() }
        self.known[id] = path
        return path
    }

    /// A cgroup's id is its file handle (open_by_handle_at(2)).
    private borrowing func lookUp(_ id: UInt64) -> String? {
        let descriptor = linux_open_kernfs(self.root.descriptor, id)
        guard descriptor >= 0 else { return nil }
        let directory = OwnedDescriptor(owning: descriptor)
        guard let path = linkTarget("/proc/self/fd/\(directory.descriptor)"), path.hasPrefix(self.mountPoint) else {
            return nil
        }
        let relative = path.dropFirst(self.mountPoint.count)
        return relative.isEmpty ? "/" : String(relative)
    }
}

/// The target of a symbolic link, or `nil` if the link can't be read.
package func linkTarget(_ path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 4096)
    let length = readlink(path, &buffer, buffer.count)
    guard length > 0 else { return nil }
    return String(decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
}
