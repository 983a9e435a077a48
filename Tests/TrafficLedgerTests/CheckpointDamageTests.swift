import TestSupport
import Testing
import TrafficModel

@testable import TrafficLedger

/// A checkpoint comes from a disk that may have been full, or from a program of another version.
@Suite("Damaged checkpoints")
struct CheckpointDamageTests {
    private static func checkpoint(seed: UInt64, rounds: Int) throws -> [UInt8] {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed, rounds: rounds) { ledger.absorb(event) }
        return ledger.checkpoint()
    }

    private static func fault(_ bytes: [UInt8]) -> CheckpointError? {
        do throws(CheckpointError) {
            _ = try Ledger(checkpoint: bytes)
            return nil
        } catch {
            return error
        }
    }

    /// With a header that fits the bytes.
    private static func sealed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        CheckpointHeader.seal(&bytes, as: .ledger)
        return bytes
    }

    @Test("other bytes are no checkpoint")
    func foreign() throws {
        for bytes in [[], [0], Array("trafficc".utf8), Array(repeating: UInt8(0), count: 10_000)] {
            #expect(Self.fault(bytes) == .notACheckpoint)
        }
    }

    @Test("a checkpoint of another version is refused, and the error says both versions")
    func otherVersion() throws {
        var bytes = Ledger().checkpoint()
        bytes[8] &+= 1
        let error = try #require(Self.fault(bytes))
        #expect(error == .otherVersion(CheckpointHeader.version + 1, known: CheckpointHeader.version))
        #expect(
            "\(error)".contains("\(CheckpointHeader.version + 1)")
                && "\(error)".contains("\(CheckpointHeader.version) only")
        )
    }

    @Test("a checkpoint that is cut off anywhere is refused")
    func cutOff() throws {
        let bytes = try Self.checkpoint(seed: 1, rounds: 4)
        for length in 0..<bytes.count {
            switch Self.fault(Array(bytes[..<length])) {
            case .notACheckpoint: #expect(length < 8)
            case .cutOff(let known, _): #expect(known == length && length >= 8)
            default: Issue.record("\(length) bytes")
            }
        }
        #expect(Self.fault(bytes + [0]) == .damaged)
        #expect(Self.fault(bytes) == nil)
    }

    @Test("any changed byte is found")
    func changed() throws {
        let bytes = try Self.checkpoint(seed: 2, rounds: 4)
        for index in bytes.indices {
            var damaged = bytes
            damaged[index] ^= 1 << UInt8(index % 8)
            #expect(Self.fault(damaged) != nil)
        }
    }

    @Test("the decoder refuses everything that ends early or goes on, and reads nothing beyond the end")
    func cutOffWithChecksum() throws {
        let bytes = try Self.checkpoint(seed: 3, rounds: 5)
        for length in stride(from: CheckpointHeader.headerLength, to: bytes.count, by: 7) {
            #expect(Self.fault(Self.sealed(Array(bytes[..<length]))) == .damaged)
        }
        #expect(Self.fault(Self.sealed(bytes + [0])) == .damaged)
    }

    @Test("the decoder takes any bytes for a ledger, or refuses them", arguments: 0..<4)
    func anyBytes(_ seed: UInt64) throws {
        let bytes = try Self.checkpoint(seed: 10 + seed, rounds: 5)
        var random = Seeded(seed)
        let fault = { (bytes: [UInt8]) in Self.fault(Self.sealed(bytes)) }
        var refused = 0
        for _ in 0..<400 {
            var damaged = bytes
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let index = Int.random(in: CheckpointHeader.headerLength..<bytes.count, using: &random)
                // Lengths and counts become as large as they can.
                damaged[index] = Bool.random(using: &random) ? 0xff : .random(in: 0 ... .max, using: &random)
            }
            let known = fault(damaged)
            #expect(known == nil || known == .damaged)
            refused += known == nil ? 0 : 1
        }
        #expect(refused > 0)
        for _ in 0..<400 {
            let length = Int.random(in: 0..<200, using: &random)
            let noise = (0..<CheckpointHeader.headerLength + length).map { _ in
                UInt8.random(in: 0 ... .max, using: &random)
            }
            #expect(fault(noise) == .damaged)
        }
    }

    @Test("a number of elements that the rest has no room for is refused at once")
    func hugeCounts() throws {
        let bytes = try Self.checkpoint(seed: 4, rounds: 4)
        for index in stride(from: CheckpointHeader.headerLength, to: bytes.count - 8, by: 11) {
            var damaged = bytes
            damaged.replaceSubrange(index..<index + 4, with: [0xff, 0xff, 0xff, 0x7f])
            _ = Self.fault(Self.sealed(damaged))
        }
    }
}

/// The coder alone.
@Suite("Coder of checkpoints")
struct CheckpointCoderTests {
    private struct Values: Codable, Hashable {
        enum Case: Hashable, Codable {
            case one(Int)
            case other(String, UInt8?)
        }

