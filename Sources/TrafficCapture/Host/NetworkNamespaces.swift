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
        func visit(_ inode: UInt32, _ path: String) throws(CaptureError) {
            guard !seen.contains(inode) else { return }
            // A process may just have ended. Another one of the namespace may still be there.
            guard let namespace = try? OwnedDescriptor(path: path), linux_setns_network(namespace.descriptor) == 0
            else {
                closed.insert(inode)
                return
            }
            seen.insert(inode)
            closed.remove(inode)
            let result = Result { () throws(CaptureError) in try body() }
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
            try result.get()
        }
        let pids = ProcessDirectory.pids()
        // The list is never empty, because the pid of this process is always there.
        guard !pids.isEmpty else { throw .system(call: "readdir", object: "/proc", errno: errno) }
        for pid in pids {
            guard let inode = ProcessDirectory.networkNamespace(task: "\(pid)") else { continue }
            try visit(inode, "/proc/\(pid)/ns/net")
        }
        for place in self.mounted(text(ofFile: "/proc/thread-self/mountinfo") ?? "") {
            try visit(place.inode, place.path)
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
