import CUnixSocket
import Foundation
import Glibc
public import TrafficReport

/// The daemon's end of `report.sock`.
public final class ReportReceiver: Sendable {
    public let path: String
    private let descriptor: Int32

    /// - Parameter isStream: Whether the socket is a stream. The socket of a daemon is not.
    public init(path: String = freshPath(), isStream: Bool = false) throws {
        self.path = path
        self.descriptor = socket(AF_UNIX, Int32((isStream ? SOCK_STREAM : SOCK_DGRAM).rawValue), 0)
        unlink(path)
        guard unix_socket_bind(self.descriptor, path) == 0 else {
            throw CountingProxy.Failure(call: "bind", code: errno)
        }
    }

    deinit {
        close(self.descriptor)
        unlink(self.path)
    }

    public static func freshPath() -> String {
        FileManager.default.temporaryDirectory.appending(path: "report-\(UUID().uuidString.prefix(8)).sock").path
    }

    /// Waits for at least `count` records.
    public func records(_ count: Int) async throws -> (records: [Report.Record], sequences: [UInt32]) {
        var all: (records: [Report.Record], sequences: [UInt32]) = ([], [])
        while all.records.count < count {
            let (records, sequences) = try await self.everything()
            all.records += records
            all.sequences += sequences
            if all.records.count < count { try await Task.sleep(for: .milliseconds(5)) }
        }
        return all
    }

    /// All records that have arrived.
    public func everything() async throws -> (records: [Report.Record], sequences: [UInt32]) { try self.arrived() }

    /// Hands over what arrives, until `isOver` says that no more will be sent.
    func read(until isOver: () -> Bool, _ take: (_ records: [Report.Record], _ sequences: [UInt32]) -> Void) throws {
        while true {
            // Asked first: what was sent before is then there.
            let isLast = isOver()
            let arrived = try self.arrived()
            take(arrived.records, arrived.sequences)
            if isLast { return }
            var event = pollfd(fd: self.descriptor, events: Int16(POLLIN), revents: 0)
            poll(&event, 1, 20)
        }
    }

    private func arrived() throws -> (records: [Report.Record], sequences: [UInt32]) {
        var all: (records: [Report.Record], sequences: [UInt32]) = ([], [])
        var buffer = [UInt8](repeating: 0, count: Report.largestDatagram)
        while true {
            let length = recv(self.descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard length > 0 else { return all }
            var reader = ReportReader()
            let contents = try reader.read(Array(buffer.prefix(length)).span) { all.records.append(copy $0) }
            all.sequences.append(contents.header.sequence)
        }
    }
}
