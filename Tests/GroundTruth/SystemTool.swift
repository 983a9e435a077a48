public import Foundation

/// Programs of the machine.
public enum SystemTool {
    /// - Returns: `nil` where it is not installed. Administrators' tools are not in everybody's PATH, and found anyway.
    public static func path(_ name: String) -> URL? {
        let path = (ProcessInfo.processInfo.environment["PATH"] ?? "") + ":/usr/sbin:/sbin"
        let candidates = path.split(separator: ":").map { URL(filePath: String($0)).appending(path: name) }
        return candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) }
    }
}
