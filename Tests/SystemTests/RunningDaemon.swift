import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

/// Runs `body` beside a new daemon, then stops the daemon and checks that the daemon left nothing behind.
func withDaemon<Result>(
    method: String = Machine.method,
    directories: DaemonDirectories? = nil,
    arguments: [String] = [],
    launcher: (program: URL, arguments: [String])? = nil,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ body: (Daemon) async throws -> Result
) async throws -> Result {
    let daemon = try await Daemon(
        Machine.programs,
        method: method,
        directories: directories,
        arguments: arguments,
        launcher: launcher
    )
    let result: Result
    do {
        result = try await body(daemon)
    } catch {
        try? await finish(daemon, sourceLocation)
        throw error
    }
    try await finish(daemon, sourceLocation)
    return result
}

/// Sends SIGTERM. The daemon must exit with 0 and leave no socket, and no BPF program or map.
func finish(_ daemon: Daemon, _ sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let held = BPFObjects.held(by: daemon.program.pid)
    let code = try await daemon.stop()
    #expect(code == 0, "\(daemon.program.errorText)", sourceLocation: sourceLocation)
    #expect(
        !FileManager.default.fileExists(atPath: daemon.directories.controlSocket.path),
        "the control socket is still there",
        sourceLocation: sourceLocation
    )
    let left = try await held.stillThere()
    #expect(left.isEmpty, "left in the kernel: \(left)", sourceLocation: sourceLocation)
}

/// The programs and maps that a process has open, by kernel id. Ids and not just a count, because other daemons may
/// run.
struct BPFObjects {
    var programs: Set<Int> = []
    var maps: Set<Int> = []

    static func held(by pid: pid_t) -> BPFObjects {
        var held = BPFObjects()
        let folder = "/proc/\(pid)/fdinfo"
        for name in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            guard let text = try? String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8) else { continue }
            for line in text.split(separator: "\n") {
                let words = line.split(whereSeparator: \.isWhitespace)
                guard words.count == 2, let id = Int(words[1]) else { continue }
                if words[0] == "prog_id:" { held.programs.insert(id) }
                if words[0] == "map_id:" { held.maps.insert(id) }
            }
        }
        return held
    }

    /// The kernel frees programs and maps in the background, so this waits until none is left, or gives up.
    func stillThere() async throws -> [String] {
        guard Machine.has("bpftool") else { return [] }
        return try await look(every: .milliseconds(100), until: { $0.isEmpty }) { try await self.find() }
    }

    private func find() async throws -> [String] {
        var found: [String] = []
        for (kind, ids) in [("prog", self.programs), ("map", self.maps)] {
            let listing = try await tool("bpftool", ["-j", kind, "show"])
            let rows = try JSONDecoder().decode([Row].self, from: Data(listing.output.utf8))
            found += rows.filter { ids.contains($0.id) }.map { "\(kind) \($0.id) \($0.name ?? "")" }
        }
        return found
    }

    private struct Row: Decodable {
        var id: Int
        var name: String?
    }
}

/// Waits until the program listens on this TCP port.
///
/// - Parameter launcher: A program and its arguments that start `ss` where the program runs, such as
///   `ip netns exec NAME`.
func awaitListener(on port: String, of program: Program, launcher: [String] = []) async throws {
    let command = launcher + ["ss", "-Hltn", "sport = :\(port)"]
    let listens = try await eventually(every: .milliseconds(50)) {
        try #require(program.isRunning, "\(program.errorText)")
        return try await tool(command[0], Array(command.dropFirst())).output.isEmpty == false
    }
    try #require(listens, "\(program.errorText)")
}
