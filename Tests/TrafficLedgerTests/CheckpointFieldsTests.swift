import Foundation
import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

/// Which fields a checkpoint has. A program passes over fields that it does not know, and takes `nil`, 0 or empty for one
/// that is missing. So a field may come, but none may go, or be something else, without another version.
@Suite("Fields of the checkpoint")
struct CheckpointFieldsTests {
    /// `UPDATE_FIELDS=1 swift test` writes it again: a line for the version, and then one for each field.
    private static let file = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "CheckpointFields.txt")

    private static let fields = Result { try Self.walk() }

    private static func walk() throws -> (lines: [String], words: Set<String>) {
        let (fields, sums) = (Fields(), Fields())
        // Several histories, so that all fields occur. More would add nothing.
        for seed in UInt64(200)..<202 {
            var ledger = try CheckpointTests.ledger()
            for (index, event) in RandomEvents.events(seed: seed, rounds: 100).enumerated() {
                ledger.absorb(event)
                guard index % 200 == 199 else { continue }
                try fields.walk(ledger)
                try sums.walk(LedgerSums(ledger))
                try fields.walk(ledger.historySums)
            }
        }
        // More exchanges than a row keeps one by one.
        var fixture = LedgerFixture.reporting()
        fixture.report((1...40).map { .outcome($0, status: 200) })
        try fields.walk(fixture.ledger)
        // It takes a thousand endpoints to make this one.
        try fields.walk(OwnEndpoints.Whole.rest(.client))
        return (sums.known.map { "sums: \($0)" }.sorted() + fields.known.sorted(), fields.words)
    }

    @Test("every field of this version is still there, and is of the same type")
    func known() throws {
        let (now, words) = try Self.fields.get()
        if ProcessInfo.processInfo.environment["UPDATE_FIELDS"] != nil {
            let text = ["version \(CheckpointHeader.version)"] + now
            try (text.joined(separator: "\n") + "\n").write(to: Self.file, atomically: true, encoding: .utf8)
        }
        let known = try String(contentsOf: Self.file, encoding: .utf8).split(separator: "\n").map(String.init)
        let sums = Set(known).subtracting(now).filter { $0.hasPrefix("sums: ") }.sorted()
        #expect(sums == [], "every program reads the sums of every other: these must stay")
        try #require(known.first == "version \(CheckpointHeader.version)", "UPDATE_FIELDS=1 notes a new version")
        let gone = Set(known.dropFirst()).subtracting(now).sorted()
        #expect(gone == [], "a program of before needs these: raise CheckpointHeader.version, then UPDATE_FIELDS=1")
        let new = Set(now).subtracting(known).sorted()
        #expect(new == [], "UPDATE_FIELDS=1 notes new fields, which an earlier checkpoint has as nil, 0 or empty")
        let needed = new.filter { words.contains($0.split(separator: ": ").last.map(String.init) ?? "") }
        #expect(needed == [], "no word is in an earlier checkpoint: let these be optional")
    }

    @Test("all tables of the ledger are among them")
    func isWhole() throws {
        let fields = try Self.fields.get().lines
        let tables = [
            "SocketTable.accounts: Dictionary<UInt64, SocketAccount>",
            "SocketAccount.Share.payload: PayloadBytes",
            "LateSocket.socket: ClaimedSocket",
            "SocketClaims.sent: Coverage",
            "ByteRanges.ranges: Array<Range<UInt64>>",
            "ProcessAccount.exitedBoottime: UInt64?",
            "GroupAccounts.Account.exited: GroupAccounts.Exited",
            "DurationTotals.histogram: Histogram<UInt64>?",
            "ExchangeTable.Open.request: ContentPlace.Request?",
            "OwnEndpoints.Whole.row._0: Int",
            "InterfaceSums.ofSeries: Array<InterfaceCounts>",
            "ForgottenSockets.Disputed.socket: SocketAccount",
            "SocketObservation.stream: TCPStream?",
            "ByteCounts.wire_sent_bytes: UInt64?",
            "sums: LedgerSums.balance: Balance",
            "sums: ByteCounts.wire_sent_bytes: UInt64?",
            "FairQueue<ClosedSockets.Listed>.count: Int",
            "Budget<ProcessIdentity>.ofProcess: Dictionary<ProcessIdentity, Int>",
            "SeriesNames<ProcessSeries>.limit: Int",
            "Buckets<DurationScale>.counts: Array<UInt64>",
            "OwnEndpoints.Whole.rest._0: EndpointRole",
            "SocketState = established",
        ]
        #expect(Set(tables).subtracting(fields) == [])
    }
}

