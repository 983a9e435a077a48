import Testing
import TrafficModel

@testable import TrafficLedger

/// A daemon must not read a checkpoint of another shape as its own. So a change of the shape needs a new version.
@Suite("Shape of the checkpoint")
struct CheckpointShapeTests {
    /// The version, and the shape that it has had from its beginning.
    private static let known: (version: UInt32, fingerprint: UInt64) = (17, 0xf400_fa4e_f9de_c80a)

    private static let shape = Result { try Self.walk() }

    private static func walk() throws -> [String] {
        let shape = Shape()
        // Several histories, so that all types occur. More would add nothing.
        for seed in UInt64(200)..<202 {
            var ledger = try CheckpointTests.ledger()
            for (index, event) in RandomEvents.events(seed: seed, rounds: 100).enumerated() {
                ledger.absorb(event)
                if index % 50 == 49 { try shape.add(ledger) }
            }
        }
        // More exchanges than a row keeps one by one.
        var fixture = LedgerFixture.reporting()
        fixture.report((1...40).map { .outcome($0, status: 200) })
        try shape.add(fixture.ledger)
        return shape.fields.sorted()
    }

    @Test("the shape is that of its version")
    func fingerprint() throws {
        let shape = try Self.shape.get()
        // FNV-1a.
        let fingerprint = shape.joined(separator: "\n").utf8
            .reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x0000_0100_0000_01b3 }
        let (version, known) = (Self.known.version, Self.known.fingerprint)
        #expect(
            CheckpointHeader.version == version && fingerprint == known,
            """
            The state of the ledger has another shape than version \(version) of the checkpoint. Raise \
            CheckpointHeader.version, and set `known` to the new version and 0x\(String(fingerprint, radix: 16)).
            """
        )
    }

    @Test("the shape has every type that the ledger consists of")
    func isWhole() throws {
        let types = Set(try Self.shape.get().compactMap { $0.split(separator: ".").first.map(String.init) })
        let expected = [
            "Absences", "Account", "AuditTallies", "AuditTally", "Budget<ProcessIdentity>", "ByteCounts",
            "Buckets<BodySizeScale>", "Buckets<DurationScale>",
            "ByteRanges",
            "CaptureLoss", "ClaimedRanges", "ClaimedSocket", "ClosedSockets", "Connection",
            "ConnectionStart",
            "CookieIndex", "Counters",
            "Coverage", "Departure", "DestinationTotals", "Disputed", "DurationTotals", "End",
            "Ended",
            "EndpointAccount", "EndpointAccounts", "EndpointName", "EndpointSeries", "EndpointSubject",
            "EndpointTotals", "Entry",
            "Exchange", "ExchangeTable", "Exited", "Given", "ForgottenSockets", "GroupAccounts", "GroupSeries",
            "Histogram<UInt64>", "Inquiries", "Interface", "InterfaceAccounts", "InterfaceAudit",
            "InterfaceEvidence", "InterfaceUsage", "Key", "LateSocket", "LateSockets", "Ledger", "ListedExchange",
            "Message",
            "MessageShare", "Moment", "Moved", "Name", "Numbering", "Open", "Outcome", "OwnEndpoints",
            "OwnerObservation", "PacketAccount", "Part", "Phases", "Place",
            "OverflowUsers", "ProcessAccount", "ProcessDetails", "ProcessGroup", "ProcessSeries", "ProcessTable",
            "RateMeter", "Record",
            "ReportAccounts", "ReportCounters", "Request", "RouteSeries", "Row", "SenderNumbers",
            "SeriesNames<EndpointSeries>", "SeriesNames<ProcessSeries>", "Service", "Share",
            "SocketAccount", "SocketClaims", "SocketEnds", "SocketObservation",
            "SocketTable",
            "SocketWire",
            "Summary", "TCPStream", "Waiting", "WaitingRecords", "Whole",
        ]
        #expect(Set(expected).subtracting(types) == [])
    }
}

/// The fields that an encoder sees: of which type, at which place, with which name, and what type each field has.
///
/// A set, because tables have any order and any length.
private final class Shape {
    private(set) var fields: Set<String> = []

    func add(_ ledger: Ledger) throws { try self.walk(ledger) }

