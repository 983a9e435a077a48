public import Foundation

/// Finds programs of the machine.
public enum SystemTool {
    /// - Returns: `nil` where the program is not installed. Also finds administrators' tools, which not every PATH has.
    public static func path(_ name: String) -> URL? {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "") + ":/usr/sbin:/sbin"
        let candidates = path.split(separator: ":").map { URL(filePath: String($0)).appending(path: name) }
        return candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
