import CUnixSocket
import Foundation
import Glibc
import TestSupport
import Testing

@testable import TrafficReport

@Suite("Report from Python")
struct PythonSenderTests {
    @Test("a Python program can send reports with 60 lines of code")
    func sender() throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "send_report.py")
        let lines = try String(contentsOf: script, encoding: .utf8).split(
            separator: "\n",
            omittingEmptySubsequences: false
        )
        #expect(lines.count <= 61)
        let directory = FileManager.default.temporaryDirectory.appending(path: "report-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "report.sock").path
        let receiver = try self.receiver(at: path)
        defer { close(receiver) }

        try Tool.wait(for: "python3", [script.path, path])
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let length = Glibc.recv(receiver, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        try #require(length > 0)
        let (contents, records) = try read(Array(buffer.prefix(length)))

        #expect(contents.skippedRecords == 0 && contents.malformedRecords == 0)
        try #require(records.count == 3)
        guard case .request(let request) = records[0], case .response(let response) = records[1],
            case .outcome(let outcome) = records[2]
        else {
            Issue.record("\(records)")
            return
        }
        #expect(request.lineBytes == 27 && request.headerBytes == 21)
        #expect(request.messageBytes == request.interval.bytes)
        #expect(request.decodedBodyBytes == 0 && request.declaredBodyBytes == nil)
        #expect(response.status == 200 && response.contentClass == .json && response.role == .client)
        #expect(response.messageBytes == response.interval.bytes)
        #expect(response.finishedAt - response.startedAt == 1_065_000)
        #expect(outcome.ending == .ok && outcome.duration == 1_065_000)
        #expect(outcome.tlsEndedAt == 0 && outcome.isFirst)
        #expect(outcome.phases.connect == 120 && outcome.phases.dns == nil && outcome.phases.receive == 30)
        for names in [
            (request.method, request.host, request.route), (response.method, response.host, response.route),
            (outcome.method, outcome.host, outcome.route),
        ] { #expect(names == ("GET", "api.example", "/users/{id}")) }
        #expect(contents.header.sentAt == response.finishedAt)
    }

    private func receiver(at path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        try #require(descriptor >= 0)
        try #require(unix_socket_bind(descriptor, path) == 0)
        return descriptor
    }
}
