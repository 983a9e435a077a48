/// How a field's value is written, and so where it ends: the lowest three bits of a tag of Protocol Buffers.
enum WireType: UInt8 {
    case varint = 0
    case fixed64 = 1
    /// A length, and so many bytes.
    case length = 2
    case fixed32 = 5
}

/// The numbers of fields, by the keys of types: to look up a name for each field would take longer than all else.
struct KeyNumbers {
    /// By table, one for each type of keys, and there by ``CodingKey/place``; 0: not looked up yet.
    private var numbers: [[Int]] = []
    private var tableOfType: [ObjectIdentifier: Int] = [:]

    /// - Returns: The table of a type; `nil` if its keys are those of a dictionary.
    mutating func table<Key: CodingKey>(of type: Key.Type) -> Int? {
        if let table = self.tableOfType[ObjectIdentifier(type)] { return table }
        guard type.areFields else { return nil }
        self.numbers.append([])
        self.tableOfType[ObjectIdentifier(type)] = self.numbers.count - 1
        return self.numbers.count - 1
    }

    /// - Parameter lookUp: The number of a name, which is not 0.
    mutating func number(of key: some CodingKey, in table: Int, lookUp: (String) -> Int) -> Int {
        let place = key.place
        if place >= self.numbers[table].count {
            self.numbers[table] += repeatElement(0, count: place + 1 - self.numbers[table].count)
        }
        if self.numbers[table][place] == 0 { self.numbers[table][place] = lookUp(key.stringValue) }
        return self.numbers[table][place]
    }
}

extension CodingKey {
    /// Whether keys of this type are the fields of a structure, and not what a dictionary has for keys.
    static var areFields: Bool { MemoryLayout<Self>.size <= 1 }

    /// The place of a key among those of its type.
    ///
    /// The keys of a structure are an enumeration without associated values, of which the memory has the number of the case
    /// and nothing else.
    var place: Int { Swift.withUnsafeBytes(of: self) { $0.first.map(Int.init) ?? 0 } }
}

/// A cast that takes no time: only the same type passes.
@inline(__always)
func same<Value, Known>(_ value: Value, as type: Known.Type) -> Known? {
    Value.self == Known.self ? unsafeBitCast(value, to: type) : nil
}

/// The standard library asks for this only on behalf of classes, and of types that code themselves in unusual ways.
func unsupported(_ function: StaticString = #function) -> Never {
    fatalError("no type of the ledger needs \(function)")
}
