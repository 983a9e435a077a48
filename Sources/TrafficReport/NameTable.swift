/// The names that a datagram has spelled so far. A name that is used again costs no look at its texts.
struct NameTable: Sendable {
    private static let slotCount = 512

    /// The index of a name, by its number. Two names may share a slot: then the datagram spells the first again when it
    /// comes again, which a reader allows. An index of an earlier datagram names another name now, or none.
    private var slots = [UInt16](repeating: 0, count: Self.slotCount)
    /// In the order of their records. The table keeps them alive.
    private var names: [Report.Name] = []

    func index(of name: borrowing Report.Name) -> UInt16? {
        let index = self.slots[name.number & (Self.slotCount - 1)]
        guard Int(index) < self.names.count, self.names[Int(index)].isSpelled(as: name) else { return nil }
        return index
    }

    /// - Returns: The index of the name. A datagram has room for some three thousand names.
    mutating func add(_ name: Report.Name) -> UInt16 {
        let index = UInt16(truncatingIfNeeded: self.names.count)
        self.names.append(name)
        self.slots[name.number & (Self.slotCount - 1)] = index
        return index
    }

    mutating func removeAll() { self.names.removeAll(keepingCapacity: true) }
}

/// Names that earlier datagrams have spelled, so that their texts are made once.
///
/// The memory is limited: a name takes the place of another name with the same slot. A hostile sender can make the
/// reader make all names anew, which costs time only.
struct NameMemory: Sendable {
    private static let slotCount = 1_024

    private struct Known: Sendable {
        var record: [UInt8]
        /// `nil`: the record's strings do not fit.
        var name: Report.Name?
    }

    private let naming: @Sendable (Report.Name) -> Report.Name
    private var slots = [Known?](repeating: nil, count: Self.slotCount)

    init(naming: @escaping @Sendable (Report.Name) -> Report.Name) {
        self.naming = naming
    }

    /// - Parameter record: The whole record.
    /// - Returns: `nil` if the strings do not fit.
    mutating func name(of record: Span<UInt8>) -> Report.Name? {
        let slot = record.withUnsafeBytes(Layout.hash) & (Self.slotCount - 1)
        if let known = self.slots[slot], record.equals(known.record) { return known.name }
        let name = Report.Name(record: record).map(self.naming)
        // If the record is as this module writes it, its bytes are kept once.
        let bytes = name.flatMap { record.equals($0.record) ? $0.record : nil }
        // A record may be longer than its name: later versions may add to it, and a hostile sender may add anything.
        guard record.count <= Layout.longestName else { return name }
        self.slots[slot] = Known(record: bytes ?? record.withUnsafeBytes { Array($0) }, name: name)
        return name
    }
}

extension Report.Name {
    /// Whether both names have the same bytes in a datagram.
    fileprivate func isSpelled(as other: borrowing Report.Name) -> Bool {
        self.isIdentical(to: other) || (self.number == other.number && self.record == other.record)
    }

    /// Reads a record of a name. Bytes that are not UTF-8 are replaced; a text that becomes too long is cut.
    ///
    /// - Returns: `nil` if the strings do not fit.
    fileprivate init?(record: Span<UInt8>) {
        var reader = ByteReader(at: Layout.recordHeadLength)
        let lengths = (0..<3).map { _ in Int(reader.number(record) as UInt16) }
        guard lengths.allSatisfy({ $0 <= Layout.longestString }),
            Layout.nameLength + lengths.reduce(0, +) <= record.count
        else { return nil }
        var start = Layout.nameLength
        let texts = lengths.map { length in
            defer { start += length }
            return record.extracting(start..<start + length).withUnsafeBytes {
                Layout.cut(String(decoding: $0, as: UTF8.self))
            }
        }
        self.init(method: texts[0], host: texts[1], route: texts[2])
    }
}
