import CLinux
import Glibc

/// The root of the cgroup v2 hierarchy, wherever it is mounted.
package enum CgroupRoot {
    /// Opens the root directory. Where no mount of it is in sight (cgroup v1 only hosts) a detached one is made, which
    /// nobody else sees and which goes away with the descriptor.
    ///
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` where the kernel has no cgroup v2.
    package static func open() throws(CaptureError) -> FileHandle {
        if let path = mountPoint(), let root = try? FileHandle(path: path, flags: O_RDONLY | O_DIRECTORY) {
            return root
        }
        do {
            return try DetachedMount.open("cgroup2")
        } catch {
            throw .unsupported(feature: "cgroup v2", reason: "not mounted, and \(error)")
        }
    }

    /// Where the whole hierarchy is mounted and in sight: another mount may cover it.
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

/// Paths of cgroups by their id, for processes that are gone before `/proc` could be read.
package struct CgroupPaths: ~Copyable {
    private let mountPoint: String
    private let root: FileHandle
    private var known: [UInt64: String] = [:]

    /// - Returns: `nil` where the hierarchy is not mounted.
    package init?() {
        guard let mountPoint = CgroupRoot.mountPoint(),
            let root = try? FileHandle(path: mountPoint, flags: O_RDONLY | O_DIRECTORY)
        else { return nil }
        self.mountPoint = mountPoint
        self.root = root
    }

    /// - Parameter id: As `bpf_get_current_cgroup_id()` gives it: the inode number of the cgroup's directory.
    /// - Returns: The path below the mount, or `nil` where the cgroup is gone too.
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
        let directory = FileHandle(owning: descriptor)
        guard let path = linkTarget("/proc/self/fd/\(directory.descriptor)"), path.hasPrefix(self.mountPoint) else {
            return nil
        }
        let relative = path.dropFirst(self.mountPoint.count)
        return relative.isEmpty ? "/" : String(relative)
    }
}

/// Where a symbolic link points, or `nil`.
package func linkTarget(_ path: String) -> String? {
    var buffer = [CChar](repeating: 0, count: 4096)
    let length = readlink(path, &buffer, buffer.count)
    guard length > 0 else { return nil }
    return String(decoding: buffer.prefix(length).map(UInt8.init(bitPattern:)), as: UTF8.self)
}
