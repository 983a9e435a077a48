import FoundationEssentials
import Glibc
import NIOCore
import TrafficView

/// The file with what `top` keeps: `top.json` in `$XDG_CONFIG_HOME/trafficctl`, or in `~/.config/trafficctl`.
///
/// The settings are a convenience. Where the file can't be read or written, `top` says nothing and goes on.
struct SettingsFile {
    private let directory: String
    /// The directory that holds ``directory``.
    private let parent: String
    private var path: String { self.directory + "/top.json" }

    /// Nobody's settings are longer. What is longer is not a file of ours.
    private static let mostBytes = 4_096

    /// - Returns: `nil` where there is no home, or where others may write in it. Under `sudo` the home may be another
    ///   user's; a file that root makes there would stay root's.
    init?() {
        let configured = environment("XDG_CONFIG_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        guard let home = configured ?? environment("HOME"), home.hasPrefix("/") else { return nil }
        // A configured directory may be missing, and is made then.
        guard configured != nil || Self.isOurs(home) else { return nil }
        self.parent = configured ?? home + "/.config"
        self.directory = self.parent + "/trafficctl"
    }

    /// Whether `directory` belongs to this process's user, and nobody else may make files or links in it.
    private static func isOurs(_ directory: String) -> Bool {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var status = stat()
        return unsafe fstat(descriptor, &status) == 0 && status.st_uid == geteuid() && status.st_mode & 0o022 == 0
    }

    /// - Returns: `nil` where there is no file, or where the file is not one of ours.
    func read() -> TopSettings? {
        guard Self.isOurs(self.parent), Self.isOurs(self.directory) else { return nil }
        let descriptor = open(self.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: Self.mostBytes)
        let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
        guard count > 0 else { return nil }
        return try? JSONDecoder().decode(TopSettings.self, from: Data(bytes[..<count]))
    }

    func write(_ settings: TopSettings) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        guard let text = try? encoder.encode(settings) else { return }
        for directory in [self.parent, self.directory] {
            mkdir(directory, 0o700)
            guard Self.isOurs(directory) else { return }
        }
        guard let file = try? NewFile(path: self.path, replacesAnything: true) else { return }
        guard (try? file.write(ByteBuffer(bytes: text + [0x0a]))) != nil else { return }
        try? file.commit()
    }
}
