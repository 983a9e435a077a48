import Foundation
import TrafficConfiguration

/// A configuration file that a test has written.
final class Written {
    let url = FileManager.default.temporaryDirectory.appending(path: "configuration-\(UUID().uuidString).yaml")

    init(_ text: some Sequence<UInt8>) throws {
        try Data(text).write(to: self.url)
        chmod(self.url.path, 0o600)
    }

    convenience init(_ text: String) throws { try self.init(text.utf8) }

    deinit { try? FileManager.default.removeItem(at: self.url) }

    func configuration() throws -> Configuration { try ConfigurationFile(path: self.url.path).read().configuration }

    /// What is wrong with the file, without its path.
    func lines() -> [String] {
        do throws(ConfigurationFault) {
            _ = try ConfigurationFile(path: self.url.path).read()
            return []
        } catch {
            return error.lines.map { String($0.dropFirst(self.url.path.count + 1)) }
        }
    }
}
