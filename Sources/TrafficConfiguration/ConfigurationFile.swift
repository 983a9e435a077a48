import Glibc

/// The configuration file on disk.
package struct ConfigurationFile: Sendable {
    package static let defaultPath = "/etc/trafficd.yaml"
    package let path: String
    /// Bytes. A thousand times what the example has.
    package static let largest = 1 << 20

    package init(path: String = Self.defaultPath) { self.path = path }

    package var exists: Bool { access(self.path, F_OK) == 0 || errno != ENOENT }

    /// What a file says: the defaults, and over them its own values.
    package struct Contents: Sendable {
        package var configuration = Configuration()
        /// The names of the settings that the file has.
        package var given: Set<String> = []
    }

    /// - Throws: ``ConfigurationFault`` with everything that is wrong.
    package func read() throws(ConfigurationFault) -> Contents {
        let (root, problems): (YAMLNode, [ConfigurationProblem])
        do throws(ConfigurationProblem) {
            (root, problems) = try YAMLReader.read(self.bytes())
        } catch {
            throw ConfigurationFault(path: self.path, problems: [error])
        }
        var contents = Contents()
        var found = Configuration.settings.read(root, into: &contents.configuration)
        found.problems += problems
        // Options may complete the others.
        if let conflict = contents.configuration.conflict, !conflict.mayBeCompleted {
            found.problems.append(ConfigurationProblem(conflict.message, at: found.places[conflict.setting]))
        }
        guard found.problems.isEmpty else { throw ConfigurationFault(path: self.path, problems: found.problems) }
        contents.given = Set(found.places.keys)
        return contents
    }

    /// - Throws: ``ConfigurationProblem`` if the file can't be read, or is none that a daemon should believe.
    private func bytes() throws(ConfigurationProblem) -> [UInt8] {
        // A pipe must not make the daemon wait.
        let descriptor = open(self.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw Self.systemProblem() }
        defer { close(descriptor) }
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.systemProblem() }
        try Self.check(status)
        var bytes = [UInt8](repeating: 0, count: Self.largest + 1)
        var length = 0
        while length < bytes.count {
            let count = bytes.withUnsafeMutableBytes { buffer in
                Glibc.read(descriptor, buffer.baseAddress! + length, buffer.count - length)
            }
            guard count >= 0 else { throw Self.systemProblem() }
            if count == 0 { break }
            length += count
        }
        guard length <= Self.largest else {
            throw ConfigurationProblem("longer than \(Self.largest) bytes: this is no configuration", at: nil)
        }
        return Array(bytes[..<length])
    }

    /// The file says where a daemon with root's rights writes and who may read its numbers. So only root and the
    /// daemon's own user may be able to write it.
    private static func check(_ status: stat) throws(ConfigurationProblem) {
        guard status.st_mode & S_IFMT == S_IFREG else { throw ConfigurationProblem("not a regular file", at: nil) }
        guard status.st_uid == 0 || status.st_uid == geteuid() else {
            throw ConfigurationProblem(
                "belongs to user \(status.st_uid), who could change it: chown it to root",
                at: nil
            )
        }
        guard status.st_mode & 0o022 == 0 else {
            throw ConfigurationProblem("other users can write it: chmod go-w it, and see what it says", at: nil)
        }
    }

    private static func systemProblem() -> ConfigurationProblem {
        ConfigurationProblem("can't read it: \(String(cString: strerror(errno)))", at: nil)
    }
}
