import Foundation
import TestSupport
import Testing
import TrafficModel

@testable import TrafficLedger

@Suite("Coder of checkpoints")
struct CheckpointCoderTests {
    private struct Values: Codable, Hashable {
        enum Case: Hashable, Codable {
            case one(Int)
            case other(String, UInt8?)
            case none
        }

        var unsigned: [UInt64] = [0, 1, 127, 128, 300, 1 << 32, .max]
        var signed: [Int64] = [0, -1, 1, 63, -64, 64, .min, .max]
        var short: [Int32] = [.min, -1, 0, .max]
        var small: [Int8] = [.min, -1, 0, .max]
        var floats: [Float] = [0, -1.25, .greatestFiniteMagnitude]
        var numbers: [UInt16] = [0, 127, 128, 16_383, 16_384, .max]
        var doubles: [Double] = [0, -0.0, 1.5, .infinity, .leastNonzeroMagnitude]
        var texts = ["", "é€🦊", "a\u{0}b", String(repeating: "x", count: 300), String(repeating: "y", count: 20_000)]
        var optionals: [UInt32?] = [nil, 0, 7, nil]
        var keys: [UInt32?: [UInt16?]] = [nil: [nil, 9], 3: []]
        var byName = ["": 1, "é": 2]
        var byNumber = [-7: "x", 0: ""]
        var cases: [Case] = [.one(-5), .other("y", nil), .other("", 9), .none]
        var absent: Int?
        var present: String? = ""
        var zero: UInt64? = 0
        var list: [UInt8]? = []
        var time = Timestamp(nanosecondsSinceEpoch: 1_700_000_000_123_456_789)
        var times: [Timestamp?] = [nil, Timestamp(nanosecondsSinceEpoch: .min)]
        var addresses = ["::", "0.0.0.0", "192.0.2.1", "2001:db8::1"].compactMap { InternetAddress($0) }
        var ranges = [UInt64(3)..<9, 0..<0]
        var bytes = ByteCounts(payload: PayloadBytes(sent: 1), pendingSent: 2, wireReceived: 3)
        var loss = CaptureLoss(ringFull: 1, readsFailed: 9)
        var scopes: [SocketScope: Set<UInt64>] = [.loopback: [1, 2], .sameHost: []]
        var flag = true
    }

    private static func encode(_ value: some Encodable) throws -> (bytes: [UInt8], names: [String]) {
        let encoder = CheckpointEncoder()
        try encoder.write(value, as: 1)
        let names = encoder.names
        return (encoder.takeBytes(), names)
    }

    private static func decode<Value: Decodable>(
        _ type: Value.Type = Value.self,
        _ bytes: [UInt8],
        names: [String] = []
    ) throws -> Value {
        let decoder = CheckpointDecoder(bytes)
        try decoder.setNames(names)
        let fields = try decoder.topFields(from: 0)
        guard let field = fields[1] else { throw CheckpointError.damaged }
        return try decoder.read(Value.self, field)
    }

    /// As another program would read it.
    private static func recoded<Value: Decodable>(_ value: some Encodable, as type: Value.Type) throws -> Value {
        let (bytes, names) = try Self.encode(value)
        return try Self.decode(type, bytes, names: names)
    }

