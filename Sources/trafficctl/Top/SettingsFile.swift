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

    /// - Returns: `nil` where there is no home, or where the home belongs to another user, as under `sudo`. A file that
    ///   root makes there would stay root's.
    init?() {
        let configured = environment("XDG_CONFIG_HOME").flatMap { $0.hasPrefix("/") ? $0 : nil }
        guard let home = configured ?? environment("HOME"), home.hasPrefix("/") else { return nil }
        var status = stat()
        guard unsafe stat(home, &status) == 0, status.st_uid == geteuid() else { return nil }
        self.parent = configured ?? home + "/.config"
        self.directory = self.parent + "/trafficctl"
    }

    /// - Returns: `nil` where there is no file, or where the file is not one of ours.
    func read() -> TopSettings? {
        let descriptor = open(self.path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
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
        for directory in [self.parent, self.directory] { mkdir(directory, 0o700) }
        guard let file = try? NewFile(path: self.path) else { return }
        guard (try? file.write(ByteBuffer(bytes: text + [0x0a]))) != nil else { return }
        try? file.commit()
    }
}
