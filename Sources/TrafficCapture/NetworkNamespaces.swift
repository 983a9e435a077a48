import CLinux
import Glibc

/// All network namespaces that a process lives in.
enum NetworkNamespaces {
    /// Runs `body` once in each, the current one first, and comes back. Moves only the calling thread (setns(2)).
    ///
    /// A namespace that can't be entered (no right, gone meanwhile) is left out.
    static func forEach(_ body: () throws(CaptureError) -> Void) throws(CaptureError) {
        let home = try FileHandle(path: "/proc/thread-self/ns/net")
        try body()
        var seen: Set<String> = [linkTarget("/proc/thread-self/ns/net") ?? ""]
        for pid in ProcessDirectory.pids() {
            let path = "/proc/\(pid)/ns/net"
            guard let name = linkTarget(path), seen.insert(name).inserted,
                let namespace = try? FileHandle(path: path),
                linux_setns_network(namespace.descriptor) == 0
            else { continue }
            let result = Result { () throws(CaptureError) in try body() }
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
            try result.get()
        }
    }
}
