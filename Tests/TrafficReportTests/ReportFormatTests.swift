import Foundation
import Testing

@testable import TrafficReport

/// The golden bytes were written by hand from Format.md, not by the code under test.
@Suite("Report format")
struct ReportFormatTests {
    @Test("the golden datagrams read as their records, and writing gives the same bytes", arguments: Golden.all)
    func golden(_ golden: Golden) throws {
        let bytes = try golden.bytes()
        let (contents, records) = try read(bytes)
        #expect(records == golden.records)
        #expect(contents == .init(header: golden.header))
        #expect(write(golden.records, golden.header) == bytes)
    }

    @Test("any record reads back as it was written")
    func roundTrip() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            let records = (0..<Int.random(in: 0...40, using: &random)).map { _ in Report.Record.random(&random) }
            let header = Report.Header(
                sequence: .random(in: 0 ... .max),
                droppedRecords: .random(in: 0 ... .max),
                sentAt: 7
            )
            let bytes = write(records, header)
            #expect(bytes.count % 8 == 0)
            let result = try read(bytes)
            #expect(result.records == records)
            #expect(result.contents == .init(header: header))
        }
    }

    @Test("a full datagram takes no more records and loses none, and the writer starts a new datagram")
    func full() throws {
        var writer = ReportWriter()
        var message = Report.Message(exchange: 1)
        message.route = String(repeating: "é", count: 512)
        var count = 0
        while writer.append(.request(message)) { count += 1 }
        let first = writer.finish(.init(), copy)
        #expect(first.count <= Report.largestDatagram)
        #expect(first.count + 8 + 128 + 3 * 2 + 1_024 + 7 > Report.largestDatagram)
        #expect(try read(first).records.count == count)
        #expect(writer.isEmpty)
        let again = writer.append(.request(message))
        let second = writer.finish(.init(), copy)
        #expect(again)
        #expect(try read(second).records == [.request(message)])
    }

    @Test("a string that is too long is cut between characters")
    func longStrings() throws {
        var message = Report.Message(exchange: 1)
        message.route = "/" + String(repeating: "€", count: 400)
        message.host = String(repeating: "h", count: 1_024)
        guard case .request(let cut) = try read(write([.request(message)])).records.first else {
            Issue.record("no request")
            return
        }
        #expect(cut.route == "/" + String(repeating: "€", count: 341))
        #expect(cut.host == message.host)
    }

    /// A byte that is not UTF-8 takes three bytes when it is replaced.
    @Test("a string does not grow beyond its limit when it is read")
    func replaced() throws {
        var message = Report.Message(exchange: 1)
        message.host = String(repeating: "h", count: 1_024)
        var bytes = write([.request(message)])
        let host = try #require(bytes.firstIndex(of: UInt8(ascii: "h")))
        for index in host..<host + 1_024 { bytes[index] = 0xff }
        let records = try read(bytes).records
        guard case .request(let read) = records.first else { throw ReportError.notAReport }
        #expect(read.host == String(repeating: "\u{fffd}", count: 341))
        #expect(try TrafficReportTests.read(write(records)).records == records)
    }

    @Test("a repeated name is identical to the name before, a name that only begins alike is not")
    func names() throws {
        let routes = ["/a", "/a", "/ab", "/a", "", "", "/é", "/é"]
        let records = routes.enumerated().map { index, route in
            var message = Report.Message(exchange: UInt64(index + 1))
            message.name = .init(method: "GET", host: "h", route: route)
            return Report.Record.response(message)
        }
        let back = try read(write(records)).records
        #expect(back == records)
        let names = back.compactMap { if case .response(let message) = $0 { message.name } else { nil } }
        let isSame = zip(names, names.dropFirst()).map { $0.isIdentical(to: $1) }
        #expect(isSame == [true, false, false, false, true, false, true])
        var bytes = write(records)
        let last = try #require(bytes.lastIndex(of: 0xa9))
        bytes[last] = 0xff  // not UTF-8: replaced
        guard case .response(let message)? = try read(bytes).records.last else { throw ReportError.notAReport }
        #expect(message.route == "/\u{fffd}\u{fffd}" && message.host == "h")
    }

    @Test("a later library's types and fields are skipped, and an earlier library's missing fields are 0")
    func evolution() throws {
        var bytes = try Golden.request.bytes()
        // The header is 8 bytes longer, and a record of type 9 with 16 bytes comes before the request.
        let unknown: [UInt8] = [9, 0, 8, 0, 16, 0, 0, 0] + [UInt8](repeating: 0xff, count: 8)
        bytes.insert(contentsOf: [UInt8](repeating: 0xee, count: 8) + unknown, at: 24)
        bytes[5] = 32
        bytes[6] = 2
        // The request's fixed part has 8 more bytes at its end.
        let fixedEnd = 32 + 16 + 8 + 128
        bytes.insert(contentsOf: [UInt8](repeating: 0xdd, count: 8), at: fixedEnd)
        bytes[48 + 2] += 8
        bytes[48 + 4] += 8
        let (contents, records) = try read(bytes)
        #expect(contents.skippedRecords == 1 && contents.malformedRecords == 0)
        #expect(records == Golden.request.records)

        // A request whose fixed part ends after the cookie.
        let short: [UInt8] =
            [1, 0, 24, 0, 40, 0, 0, 0] + [5, 0, 0, 0, 0, 0, 0, 0] + [UInt8](repeating: 0, count: 8)
            + [9, 0, 0, 0, 0, 0, 0, 0] + [0, 0, 0, 0, 0, 0, 0, 0]
        let header: [UInt8] = Array("TRFC".utf8) + [1, 24, 1, 0] + [UInt8](repeating: 0, count: 16)
        var message = Report.Message(exchange: 5)
        message.cookie = 9
        message.decodedBodyBytes = 0
        message.declaredBodyBytes = 0
        #expect(try read(header + short).records == [.request(message)])
    }

    @Test("an outcome of an older library with 64 bytes lacks only the TLS time")
    func shorterOutcome() throws {
        guard case .outcome(var outcome) = Golden.exchange.records.last else { return }
        var bytes = try Golden.exchange.bytes()
        let outcomeStart = 24 + 176
        bytes.removeSubrange(outcomeStart + 8 + 64..<outcomeStart + 8 + 72)
        bytes[outcomeStart + 2] -= 8
        bytes[outcomeStart + 4] -= 8
        #expect(outcome.tlsEndedAt != 0)
        outcome.tlsEndedAt = 0
        let (contents, records) = try read(bytes)
        #expect(contents.malformedRecords == 0 && contents.skippedRecords == 0)
        #expect(records == [Golden.exchange.records[0], .outcome(outcome)])
    }

    @Test("an outcome without flags is not its connection's first; flags of later versions change nothing")
    func flags() throws {
        guard case .outcome(var outcome) = Golden.exchange.records.last else { return }
        #expect(outcome.isFirst)
        for (flags, isFirst) in [(0x00, false), (0xfe, false), (0xff, true)] as [(UInt8, Bool)] {
            var bytes = try Golden.exchange.bytes()
            let flagsAt = 24 + 176 + 8 + 60
            bytes.replaceSubrange(flagsAt..<flagsAt + 4, with: [flags, 0xff, 0xff, 0xff])
            outcome.isFirst = isFirst
            #expect(try read(bytes).records == [Golden.exchange.records[0], .outcome(outcome)])
        }
    }

    @Test("the error says why a datagram is no report")
    func refusals() throws {
        let bytes = try Golden.request.bytes()
        #expect(throws: ReportError.notAReport) { try read([]) }
        #expect(throws: ReportError.notAReport) { try read(Array("GET / HTTP/1.1".utf8)) }
        #expect(throws: ReportError.unknownVersion(2)) { try read(Array("TRFC".utf8) + [2]) }
        #expect(throws: ReportError.truncated(record: nil)) { try read(Array(bytes.prefix(20))) }
        #expect(throws: ReportError.truncated(record: 0)) { try read(Array(bytes.dropLast())) }
    }

    @Test("records with impossible numbers are counted and not passed on")
    func impossible() throws {
        var backwards = Report.Message(exchange: 1)
        backwards.interval = .init(from: 10, to: 5, bytes: 0)
        var tooMany = Report.Message(exchange: 1)
        tooMany.interval = .init(from: 5, to: 10, bytes: 6)
        var cookies = Report.Message(exchange: 1)
        cookies.cookieBytes = 1
        let all: [Report.Record] = [
            .request(backwards), .response(tooMany), .request(cookies), .request(.init(exchange: 0)),
            .outcome(.init(exchange: 0)), .connection(.init(cookie: 0)),
        ]
        let (contents, records) = try read(write(all))
        #expect(records.isEmpty && contents.malformedRecords == all.count)
    }

    @Test("mutated datagrams end in records or an error, never beyond the datagram")
    func mutations() throws {
        let originals = try Golden.all.map { try $0.bytes() }
        var random = SystemRandomNumberGenerator()
        var (accepted, refused) = (0, 0)
        for round in 0..<Self.mutationCount {
            var bytes = originals[round % originals.count]
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                switch Int.random(in: 0..<3, using: &random) {
                case 0: bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0 ... .max, using: &random)
                case 1: bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random))
                default:
                    bytes.insert(
                        .random(in: 0 ... .max, using: &random),
                        at: .random(in: 0...bytes.count, using: &random)
                    )
                }
                if bytes.isEmpty { break }
            }
            do {
                _ = try read(bytes)
                accepted += 1
            } catch {
                refused += 1
            }
        }
        #expect(accepted > 0 && refused > 0)
    }

    /// Takes ten seconds in a debug build.
    private static let mutationCount = 200_000
}

func read(_ bytes: [UInt8]) throws(ReportError) -> (contents: ReportReader.Contents, records: [Report.Record]) {
    var records: [Report.Record] = []
    let contents = try ReportReader.read(bytes.span) { records.append($0) }
    return (contents, records)
}

func write(_ records: [Report.Record], _ header: Report.Header = .init()) -> [UInt8] {
    var writer = ReportWriter()
    for record in records where !writer.append(record) { Issue.record("no room for \(record)") }
    return writer.finish(header, copy)
}

func copy(_ span: Span<UInt8>) -> [UInt8] {
    span.indices.map { span[$0] }
}
