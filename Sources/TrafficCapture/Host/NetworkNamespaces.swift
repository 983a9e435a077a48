import CLinux
import Glibc

/// All network namespaces that a process lives in, or that are mounted (`ip netns add`).
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
        let ofProcesses = pids.lazy.compactMap { pid in
            ProcessDirectory.networkNamespace(task: "\(pid)").map { (inode: $0, path: "/proc/\(pid)/ns/net") }
        }
        for place in [Array(ofProcesses), self.mounted(text(ofFile: "/proc/thread-self/mountinfo") ?? "")].joined() {
            guard seen.insert(place.inode).inserted else { continue }
            guard let namespace = try? OwnedDescriptor(path: place.path),
                linux_setns_network(namespace.descriptor) == 0
            else {
                closed.insert(place.inode)
                continue
            }
            let result = Result { () throws(CaptureError) in try body() }
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
            try result.get()
        }
        return closed
    }

    /// - Parameter mountinfo: As in proc_pid_mountinfo(5):
    ///   `61 25 0:4 net:[4026532177] /run/netns/lab rw shared:30 - nsfs nsfs rw`
    static func mounted(_ mountinfo: String) -> [(inode: UInt32, path: String)] {
        mountinfo.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count > 4, words[3].hasPrefix("net:["), let inode = UInt32(words[3].dropFirst(5).dropLast())
            else { return nil }
            return (inode, String(words[4]))
        }
    }
}