    func note<Value>(_ place: String, _ type: Value.Type, _ suffix: String = "") {
        self.fields.insert("\(place): \(self.name(of: type))\(suffix)")
    }

    /// Remembered, because to make a name takes long.
    private var names: [ObjectIdentifier: String] = [:]

    private func name(of type: any Any.Type) -> String {
        if let name = self.names[ObjectIdentifier(type)] { return name }
        let name = "\(type)"
        self.names[ObjectIdentifier(type)] = name
        return name
    }

    func walk(_ value: some Encodable) throws {
        if value is any FixedWidthInteger || value is String || value is Bool || value is Double { return }
        try value.encode(to: ShapeEncoder(shape: self, type: self.name(of: type(of: value))))
    }
}

private struct ShapeEncoder: Encoder {
    let shape: Shape
    /// The type whose value is coded.
    let type: String
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]

    func container<Key>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        KeyedEncodingContainer(ShapeFields(shape: self.shape, type: self.type))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { ShapeElements(shape: self.shape, type: self.type) }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        ShapeElements(shape: self.shape, type: self.type)
    }
}

private struct ShapeFields<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let shape: Shape
    let type: String
    /// The next field's place.
    var index = 0
    var codingPath: [any CodingKey] { [] }

    init(shape: Shape, type: String) {
        (self.shape, self.type) = (shape, type)
    }

    private mutating func place(_ key: Key) -> String {
        self.index += 1
        return "\(self.type).\(self.index) \(key.stringValue)"
    }

    mutating func encodeNil(forKey key: Key) { self.shape.note(self.place(key), Never.self) }

    mutating func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        self.shape.note(self.place(key), Value.self)
        try self.shape.walk(value)
    }

    mutating func encodeIfPresent<Value: Encodable>(_ value: Value?, forKey key: Key) throws {
        self.shape.note(self.place(key), Value.self, "?")
        if let value { try self.shape.walk(value) }
    }

    mutating func nestedContainer<Nested>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(ShapeFields<Nested>(shape: self.shape, type: "\(self.type).\(key.stringValue)"))
    }

    mutating func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer {
        ShapeElements(shape: self.shape, type: self.place(key))
    }

    mutating func superEncoder() -> any Encoder { ShapeEncoder(shape: self.shape, type: self.type) }

    mutating func superEncoder(forKey key: Key) -> any Encoder { self.superEncoder() }

    // These have implementations of their own in the protocol.
    mutating func encodeIfPresent(_ value: Bool?, forKey key: Key) { self.shape.note(self.place(key), Bool.self, "?") }
    mutating func encodeIfPresent(_ value: Int?, forKey key: Key) { self.shape.note(self.place(key), Int.self, "?") }
    mutating func encodeIfPresent(_ value: Int64?, forKey key: Key) {
        self.shape.note(self.place(key), Int64.self, "?")
    }
    mutating func encodeIfPresent(_ value: UInt16?, forKey key: Key) {
        self.shape.note(self.place(key), UInt16.self, "?")
    }
    mutating func encodeIfPresent(_ value: UInt32?, forKey key: Key) {
        self.shape.note(self.place(key), UInt32.self, "?")
    }
    mutating func encodeIfPresent(_ value: UInt64?, forKey key: Key) {
        self.shape.note(self.place(key), UInt64.self, "?")
    }
    mutating func encodeIfPresent(_ value: Double?, forKey key: Key) {
        self.shape.note(self.place(key), Double.self, "?")
    }
    mutating func encodeIfPresent(_ value: String?, forKey key: Key) {
        self.shape.note(self.place(key), String.self, "?")
    }
}

private struct ShapeElements: UnkeyedEncodingContainer, SingleValueEncodingContainer {
    let shape: Shape
    let type: String
    var count = 0
    var codingPath: [any CodingKey] { [] }

    init(shape: Shape, type: String) {
        (self.shape, self.type) = (shape, type)
    }

    func encodeNil() {}

    func encode<Value: Encodable>(_ value: Value) throws {
        self.shape.note(self.type, Value.self)
        try self.shape.walk(value)
    }

    func nestedContainer<Nested>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        KeyedEncodingContainer(ShapeFields<Nested>(shape: self.shape, type: self.type))
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self }

    func superEncoder() -> any Encoder { ShapeEncoder(shape: self.shape, type: self.type) }
}
