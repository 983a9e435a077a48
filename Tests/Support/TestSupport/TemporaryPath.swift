import Foundation

/// A path where temporary files go, with nothing there yet. It is short, because a socket's path has at most 107 bytes.
public func temporaryPath(_ name: String, _ ending: String = "") -> String {
    FileManager.default.temporaryDirectory.appending(path: "\(name)-\(UUID().uuidString.prefix(8))\(ending)").path
}
