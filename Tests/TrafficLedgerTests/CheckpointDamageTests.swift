import TestSupport
import Testing
import TrafficEvents
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

    /// What a daemon does with the sums of a checkpoint.
    private static func use(_ bytes: [UInt8]) {
        let since = Timestamp(nanosecondsSinceEpoch: 0)
        guard var ledger = try? Ledger(sums: bytes) else { return }
        let earlier = try? ledger.earlierBalance(bytes, countingSince: since)
        for second in UInt64(1)...3 {
            let boottime = (1_000_000 + second) * 1_000_000_000
            ledger.absorb(.tick(at: Timestamp(nanosecondsSinceEpoch: 0), boottimeNanoseconds: boottime))
        }
        _ = ledger.balance(countingSince: since).growth(since: earlier)
        _ = ledger.checkpoint()
    }

    /// With a header that fits the bytes.
    private static func sealed(_ bytes: [UInt8]) -> [UInt8] {
        var bytes = bytes
        CheckpointHeader.seal(&bytes)
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
        for length in stride(from: CheckpointHeader.length, to: bytes.count, by: 7) {
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
                let index = Int.random(in: CheckpointHeader.length..<bytes.count, using: &random)
                // Lengths and counts become as large as they can.
                damaged[index] = Bool.random(using: &random) ? 0xff : .random(in: 0 ... .max, using: &random)
            }
            let known = fault(damaged)
            Self.use(Self.sealed(damaged))
            #expect([nil, .damaged, .otherForm, .otherSums].contains(known))
            refused += known == nil ? 0 : 1
        }
        #expect(refused > 0)
        for _ in 0..<400 {
            let length = Int.random(in: 0..<200, using: &random)
            let noise = (0..<CheckpointHeader.length + length).map { _ in
                UInt8.random(in: 0 ... .max, using: &random)
            }
            #expect([.damaged, .otherForm].contains(fault(noise)))
        }
    }

    @Test("a length that the rest has no room for is refused at once")
    func hugeLengths() throws {
        let bytes = try Self.checkpoint(seed: 4, rounds: 4)
        for index in stride(from: CheckpointHeader.length, to: bytes.count - 8, by: 11) {
            var damaged = bytes
            damaged.replaceSubrange(index..<index + 5, with: [0xff, 0xff, 0xff, 0xff, 0x07])
            _ = Self.fault(Self.sealed(damaged))
        }
    }
}
