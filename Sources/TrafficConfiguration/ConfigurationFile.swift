import Glibc
import TrustedFiles

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

    /// The file says where a daemon with root's rights writes and who may read its numbers.
    ///
    /// - Throws: ``ConfigurationProblem`` if the file can't be read, or is none that a daemon should believe.
    private func bytes() throws(ConfigurationProblem) -> [UInt8] {
        do throws(TrustedFileError) {
            return try TrustedFile.read(self.path, largest: Self.largest, isSecret: false)
        } catch {
            throw ConfigurationProblem(error.reason, at: nil)
        }
    }
}
