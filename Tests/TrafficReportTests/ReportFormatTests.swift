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
        var count: UInt64 = 0
        while writer.append(Self.request(count + 1, route: "/" + String(count))) { count += 1 }
        let first = writer.finish(.init(), copy)
        #expect(first.count <= Report.largestDatagram)
        #expect(first.count + 32 + 40 + 16 > Report.largestDatagram)
        #expect(try read(first).records.count == Int(count))
        #expect(writer.isEmpty)
        // The new datagram has none of the names.
        let again = writer.append(Self.request(1, route: "/0"))
        let second = writer.finish(.init(), copy)
        #expect(again)
        #expect(try read(second).records == [.exchange(Self.request(1, route: "/0"))])
    }

    @Test("a datagram has room for 361 exchanges of one endpoint")
    func capacity() throws {
        guard case .exchange(let exchange) = Golden.exchange.records[1] else { return }
        var writer = ReportWriter()
        while writer.append(exchange) {}
        #expect(writer.count == 361 - 1)
    }

    @Test("a string that is too long is cut between characters")
    func longStrings() throws {
        let host = String(repeating: "h", count: 1_024)
        let exchange = Self.request(1, host: host, route: "/" + String(repeating: "€", count: 400))
        guard case .exchange(let cut) = try read(write([.exchange(exchange)])).records.first else {
            Issue.record("no exchange")
            return
        }
        #expect(cut.route == "/" + String(repeating: "€", count: 341))
        #expect(cut.host == host)
    }

    /// A byte that is not UTF-8 takes three bytes when it is replaced.
    @Test("a string does not grow beyond its limit when it is read")
    func replaced() throws {
        var bytes = write([.exchange(Self.request(1, host: String(repeating: "h", count: 1_024)))])
        let host = try #require(bytes.firstIndex(of: UInt8(ascii: "h")))
        for index in host..<host + 1_024 { bytes[index] = 0xff }
        let records = try read(bytes).records
        guard case .exchange(let read) = records.first else { throw ReportError.notAReport }
        #expect(read.host == String(repeating: "\u{fffd}", count: 341))
        #expect(try TrafficReportTests.read(write(records)).records == records)
    }

    @Test("a datagram spells a name once, and equal names of other makers are the same name")
    func names() throws {
        let routes = ["/a", "/a", "/ab", "/a", "", "", "/é", "/é"]
        let records = routes.enumerated().map { index, route in
            Report.Record.exchange(Self.request(UInt64(index + 1), route: route))
        }
        let bytes = write(records)
        #expect(bytes.count { $0 == UInt8(ascii: "G") } == 4)
        let back = try read(bytes).records
        #expect(back == records)
        let names = back.compactMap { if case .exchange(let exchange) = $0 { exchange.name } else { nil } }
        for (name, other) in zip(names, names.dropFirst()) {
            #expect(name.isIdentical(to: other) == (name.route == other.route))
        }
        #expect(names[3].isIdentical(to: names[0]))
    }

    @Test("a reader makes the texts of a name once for many datagrams, but not if other bytes are like them")
    func remembered() throws {
        var reader = ReportReader()
        let name = { (bytes: [UInt8]) throws -> Report.Name? in
            var found: Report.Name?
            _ = try reader.read(bytes.span) { if case .exchange(let exchange) = $0 { found = exchange.name } }
            return found
        }
        var bytes = write([.exchange(Self.request(1, route: "/é"))])
        let first = try #require(try name(bytes))
        #expect(try name(bytes)?.isIdentical(to: first) == true)
        let last = try #require(bytes.lastIndex(of: 0xa9))
        bytes[last] = 0xff  // not UTF-8: replaced
        #expect(try name(bytes)?.route == "/\u{fffd}\u{fffd}")
        #expect(try name(bytes)?.host == "h")
    }

    @Test("names that share a slot of the writer's table are spelled again, and none is taken for another")
    func crowded() throws {
        var random = SystemRandomNumberGenerator()
        let records = (0..<500).map { index in
            Report.Record.exchange(Self.request(index + 1, route: "/\(UInt8.random(in: 0..<200, using: &random))"))
        }
        let bytes = write(records)
        #expect(try read(bytes).records == records)
        #expect(bytes.count < 500 * 72 + 400 * 24)
    }

    @Test("a later library's types, fields and parts are skipped")
    func evolution() throws {
        var bytes = try Golden.request.bytes()
        // The header is 8 bytes longer, and a record of type 9 with 16 bytes comes before the name.
        let unknown: [UInt8] = [9, 0, 16, 0] + [UInt8](repeating: 0xff, count: 12)
        bytes.insert(contentsOf: [UInt8](repeating: 0xee, count: 8) + unknown, at: 24)
        bytes[5] = 32
        bytes[6] = 3
        // The exchange has one more part, at its end.
        let exchange = bytes.count - 72
        bytes += [UInt8](repeating: 0xdd, count: 8)
        bytes[exchange + 2] += 8
        bytes[exchange + 5] = 1
        let (contents, records) = try read(bytes)
        #expect(contents.skippedRecords == 1 && contents.malformedRecords == 0)
        #expect(records == Golden.request.records)
        // An exchange that has only parts of a later version.
        bytes[exchange + 4] = 0
        #expect(try read(bytes).contents.skippedRecords == 2)
    }

    @Test("the error says why a datagram is no report")
    func refusals() throws {
        let bytes = try Golden.request.bytes()
        #expect(throws: ReportError.notAReport) { try read([]) }
        #expect(throws: ReportError.notAReport) { try read(Array("GET / HTTP/1.1".utf8)) }
        #expect(throws: ReportError.unknownVersion(2)) { try read(Array("TRFC".utf8) + [2]) }
        #expect(throws: ReportError.truncated(record: nil)) { try read(Array(bytes.prefix(20))) }
        #expect(throws: ReportError.truncated(record: 1)) { try read(Array(bytes.dropLast())) }
        for length: UInt8 in [0, 7] {
            var short = bytes
            short[bytes.count - 72 + 2] = length
            #expect(throws: ReportError.truncated(record: 1)) { try read(short) }
        }
    }

    @Test("records with impossible numbers are counted and not passed on")
    func impossible() throws {
        let changes: [(inout Report.Exchange) -> Void] = [
            { $0.request?.interval = .init(from: 10, to: 5, bytes: 0) },
            { $0.request?.interval = .init(from: 5, to: 10, bytes: 6) },
            { $0.request?.cookieBytes = 156 },
            { $0.number = 0 },
        ]
        var all: [Report.Record] = changes.map { change in
            guard case .exchange(var exchange) = Golden.request.records[0] else { fatalError() }
            change(&exchange)
            return .exchange(exchange)
        }
        all.append(.connection(.init(cookie: 0)))
        let (contents, records) = try read(write(all))
        #expect(records.isEmpty && contents.malformedRecords == all.count)
    }

    /// Each change is to the last record of `request.hex`, of 72 bytes, or to its name, of 40 bytes.
    @Test(
        "parts that contradict each other, names that are not spelled and numbers beyond 64 bits are malformed",
        arguments: [
            (at: -72 + 4, bytes: [0]),  // no part
            (at: -72 + 4, bytes: [0x04]),  // an outcome, and no room for the rest
            (at: -72 + 4, bytes: [0x03]),  // a response beyond the record
            (at: -72 + 4, bytes: [0x41]),  // a long request beyond the record
            (at: -72 + 4, bytes: [0x81]),  // a long response that is no part
            (at: -72 + 4, bytes: [0x09]),  // phases without an outcome
            (at: -72 + 4, bytes: [0x21]),  // the first exchange, without an outcome
            (at: -72 + 6, bytes: [1]),  // a name that is not spelled
            (at: -72 + 6, bytes: [0xff, 0xff]),
            (at: -72 + 24, bytes: [UInt8](repeating: 0xff, count: 8)),  // time
            (at: -72 + 32, bytes: [UInt8](repeating: 0xff, count: 8)),  // place
            (at: -2, bytes: [1, 0x08]),  // interleaved, with fewer bytes of the socket than its own
        ] as [(at: Int, bytes: [UInt8])]
    )
    func contradictions(at place: Int, bytes changed: [UInt8]) throws {
        var bytes = try Golden.request.bytes()
        bytes[bytes.count - 1] = 0x08
        bytes[bytes.count + place..<bytes.count + place + changed.count] = changed[...]
        if place == -2 { bytes[bytes.count - 40 + 8] = 100 }
        let (contents, records) = try read(bytes)
        // With an outcome in place of the request, the rest of the record is a later version's.
        #expect(records.isEmpty == (changed != [0x04]))
        #expect(contents.malformedRecords == (changed == [0x04] ? 0 : 1))
    }

    @Test("a malformed name keeps its index, and the exchanges of other names are read")
    func malformedName() throws {
        let records = ["/a", "/b"].enumerated().map { index, route in
            Report.Record.exchange(Self.request(UInt64(index + 1), route: route))
        }
        for length: [UInt8] in [[0xff, 0xff], [100, 0], [1, 4]] {
            var bytes = write(records)
            bytes.replaceSubrange(24 + 4..<24 + 6, with: length)
            let (contents, rest) = try read(bytes)
            #expect(contents.malformedRecords == 2)
            #expect(rest == [records[1]])
        }
    }

    private static func request(_ number: UInt64, host: String = "h", route: String = "/") -> Report.Exchange {
        var exchange = Report.Exchange(number: number, name: .init(method: "GET", host: host, route: route))
        exchange.request = .init()
        return exchange
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
    var reader = ReportReader()
    let contents = try reader.read(bytes.span) { records.append(copy $0) }
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