/// The fields that an encoder sees: of which type, with which name, and what type each field has.
private final class Fields {
    private(set) var known: Set<String> = []

    func note<Value>(_ place: String, _ type: Value.Type, _ suffix: String = "") {
        if type is any NotSaved.Type { return }
        if let words = type as? any CaseIterable.Type { self.note(words: words, self.name(of: type)) }
        // What a collection of the standard library has is in the type of the field.
        if Self.collections.contains(where: place.hasPrefix) { return }
        self.known.insert("\(place): \(self.name(of: type))\(suffix)")
    }

    private static let collections = ["Array<", "Deque<", "Dictionary<", "Optional<", "Range<", "Set<"]

    private func note<Words: CaseIterable>(words: Words.Type, _ name: String) {
        guard self.words.insert(name).inserted else { return }
        for word in words.allCases { self.known.insert("\(name) = \(word)") }
    }

    /// Types of which each value is a word.
    private(set) var words: Set<String> = []

    /// Remembered, because to make a name takes long.
    private var names: [ObjectIdentifier: String] = [:]

    /// Without modules, and without what makes the names of private types unique.
    private func name(of type: any Any.Type) -> String {
        if let name = self.names[ObjectIdentifier(type)] { return name }
        let name = String(reflecting: type)
            .replacing(/\(unknown context at \$[0-9a-f]+\)\./, with: "")
            .replacing(/\b(Swift|Traffic[A-Za-z]+|Histogram|DequeModule)\.(?=[A-Z])/, with: "")
        self.names[ObjectIdentifier(type)] = name
        return name
    }

    func walk(_ value: some Encodable) throws {
        if value is any FixedWidthInteger || value is String || value is Bool || value is Double { return }
        if value is Timestamp || value is InternetAddress { return }
        try value.encode(to: FieldEncoder(fields: self, type: self.name(of: type(of: value))))
    }
}

private struct FieldEncoder: Encoder {
    let fields: Fields
    /// The type whose value is coded.
    let type: String
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(FieldContainer(fields: self.fields, type: self.type))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        ElementContainer(fields: self.fields, type: self.type)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        ElementContainer(fields: self.fields, type: self.type)
    }
}

private struct FieldContainer<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let fields: Fields
    let type: String
    var codingPath: [any CodingKey] { [] }

    private func place(_ key: Key) -> String { Key.areFields ? "\(self.type).\(key.stringValue)" : self.type }

    private func note<Value>(_ type: Value.Type, _ key: Key) { self.fields.note(self.place(key), type, "?") }

    func encodeNil(forKey key: Key) {}

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        self.fields.note(self.place(key), Value.self)
        try self.fields.walk(value)
    }

    func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
        self.note(Value.self, key)
        if let value { try self.fields.walk(value) }
    }

    func nestedContainer<Nested>(keyedBy type: Nested.Type, forKey key: Key) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(FieldContainer<Nested>(fields: self.fields, type: self.place(key)))
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        ElementContainer(fields: self.fields, type: self.place(key))
    }

    func superEncoder() -> any Encoder { FieldEncoder(fields: self.fields, type: self.type) }

    func superEncoder(forKey key: Key) -> any Encoder { self.superEncoder() }

    // These have implementations of their own in the protocol.
    func encodeIfPresent(_ value: Bool?, forKey key: Key) { self.note(Bool.self, key) }
    func encodeIfPresent(_ value: Int?, forKey key: Key) { self.note(Int.self, key) }
    func encodeIfPresent(_ value: Int64?, forKey key: Key) { self.note(Int64.self, key) }
    func encodeIfPresent(_ value: UInt16?, forKey key: Key) { self.note(UInt16.self, key) }
    func encodeIfPresent(_ value: UInt32?, forKey key: Key) { self.note(UInt32.self, key) }
    func encodeIfPresent(_ value: UInt64?, forKey key: Key) { self.note(UInt64.self, key) }
    func encodeIfPresent(_ value: Double?, forKey key: Key) { self.note(Double.self, key) }
    func encodeIfPresent(_ value: String?, forKey key: Key) { self.note(String.self, key) }
}

private struct ElementContainer: UnkeyedEncodingContainer, SingleValueEncodingContainer {
    let fields: Fields
    let type: String
    var count: Int { 0 }
    var codingPath: [any CodingKey] { [] }

    func encodeNil() {}

    func encode<Value: Encodable>(_ value: Value) throws {
        self.fields.note(self.type, Value.self)
        try self.fields.walk(value)
    }

    func nestedContainer<Nested>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(FieldContainer<Nested>(fields: self.fields, type: self.type))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }

    func superEncoder() -> any Encoder { FieldEncoder(fields: self.fields, type: self.type) }
}
