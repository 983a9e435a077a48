import Foundation
import TestSupport
import TrafficModel

@testable import TrafficRecording

/// A file that is gone with this object.
final class TemporaryFile {
    let path = FileManager.default.temporaryDirectory.appending(path: "recording-\(UUID().uuidString)").path

    init(_ bytes: [UInt8]? = nil) throws {
        if let bytes { try Data(bytes).write(to: URL(filePath: self.path)) }
    }

    func recording() throws(RecordingError) -> Recording {
        // The path alone would not keep the file.
        defer { withExtendedLifetime(self) {} }
        return try Recording(path: self.path)
    }

    deinit { try? FileManager.default.removeItem(atPath: self.path) }
}

func address(_ text: String, _ port: UInt16 = 443) -> SocketAddress {
    SocketAddress(address: InternetAddress(text) ?? InternetAddress(bytes: .init(repeating: 1)), port: port)
}

extension Snapshot {
    /// 2026-11-25T10:00:00Z.
    static let began: Int64 = 1_795_600_800

    /// - Parameter second: Since the beginning.
    static func made(
        at second: Double,
        countingSince: Double = -3_600,
        _ processes: [ProcessUsage] = [],
        exited: [ExitedUsage] = [],
        endpoints: [EndpointUsage] = []
    ) -> Snapshot {
        func time(_ second: Double) -> Timestamp {
            Timestamp(nanosecondsSinceEpoch: Self.began * 1_000_000_000 + Int64(second * 1e9))
        }
        return Snapshot(
            takenAt: time(second),
            takenBoottimeNanoseconds: UInt64((second + 100_000) * 1e9),
            countingSince: time(countingSince),
            host: HostDescription(name: "shop.acme.example", bootID: "0f4c-boot", kernel: "6.12.9-amd64"),
            daemon: DaemonDescription(version: "0.1.0", pid: 77, startedAt: time(countingSince)),
            capture: CaptureStatus(method: .fexit, hooks: ["fexit/tcp_sendmsg"], blindSpots: ["raw sockets"]),
            processes: processes,
            exited: exited,
            sockets: [],
            endpoints: endpoints,
            interfaces: [],
            totals: Totals(of: processes, exited)
        )
    }
}

extension ProcessUsage {
    static func made(
        _ name: String,
        pid: Int32,
        uid: UInt32 = 1_000,
        sent: UInt64,
        received: UInt64 = 0
    ) -> ProcessUsage {
        ProcessUsage(
            identity: ProcessIdentity(pid: pid, startBoottimeNanoseconds: UInt64(pid)),
            details: ProcessDetails(name: name, uid: uid, user: "user\(uid)"),
            bytes: ByteCounts(payload: PayloadBytes(sent: sent, received: received))
        )
    }
}

/// The bytes of a recording of these snapshots.
func recorded(_ snapshots: [Snapshot], redacted: Pseudonyms? = nil, ends: Bool = true) throws -> [UInt8] {
    var writer = try RecordingWriter()
    let shown = snapshots.map { snapshot in redacted.map { snapshot.redacted($0) } ?? snapshot }
    let header = RecordingHeader(
        startedAt: Timestamp(nanosecondsSinceEpoch: Snapshot.began * 1_000_000_000),
        interval: 1,
        redacted: redacted != nil,
        filtered: false,
        snapshot: shown.first
    )
    var bytes = try writer.begin(header)
    for snapshot in shown { bytes += try writer.add(snapshot) ?? [] }
    if ends { bytes += try writer.end() }
    return bytes
}

func recording(of snapshots: [Snapshot]) throws -> Recording {
    try TemporaryFile(try recorded(snapshots)).recording()
}
