import Foundation
import TestSupport
import Testing
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

/// A daemon of another version goes on with the sums of a ledger.
@Suite("Sums of the ledger for other versions")
struct LedgerSumsTests {
    private static func restored(_ ledger: Ledger) throws -> Ledger {
        try Ledger(
            sums: ledger.sums(),
            retention: CheckpointTests.retention,
            classes: try AddressClasses(CheckpointTests.classes)
        )
    }

    private static func balance(_ ledger: Ledger) -> Balance { CheckpointTests.Everything(ledger).balance }

    /// The number of listed processes is no sum. What no group has is in one sum. Endpoints and interfaces begin anew.
    private static func comparable(_ balance: Balance) -> Balance {
        var balance = balance
        (balance.endpoints, balance.interfaces) = ([], InterfaceTotals())
        for index in balance.groups.lives.indices { balance.groups.lives[index].processes = 0 }
        balance.groups.unowned += balance.groups.unknown
        balance.groups.unowned = balance.groups.unowned.settled
        balance.groups.unknown = ByteCounts()
        for index in balance.groups.lives.indices { balance.groups.lives[index].bytes.pendingSent = 0 }
        return balance
    }

    @Test("the sums are those of the ledger, and go on from there", arguments: 0..<12)
    func goOn(_ seed: UInt64) throws {
        let events = RandomEvents.events(seed: seed, rounds: 120)
        let quarter = events.count / 4
        var ledger = try CheckpointTests.ledger()
        for event in events[..<quarter] { ledger.absorb(event) }
        let earlier = (Self.balance(ledger), Self.balance(try Self.restored(ledger)))
        for event in events[quarter..<2 * quarter] { ledger.absorb(event) }
        var restored = try Self.restored(ledger)
        let balance = Self.balance(ledger)
        #expect(Self.balance(restored) == Self.comparable(balance))
        #expect(restored.loss == ledger.wholeLoss && restored.wholeLoss == ledger.wholeLoss)
        // A life that begins later has a number that none had.
        #expect(restored.processes.lastLife == ledger.processes.lastLife)
        // What history has of the time until then, it does not get again.
        let growth = Self.comparable(balance).growth(since: Self.comparable(earlier.0))
        #expect(Self.balance(restored).growth(since: earlier.1) == growth)

        // With another capture, which begins at 0, as in a ledger of its own.
        restored.changeCapture(uncountedNanoseconds: 5)
        var alone = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed + 100, rounds: 60) {
            restored.absorb(event)
            alone.absorb(event)
        }
        let (sum, own) = (Self.balance(restored), Self.balance(alone))
        #expect(sum.bytes.settled == (balance.bytes + own.bytes).settled)
        for (scope, bytes) in own.byScope {
            #expect(sum.byScope[scope]?.payload == ((balance.byScope[scope] ?? ByteCounts()) + bytes).payload)
        }
        for (name, bytes) in own.byClass {
            #expect(sum.byClass[name]?.payload == ((balance.byClass[name] ?? ByteCounts()) + bytes).payload)
        }
        #expect(restored.wholeLoss.uncountedNanoseconds == ledger.wholeLoss.uncountedNanoseconds + 5)
    }

    @Test("rows of ended processes have what the processes moved", arguments: 20..<26)
    func rows(_ seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 120) { ledger.absorb(event) }
        let restored = try Self.restored(ledger)
        let snapshot = CheckpointTests.Everything(restored).reading.snapshot
        #expect(snapshot.processes?.isEmpty == true && snapshot.sockets?.isEmpty == true)
        let groups = Self.balance(restored).groups
        let ended = (snapshot.exited ?? []).reduce(ByteCounts()) { $0 + $1.bytes }
        let moved = groups.lives.reduce(ByteCounts()) { $0 + $1.bytes }
        #expect(ended == groups.endedLives.values.reduce(moved, +))
        let before = CheckpointTests.Everything(ledger).reading.snapshot.exited ?? []
        #expect(snapshot.exited?.reduce(0) { $0 + $1.processes } == before.reduce(0) { $0 + $1.processes })
    }

    @Test("a user beyond the limit gives up groups of before the restore", arguments: 60..<64)
    func limits(_ seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 80) { ledger.absorb(event) }
        var restored = try Self.restored(ledger)
        for event in RandomEvents.events(seed: seed + 1, rounds: 80) { restored.absorb(event) }
        let groups = Self.balance(restored).groups.lives.map(\.group).filter { $0 != .other(of: $0.uid) }
        #expect(groups.count <= CheckpointTests.retention.groupLimit.inAll)
        for user in Dictionary(grouping: groups, by: \.uid).values {
            #expect(user.count <= CheckpointTests.retention.groupLimit.ofUser)
        }
    }

    private static func recording(_ name: String, _ ending: String) throws -> Data {
        let file = Bundle.module.url(forResource: name, withExtension: ending, subdirectory: "Recordings")
        return try Data(contentsOf: try #require(file))
    }

    @Test("sums that the first version wrote are read for ever: never change these files")
    func first() throws {
        let sums = try Ledger.Contents([UInt8](try Self.recording("sums", "checkpoint"))).sums
        var known = try JSONDecoder().decode(LedgerSums.self, from: try Self.recording("sums", "json"))
        // JSON rounds times.
        known.balance.takenAt = sums.balance.takenAt
        #expect(sums == known)
        let balance = sums.balance
        #expect(balance.bytes.wireSent ?? 0 > 0 && balance.byClass.count == 2 && balance.byScope.count > 2)
        #expect(balance.groups.lives.contains { $0.group.containerID != nil && $0.explained > 0 })
        #expect(balance.groups.endedLives.values.contains { $0.payload.total > 0 } && !sums.endedProcesses.isEmpty)
        #expect(sums.loss.ringFull > 0 && sums.loss.uncountedNanoseconds > 0)
    }

    @Test("a checkpoint that the first version wrote is read as a whole, as long as its version stays")
    func firstWhole() throws {
        try #require(CheckpointHeader.version == 1, "record it again")
        let bytes = [UInt8](try Self.recording("loopback", "checkpoint"))
        var ledger = Ledger()
        for event in try ReplayTests.load().events { ledger.absorb(event) }
        #expect(CheckpointTests.Everything(try Ledger(checkpoint: bytes)) == CheckpointTests.Everything(ledger))
    }

    /// Codes a ledger with one more field.
    private struct LaterLedger: Encodable {
        enum CodingKeys: CodingKey { case later, rowGeneration }

        let ledger: Ledger
        var key = CodingKeys.later

        func encode(to encoder: any Encoder) throws {
            try self.ledger.encode(to: encoder)
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(["text": [PayloadBytes(sent: 1)]], forKey: self.key)
        }
    }

    private static func checkpoint(_ sums: LedgerSums, _ ledger: some Encodable) throws -> [UInt8] {
        let encoder = CheckpointEncoder(after: CheckpointHeader.length)
        try encoder.write(sums, as: Ledger.Part.sums.rawValue)
        try encoder.write(ledger, as: Ledger.Part.ledger.rawValue)
        try encoder.write(encoder.names, as: Ledger.Part.names.rawValue)
        // A part that this program does not know at all.
        try encoder.write(["later"], as: 99)
        var bytes = encoder.takeBytes()
        CheckpointHeader.seal(&bytes)
        return bytes
    }

    @Test("a checkpoint of a later program, with further fields, is read as a whole", arguments: 30..<33)
    func moreFields(_ seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 80) { ledger.absorb(event) }
        let bytes = try Self.checkpoint(LedgerSums(ledger), LaterLedger(ledger: ledger))
        let restored = try Ledger(
            checkpoint: bytes,
            retention: CheckpointTests.retention,
            classes: try AddressClasses(CheckpointTests.classes)
        )
        #expect(CheckpointTests.Everything(restored) == CheckpointTests.Everything(ledger))
    }

    @Test("a checkpoint that has other values, or sums that are not those of its ledger, is read as its sums")
    func otherForm() throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: 34, rounds: 80) { ledger.absorb(event) }
        let sums = LedgerSums(ledger)
        let other = try Self.checkpoint(sums, LaterLedger(ledger: ledger, key: .rowGeneration))
        #expect(throws: CheckpointError.otherForm) { try Ledger(checkpoint: other) }
        #expect(try Ledger(sums: other).totals.payload == ledger.totals.payload)
        let changes: [(inout Balance) -> Void] = [
            { $0.bytes.payload.sent += 1 },
            { $0.byScope["loopback", default: ByteCounts()].payload.sent += 1 },
            { $0.groups.lives[0].bytes.payload.sent += 1 },
            { $0.groups.endedLives[7, default: ByteCounts()].payload.sent += 1 },
            { $0.groups.unknown.payload.sent += 1 },
            { $0.groups.unowned.payload.sent += 1 },
        ]
        for change in changes {
            var wrong = sums
            change(&wrong.balance)
            let bytes = try Self.checkpoint(wrong, ledger)
            #expect(throws: CheckpointError.otherSums) { try Ledger(checkpoint: bytes) }
            #expect(try Ledger(sums: bytes).totals.payload == wrong.balance.bytes.payload)
        }
    }

    @Test("any change of a byte, and any end, is found")
    func damage() throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: 7, rounds: 30) { ledger.absorb(event) }
        let bytes = ledger.sums()
        _ = try Ledger(sums: bytes)
        for length in 0..<bytes.count {
            #expect(throws: CheckpointError.self) { try Ledger(sums: Array(bytes[..<length])) }
        }
        // All but the version, which is for the rest of a checkpoint.
        for index in bytes.indices where !(8..<12).contains(index) {
            var bytes = bytes
            bytes[index] ^= 1 << UInt8(index % 8)
            #expect(throws: CheckpointError.self) { try Ledger(sums: bytes) }
        }
        // They are no ledger.
        #expect(throws: CheckpointError.otherForm) { try Ledger(checkpoint: bytes) }
    }
}
