import CLinux
import Glibc

/// All network namespaces that a process lives in.
enum NetworkNamespaces {
    /// Runs `body` once in each namespace, the present one first, and returns to the present one. Moves only the
    /// calling thread (setns(2)).
    ///
    /// - Returns: The inode numbers of the namespaces that can't be entered (no right, or gone meanwhile).
    @discardableResult
    static func forEach(_ body: () throws(CaptureError) -> Void) throws(CaptureError) -> Set<UInt32> {
        let home = try OwnedDescriptor(path: "/proc/thread-self/ns/net")
        try body()
        var seen: Set<UInt32> = [ProcessDirectory.networkNamespace(task: "thread-self") ?? 0]
        var closed: Set<UInt32> = []
        let pids = ProcessDirectory.pids()
        // The list is never empty, because the pid of this process is always there.
        guard !pids.isEmpty else { throw .system(call: "readdir", object: "/proc", errno: errno) }
        for pid in pids {
            guard let inode = ProcessDirectory.networkNamespace(task: "\(pid)"), seen.insert(inode).inserted else {
                continue
            }
            guard let namespace = try? OwnedDescriptor(path: "/proc/\(pid)/ns/net"),
                linux_setns_network(namespace.descriptor) == 0
            else {
                closed.insert(inode)
                continue
            }
            let result = Result { () throws(CaptureError) in try body() }
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
            try result.get()
        }
        return closed
    }
}
