import TrafficReport

/// Reads the header blocks of one direction of an HTTP/2 connection (RFC 7541): how long each field is, and the values
/// that matter for a message's bytes and its name.
///
/// The reader must read every block. If it left out one block, its table would differ from the sender's (RFC 7541
/// section 3), and it might take a secret for a path. Values that nobody needs are measured, never decoded.
package struct HPACKReader {
    /// The name of a field, as far as it matters.
    package enum Name: UInt8, Sendable {
        case other
        /// Another pseudo-field (RFC 9113 section 8.3).
        case pseudo
        case method, path, authority, host
        case status, contentLength, contentType, contentEncoding
        case cookie

        /// Compares bytes, because names are lower-case (RFC 9113 section 8.2.1).
        package init(_ name: Span<UInt8>) {
            self =
                switch name.count {
                case 4 where name.isEqual("host"): .host
                case 5 where name.isEqual(":path"): .path
                case 6 where name.isEqual("cookie"): .cookie
                case 7 where name.isEqual(":method"): .method
                case 7 where name.isEqual(":status"): .status
                case 10 where name.isEqual(":authority"): .authority
                case 10 where name.isEqual("set-cookie"): .cookie
                case 12 where name.isEqual("content-type"): .contentType
                case 14 where name.isEqual("content-length"): .contentLength
                case 16 where name.isEqual("content-encoding"): .contentEncoding
                default: name.count > 0 && name[0] == UInt8(ascii: ":") ? .pseudo : .other
                }
        }

        package var isPseudo: Bool {
            switch self {
            case .pseudo, .method, .path, .authority, .status: true
            default: false
            }
        }

        /// The value is kept as a text.
        package var isText: Bool {
            switch self {
            case .method, .path, .authority, .host: true
            default: false
            }
        }

        /// The value is read.
        var isWanted: Bool { self != .other && self != .pseudo && self != .cookie }
    }

    package struct Field: Hashable {
        package var name: Name
        /// Bytes of the field in the block.
        package var bytes: UInt64
        /// The status; the length, ``noLength`` if it is not a number; the raw value of the body's
        /// ``Report/ContentClass``; 1 if the body has a content coding. 0 for other names.
        package var number: UInt64
        /// A method, a target without its query, or a host. Empty for other names.
        package var text: String

        package init(name: Name, bytes: UInt64, number: UInt64, text: String) {
            (self.name, self.bytes, self.number, self.text) = (name, bytes, number, text)
        }
    }

    package static let noLength = UInt64.max

    /// The largest header list in bytes. Known libraries refuse much smaller lists already: above 16 kB, as a rule.
    private static let longestList = 1 << 20
    /// The largest size in bytes to which a receiver may let the sender's table grow. The reader must follow any size
    /// that the two sides agree on.
    package static let largestTable = 1 << 20
    /// Bytes of a kept text, at most, and of a value that is read as a number.
    private static let (longestText, longestNumber, longestName) = (8_192, 256, 16)

    /// A block can't be read: RFC 7541 calls all of these decoding errors.
    private struct Unreadable: Error {}

    private var table = HPACKTable()
    private var hasFailed = false
    /// The value of the current field, if its values are texts.
    private var text = ""
    /// The last text of each name that was not in a table. Connections send the same texts again and again.
    private var last = LastTexts()

    private struct LastTexts {
        var method = ""
        var path = ""
        var authority = ""
        var host = ""

        subscript(name: Name) -> String {
            get {
                switch name {
                case .method: self.method
                case .path: self.path
                case .authority: self.authority
                default: self.host
                }
            }
            set {
                switch name {
                case .method: self.method = newValue
                case .path: self.path = newValue
                case .authority: self.authority = newValue
                default: self.host = newValue
                }
            }
        }
    }

    package init() {}

    /// The size of the sender's table (RFC 7541 section 4.1).
    var tableBytes: Int { self.table.size }

    /// - Parameter take: Gets the fields in their order, also of a block that turns out to be wrong.
    /// - Returns: `false`: this is no header block. Then no later block can be read.
    package mutating func read(_ block: Span<UInt8>, _ take: (borrowing Field) -> Void) -> Bool {
        guard !self.hasFailed else { return false }
        do throws(Unreadable) {
            try self.readFields(block, take)
        } catch {
            self.hasFailed = true
        }
        return !self.hasFailed
    }

    @inline(__always)
    private mutating func readFields(_ block: Span<UInt8>, _ take: (borrowing Field) -> Void) throws(Unreadable) {
        var (index, listSize, changes) = (0, 0, 0)
        var hasFields = false
        while index < block.count {
            let (start, first) = (index, block[index])
            var entry: HPACKTable.Entry
            if first & 0x80 != 0 {
                entry = try self.entry(at: Self.integer(block, &index, prefix: 7))
                if entry.name.isText { self.text = self.table.text(of: entry) }
            } else if first & 0xe0 == 0x20 {
                // At most two changes of the table's size, at the beginning of a block (RFC 7541 section 4.2).
                let limit = try Self.integer(block, &index, prefix: 5)
                changes += 1
                guard limit <= Self.largestTable, !hasFields, changes <= 2 else { throw Unreadable() }
                self.table.resize(to: limit)
                continue
            } else {
                let isKept = first & 0x40 != 0
                let name = try Self.integer(block, &index, prefix: isKept ? 6 : 4)
                entry = try name == 0 ? self.name(block, &index) : self.entry(at: name)
                entry.valueBytes = try self.value(block, &index, &entry)
                if isKept { self.table.add(entry, self.text) }
            }
            hasFields = true
            listSize += entry.size
            guard listSize <= Self.longestList else { throw Unreadable() }
            let bytes = UInt64(index - start)
            if entry.name.isText {
                take(Field(name: entry.name, bytes: bytes, number: 0, text: self.text))
                self.text = ""
            } else {
                take(Field(name: entry.name, bytes: bytes, number: entry.number, text: ""))
            }
        }
    }

    private func entry(at index: Int) throws(Unreadable) -> HPACKTable.Entry {
        guard let entry = self.table.entry(at: index) else { throw Unreadable() }
        return entry
    }

    /// RFC 7541 section 5.1. A number of more than nine further bytes is refused, as by NIO.
    @inline(__always)
    private static func integer(_ block: Span<UInt8>, _ index: inout Int, prefix: Int) throws(Unreadable) -> Int {
        guard index < block.count else { throw Unreadable() }
        let mask = (1 << prefix) - 1
        var number = Int(block[index]) & mask
        index += 1
        guard number == mask else { return number }
        for shift in stride(from: 0, to: 63, by: 7) {
            guard index < block.count else { throw Unreadable() }
            let byte = block[index]
            index += 1
            let (sum, isOver) = number.addingReportingOverflow(Int(byte & 0x7f) << shift)
            guard !isOver else { throw Unreadable() }
            number = sum
            if byte & 0x80 == 0 { return number }
        }
        throw Unreadable()
    }

    /// The bytes of a string as they are in the block (RFC 7541 section 5.2).
    @inline(__always)
    private static func string(
        _ block: Span<UInt8>,
        _ index: inout Int
    ) throws(Unreadable) -> (place: Range<Int>, isHuffman: Bool) {
        guard index < block.count else { throw Unreadable() }
        let isHuffman = block[index] & 0x80 != 0
        let count = try Self.integer(block, &index, prefix: 7)
        guard count <= block.count - index else { throw Unreadable() }
        index += count
        return (index - count..<index, isHuffman)
    }

    private mutating func name(_ block: Span<UInt8>, _ index: inout Int) throws(Unreadable) -> HPACKTable.Entry {
        let (place, isHuffman) = try Self.string(block, &index)
        var name = Name.other
        let count = Self.decode(block.extracting(place), isHuffman, Self.longestName + 1) { name = Name($0) }
        // An empty name is no field name (RFC 9110 section 5.1).
        guard let count, count > 0 else { throw Unreadable() }
        return HPACKTable.Entry(name: name, nameBytes: UInt32(count))
    }

    /// Reads a wanted value into the entry or into `text`.
    ///
    /// - Returns: Bytes of the decoded value.
    private mutating func value(
        _ block: Span<UInt8>,
        _ index: inout Int,
        _ entry: inout HPACKTable.Entry
    ) throws(Unreadable) -> UInt32 {
        let (place, isHuffman) = try Self.string(block, &index)
        let bytes = block.extracting(place)
        let name = entry.name
        var (count, number) = (nil as Int?, UInt64(0))
        if !name.isWanted {
            count = isHuffman ? HPACKHuffman.shared.decode(bytes) { _ in } : bytes.count
        } else if name.isText {
            count = Self.decode(bytes, isHuffman, Self.longestText) { self.text = self.keep($0, name) }
        } else {
            count = Self.decode(bytes, isHuffman, Self.longestNumber) { number = Self.number($0, of: name) }
        }
        guard let count else { throw Unreadable() }
        entry.number = number
        return UInt32(count)
    }

    /// Hands over a decoded string, up to a limit.
    ///
    /// - Returns: Bytes of the whole decoded string. `nil`: it can't be decoded.
    @inline(__always)
    private static func decode(
        _ bytes: Span<UInt8>,
        _ isHuffman: Bool,
        _ limit: Int,
        _ body: (Span<UInt8>) -> Void
    ) -> Int? {
        guard isHuffman else {
            body(bytes.extracting(first: limit))
            return bytes.count
        }
        // The shortest code has five bits.
        return withUnsafeTemporaryAllocation(of: UInt8.self, capacity: min(limit, 2 * bytes.count)) { memory in
            var kept = 0
            let count = HPACKHuffman.shared.decode(bytes) { byte in
                guard kept < memory.count else { return }
                memory.initializeElement(at: kept, to: byte)
                kept &+= 1
            }
            if count != nil { body(UnsafeBufferPointer(rebasing: memory[..<kept]).span) }
            return count
        }
    }

    /// - Returns: The text of a value. A query is left out, because nobody needs it, and it may be a secret.
    private mutating func keep(_ value: Span<UInt8>, _ name: Name) -> String {
        var bytes = value
        if name == .path { bytes = bytes.extracting(0..<bytes.index(of: UInt8(ascii: "?"), in: bytes.indices)) }
        if bytes.isEqual(self.last[name]) { return self.last[name] }
        let text = String(bytes)
        if bytes.count <= 128, bytes.index(of: UInt8(ascii: "@"), in: bytes.indices) == bytes.count {
            self.last[name] = text
        }
        return text
    }

    /// - Returns: What a value says, as ``Field/number``.
    package static func number(_ value: Span<UInt8>, of name: Name) -> UInt64 {
        switch name {
        case .status: UInt16(decimal: value).map { UInt64($0) } ?? 0
        case .contentLength: UInt64(decimal: value) ?? Self.noLength
        case .contentType: UInt64(Report.ContentClass(mediaType: value).rawValue)
        case .contentEncoding: value.isEmpty || value.isEqual(ignoringCase: "identity") ? 0 : 1
        default: 0
        }
    }
}