        var unsigned: [UInt64] = [0, 1, 127, 128, 300, 1 << 32, .max]
        var signed: [Int64] = [0, -1, 1, 63, -64, 64, .min, .max]
        var small: [Int8] = [.min, -1, 0, .max]
        var numbers: [UInt16] = [0, 127, 128, 16_383, 16_384, .max]
        var doubles: [Double] = [0, -0.0, 1.5, .infinity, .leastNonzeroMagnitude]
        var texts = ["", "é€🦊", "a\u{0}b", String(repeating: "x", count: 300)]
        var optionals: [UInt32?] = [nil, 0, 7, nil]
        var keys: [UInt32?: [String?]] = [nil: [nil, "x"], 3: []]
        var cases: [Case] = [.one(-5), .other("y", nil), .other("", 9)]
        var absent: Int?
        var present: String? = "z"
        var time = Timestamp(nanosecondsSinceEpoch: 1_700_000_000_123_456_789)
        var times: [Timestamp?] = [nil, Timestamp(nanosecondsSinceEpoch: .min)]
        var addresses = ["::", "0.0.0.0", "192.0.2.1", "2001:db8::1"].compactMap { InternetAddress($0) }
        var ranges = [UInt64(3)..<9, 0..<0]
        var bytes = ByteCounts(payload: PayloadBytes(sent: 1), pendingSent: 2, wireReceived: 3)
        var loss = CaptureLoss(ringFull: 1, readsFailed: 9)
        var flag = true
    }

    private static func decode<Value: Decodable>(_ type: Value.Type, from bytes: [UInt8]) throws -> Value {
        try CheckpointDecoder(bytes, from: 0).read(type)
    }

    @Test("values of all kinds come back")
    func values() throws {
        let encoder = CheckpointEncoder(after: 0)
        try encoder.write(Values())
        let bytes = encoder.takeBytes()
        let decoder = CheckpointDecoder(bytes, from: 0)
        #expect(try decoder.read(Values.self) == Values())
        #expect(decoder.isAtEnd)
        for length in bytes.indices {
            #expect(throws: DecodingError.self) { try Self.decode(Values.self, from: Array(bytes[..<length])) }
        }
    }

    @Test("a histogram comes back, and still grows with longer durations", arguments: [true, false])
    func histogram(_ isFine: Bool) throws {
        var totals = DurationTotals()
        for value in UInt64(1)...40 { totals.record(value * value * 37) }
        totals.makeHistogram(isFine: isFine)
        totals.record(80_000_000)
        let encoder = CheckpointEncoder(after: 0)
        try encoder.write(totals)
        var restored = try Self.decode(DurationTotals.self, from: encoder.takeBytes())
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
            let encoder = CheckpointEncoder(after: 0)
            try encoder.write(value)
            let bytes = encoder.takeBytes()
            #expect(try Self.decode(Value.self, from: bytes) == value)
            for length in bytes.indices {
                #expect(throws: DecodingError.self) { try Self.decode(Value.self, from: Array(bytes[..<length])) }
            }
        }
        try check(PayloadBytes(sent: 1, received: 300), fields: 2)
        try check(WireBytes(payload: 1, headers: 200, bare: 3, control: 400), fields: 4)
        let wire = WireBytes(payload: 7)
        try check(SocketWire(sent: wire, received: WireBytes(bare: 9), quality: .estimated), fields: 3)
        try check(WireTotals(sent: 1, received: .max), fields: 2)
        try check(PayloadRates(sent: 1.5, received: -2), fields: 2)
        try check(ProcessIdentity(pid: -7, startBoottimeNanoseconds: 300), fields: 2)
        let address = try #require(InternetAddress("2001:db8::1"))
        try check(address, fields: 1)
        try check(SocketAddress(address: address, port: 443), fields: 2)
        try check(Timestamp(nanosecondsSinceEpoch: -5), fields: 1)
    }

    @Test("what no encoder writes is refused")
    func impossible() {
        // A number with more bits than its type has, one that never ends, a length beyond the end, no UTF-8, no bool.
        #expect(throws: DecodingError.self) { try Self.decode([UInt16].self, from: [1, 0, 0, 0, 0xff, 0xff, 0x04]) }
        #expect(throws: DecodingError.self) {
            try Self.decode([UInt64].self, from: [1, 0, 0, 0] + Array(repeating: 0xff, count: 20))
        }
        #expect(throws: DecodingError.self) { try Self.decode([String].self, from: [1, 0, 0, 0, 5, 0x61]) }
        #expect(throws: DecodingError.self) { try Self.decode([String].self, from: [1, 0, 0, 0, 1, 0xff]) }
        #expect(throws: DecodingError.self) { try Self.decode([Bool].self, from: [1, 0, 0, 0, 2]) }
        #expect(throws: DecodingError.self) { try Self.decode([UInt8].self, from: [0xff, 0xff, 0xff, 0xff, 0, 0]) }
        #expect(throws: DecodingError.self) { try Self.decode([SocketScope].self, from: [1, 0, 0, 0, 1, 0x61]) }
    }
}