    @Test("values of all kinds come back, and no part of them is a whole")
    func values() throws {
        let (bytes, names) = try Self.encode(Values())
        #expect(try Self.decode(Values.self, bytes, names: names) == Values())
        for length in bytes.indices {
            #expect(throws: (any Error).self) {
                try Self.decode(Values.self, Array(bytes[..<length]), names: names)
            }
        }
    }

    @Test("protoc finds the same fields")
    func protoc() async throws {
        struct Message: Codable {
            struct Inner: Codable {
                var number: UInt64 = 150
                var text = "testing"
            }

            var inner = Inner()
            var signed: Int32 = -3
            var list: [UInt64] = [3, 270, 86_942]
            var nothing: UInt64?
            var double = 1.0
            var inners = [Inner(number: 1, text: "a"), Inner(number: 2, text: "b")]
        }
        let (bytes, names) = try Self.encode(Message())
        #expect(names == ["inner", "number", "text", "signed", "list", "double", "inners"])
        let output = try await Tool.run("protoc", ["--decode_raw"], input: Data(bytes)).output
        let expected = """
            1 {
              1 {
                2: 150
                3: "testing"
              }
              4: 5
              5 {
                1: 3
                1: 270
                1: 86942
              }
              6: 0x3ff0000000000000
              7 {
                1 {
                  2: 1
                  3: "a"
                }
                1 {
                  2: 2
                  3: "b"
                }
              }
            }

            """
        #expect(output == expected)
    }

    private enum Later {
        struct Totals: Codable, Hashable {
            var name: String
            var later: [String: [UInt64]] = ["x": [1, 2, 3]]
            var sent: UInt64
            var parts: [Part]
            var more = Part(sent: 7)
            var kind: Kind = .wide(2)
        }

        struct Part: Codable, Hashable {
            var note = "later"
            var sent: UInt64
            var times: [Double] = [1, 2]
        }

        enum Kind: Codable, Hashable {
            case plain
            case wide(Int)
        }
    }

    private enum Earlier {
        struct Totals: Codable, Hashable {
            var sent: UInt64
            var received: UInt64 = 0
            var parts: [Part]
            var name: String
            var limit: Int?
            var users: [UInt32: String] = [:]
        }

        struct Part: Codable, Hashable {
            var sent: UInt64
        }
    }

    @Test("a program passes over fields that it does not know, wherever they are, and has 0 for those that are missing")
    func otherFields() throws {
        let later = Later.Totals(name: "n", sent: 5, parts: [.init(sent: 1), .init(sent: 2)])
        let earlier = Earlier.Totals(sent: 5, parts: [.init(sent: 1), .init(sent: 2)], name: "n")
        #expect(try Self.recoded(later, as: Earlier.Totals.self) == earlier)

        struct Known: Codable, Hashable {
            var name: String
            var sent: UInt64
            var later: [String: [UInt64]]
            var parts: [Later.Part]
        }
        let restored = try Self.recoded(earlier, as: Known.self)
        let parts = [1, 2].map { Later.Part(note: "", sent: $0, times: []) }
        #expect(restored == Known(name: "n", sent: 5, later: [:], parts: parts))
        // A case that this program does not know is no value at all.
        enum Kind: Codable { case plain }
        #expect(throws: DecodingError.self) { try Self.recoded([Later.Kind.wide(1)], as: [Kind].self) }
    }

    @Test("a histogram comes back, and still grows with longer durations", arguments: [true, false])
    func histogram(_ isFine: Bool) throws {
        var totals = DurationTotals()
        for value in UInt64(1)...40 { totals.record(value * value * 37) }
        totals.makeHistogram(isFine: isFine)
        totals.record(80_000_000)
        var restored = try Self.recoded(totals, as: DurationTotals.self)
        #expect(restored.usage == totals.usage)
        for value in [UInt64(3), 70_000, 9_000_000_000, .max] {
            totals.record(value)
            restored.record(value)
        }
        #expect(restored.usage == totals.usage && restored.usage?.count == 45)
    }

    @Test("types that the coder codes itself come back with all their fields")
    func knownTypes() throws {
        func check<Value: Codable & Equatable>(_ value: Value, fields: Int) throws {
            #expect(Mirror(reflecting: value).children.count == fields, "\(Value.self) has other fields than the coder")
            #expect(try Self.recoded(value, as: Value.self) == value)
        }
        try check(PayloadBytes(sent: 1, received: 300), fields: 2)
        try check(WireBytes(payload: 1, headers: 200, bare: 3, control: 400), fields: 4)
        try check(WireTotals(sent: 1, received: .max, estimated: 300), fields: 3)
        try check(PayloadRates(sent: 1.5, received: -2), fields: 2)
        try check(ProcessIdentity(pid: -7, startBoottimeNanoseconds: 300), fields: 2)
        let address = try #require(InternetAddress("2001:db8::1"))
        try check(address, fields: 1)
        try check(SocketAddress(address: address, port: 443), fields: 2)
        try check(Timestamp(nanosecondsSinceEpoch: -5), fields: 1)
        // The order of the numbers.
        #expect(try Self.decode(PayloadBytes.self, [0x0a, 2, 5, 6]) == PayloadBytes(sent: 5, received: 6))
        #expect(try Self.decode(WireTotals.self, [0x0a, 2, 5, 6]) == WireTotals(sent: 5, received: 6))
        let wire = WireBytes(payload: 5, headers: 6, bare: 7, control: 8)
        #expect(try Self.decode(WireBytes.self, [0x0a, 4, 5, 6, 7, 8]) == wire)
        let process = ProcessIdentity(pid: 5, startBoottimeNanoseconds: 6)
        #expect(try Self.decode(ProcessIdentity.self, [0x0a, 2, 5, 6]) == process)
        let sent = [0x0a, 10, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xf8, 0x3f, 0] as [UInt8]
        #expect(try Self.decode(PayloadRates.self, sent) == PayloadRates(sent: 1, received: 0))
        let https = [0x0a, 18] + [UInt8](repeating: 0, count: 10) + [0xff, 0xff, 192, 0, 2, 1, 1, 187]
        #expect(try Self.decode(SocketAddress.self, https).description == "192.0.2.1:443")
        // What a later program adds to one, and what an earlier one lacks.
        #expect(try Self.decode(PayloadBytes.self, [0x0a, 3, 5, 6, 7]) == PayloadBytes(sent: 5, received: 6))
        #expect(try Self.decode(PayloadBytes.self, [0x0a, 1, 5]) == PayloadBytes(sent: 5))
    }

    @Test("what no encoder writes is refused")
    func impossible() {
        /// A list with this element.
        func list(_ element: [UInt8]) -> [UInt8] { [0x0a, UInt8(element.count)] + element }
        // 70,000 as 16 bits, a number of more than 64 bits, one that never ends, 2 as a Bool.
        #expect(throws: DecodingError.self) { try Self.decode([UInt16].self, list([8, 0xf0, 0xa2, 4])) }
        let long = [8] + [UInt8](repeating: 0xff, count: 9)
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list(long + [2])) }
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list(long)) }
        #expect(throws: DecodingError.self) { try Self.decode([Bool].self, list([8, 2])) }
        // A text beyond the end, one that is no UTF-8, a word that there is not, an address of 4 bytes.
        #expect(throws: DecodingError.self) { try Self.decode([String].self, list([10, 5, 0x61])) }
        #expect(throws: DecodingError.self) { try Self.decode([String].self, list([10, 1, 0xff])) }
        #expect(throws: DecodingError.self) { try Self.decode([SocketScope].self, list([10, 1, 0x61])) }
        #expect(throws: DecodingError.self) { try Self.decode([InternetAddress].self, list([10, 4, 1, 2, 3, 4])) }
        // A number where a text should be, a text where a number should be, an element with another number, a type of
        // field that is not used, and a field without a name.
        #expect(throws: DecodingError.self) { try Self.decode([String].self, list([8, 1])) }
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list([10, 1, 0x61])) }
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list([16, 1])) }
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list([13, 1, 2, 3, 4])) }
        #expect(throws: DecodingError.self) { try Self.decode(ByteCounts.self, list([8, 1])) }
        // The same name twice, and too many names.
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list([]), names: ["a", "a", "b"]) }
        let many = (0...CheckpointDecoder.mostNames).map { "\($0)" }
        #expect(throws: DecodingError.self) { try Self.decode([UInt64].self, list([]), names: many) }
    }
}
