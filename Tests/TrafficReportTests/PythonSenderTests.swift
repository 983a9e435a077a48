import CUnixSocket
import Foundation
import Glibc
import TestSupport
import Testing

@testable import TrafficReport

@Suite("Report from Python")
struct PythonSenderTests {
    @Test("a Python program can send reports with 70 lines of code")
    func sender() throws {
        let script = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "send_report.py")
        let lines = try String(contentsOf: script, encoding: .utf8).split(
            separator: "\n",
            omittingEmptySubsequences: false
        )
        #expect(lines.count < 70)
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
        try #require(records.count == 1)
        guard case .exchange(let exchange) = records[0] else {
            Issue.record("\(records)")
            return
        }
        #expect(exchange.number == 1 && exchange.cookie == 0x1234 && exchange.role == .client)
        #expect((exchange.method, exchange.host, exchange.route) == ("GET", "api.example", "/users/{id}"))
        let (request, response) = (try #require(exchange.request), try #require(exchange.response))
        #expect(request.lineBytes == 27 && request.headerBytes == 21)
        #expect(request.messageBytes == request.interval.bytes)
        #expect(request.decodedBodyBytes == 0 && request.declaredBodyBytes == nil)
        #expect(request.startedAt == exchange.startedAt && request.finishedAt == exchange.startedAt + 15_000)
        #expect(response.status == 200 && response.contentClass == .json)
        #expect(response.decodedBodyBytes == 100 && response.declaredBodyBytes == 100)
        #expect(response.messageBytes == response.interval.bytes)
        #expect(response.finishedAt - exchange.startedAt == 1_065_000)
        let outcome = try #require(exchange.outcome)
        #expect(outcome.ending == .ok && outcome.status == 200 && outcome.duration == 1_065_000)
        #expect(outcome.tlsEndedAt == 0 && outcome.isFirst)
        #expect(outcome.phases.connect == 120 && outcome.phases.dns == nil && outcome.phases.receive == 30)
        #expect(contents.header.sentAt == response.finishedAt)
    }

    private func receiver(at path: String) throws -> Int32 {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        try #require(descriptor >= 0)
        try #require(unix_socket_bind(descriptor, path) == 0)
        return descriptor
    }
}
