import NIOCore
import NIOHPACK
public import TestSupport
import TrafficKit

/// Header blocks of HTTP/2. Blocks of the writer must be read as they were written. Damaged blocks are compared with
/// NIOHPACK, also field by field. Both must read the same fields with the same bytes, as far as the reader keeps them.
/// Where NIOHPACK fails, the reader must fail too, and must read nothing from there on.
public struct HPACKFuzz: FuzzSubject {
    public static let name = "hpack"

    private let connections = Traffic.headerBlocks()
    private let words = HuffmanWords()
    private static let dictionary: [[UInt8]] = [
        [0x82], [0xbe], [0xbf], [0xff, 0x00], [0x20], [0x3f, 0x09], [0x3f, 0xe1, 0x1f], [0x40, 0x01, 0x61, 0x01, 0x62],
        [0x00, 0x01, 0x61, 0x00], [0x10, 0x00, 0x00], [0x44, 0x02, 0x2f, 0x61], [0x7f, 0xff, 0xff, 0xff, 0x7f], [0x80],
        [0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        var blocks = random.pick(self.connections)
        if random.isOne(in: 2) {
            var writer = HPACKWriter(self.words)
            let written = (0..<random.number(1..<12)).map { _ in writer.block(&random) }
            blocks = written.map { $0.bytes }
            if let text = Self.unread(written) { return "\(text): \(blocks.map(\.escaped))" }
        }
        for index in blocks.indices where random.isOne(in: 4) {
            random.mutate(&blocks[index], Self.dictionary, changes: random.number(1..<4))
        }
        if random.isOne(in: 8) { blocks.shuffle(using: &random) }
        return Self.compare(blocks).map { "\($0): \(blocks.map(\.escaped))" }
    }

    /// - Returns: What differs from what was written.
    private static func unread(_ written: [(bytes: [UInt8], fields: [HPACKWriter.Field])]) -> String? {
        var reader = HPACKReader()
        for (number, block) in written.enumerated() {
            let fields = Self.read(block.bytes, &reader)
            let expected = block.fields.map { HPACKReader.Field(name: $0.name, value: $0.value, bytes: $0.bytes) }
            guard fields == expected else { return "block \(number) has \(expected), read \(fields ?? [])" }
        }
        return nil
    }

    private static func read(_ block: [UInt8], _ reader: inout HPACKReader) -> [HPACKReader.Field]? {
        var fields: [HPACKReader.Field] = []
        return reader.read(block.span) { fields.append(copy $0) } ? fields : nil
    }

    private static func compare(_ blocks: [[UInt8]]) -> String? {
        var ours = HPACKReader()
        var (theirs, single) = (Self.decoder(), Self.decoder())
        var hasFailed = false
        for (number, block) in blocks.enumerated() {
            let found = Self.read(block, &ours)
            guard !hasFailed else {
                if found != nil { return "block \(number) is read behind one that can't be" }
                continue
            }
            guard let fields = try? Self.decode(block[...], &theirs) else {
                if let found {
                    let isText = Self.isText(block, found.map { Int($0.bytes) }, &single)
                    return isText ? "block \(number) is read, and NIOHPACK does not" : nil
                }
                hasFailed = true
                continue
            }
            let isText = fields.allSatisfy(\.isText)
            guard let found else { return isText ? "block \(number) is not read, and NIOHPACK does" : nil }
            guard isText else { return nil }
            let expected = zip(fields, found).map {
                HPACKReader.Field(name: $0.name, value: $0.value, bytes: $1.bytes)
            }
            let bytes = found.reduce(0) { $0 + Int($1.bytes) }
            guard found == expected, found.count == fields.count, bytes <= block.count else {
                return "block \(number) differs"
            }
            // Changes of the table's size come first, and belong to no field.
            var start = 0
            for (index, field) in found.enumerated() {
                let size = Int(field.bytes)
                let end = index == 0 ? block.count - bytes + size : start + size
                guard (try? Self.decode(block[start..<end], &single)) == [fields[index]] else {
                    return "field \(index) of block \(number) does not have \(size) bytes"
                }
                start = end
            }
            // A block without fields may still change the table.
            if found.isEmpty { _ = try? Self.decode(block[...], &single) }
        }
        return nil
    }

    /// NIOHPACK replaces bytes that are not UTF-8. Its table then has other sizes than the sender's.
    ///
    /// - Returns: Whether the fields that NIOHPACK can read one by one are UTF-8.
    private static func isText(_ block: [UInt8], _ sizes: [Int], _ decoder: inout HPACKDecoder) -> Bool {
        var start = 0
        for (index, size) in sizes.enumerated() {
            let end = index == 0 ? block.count - sizes.reduce(0, +) + size : start + size
            guard let fields = try? Self.decode(block[start..<end], &decoder) else { return true }
            guard fields.allSatisfy(\.isText) else { return false }
            start = end
        }
        return true
    }

    private struct Field: Hashable {
        let (name, value): (String, String)

        var isText: Bool { !(self.name.unicodeScalars + self.value.unicodeScalars).contains("\u{fffd}") }

        init(_ name: String, _ value: String) { (self.name, self.value) = (name, value) }
    }

    private static func decoder() -> HPACKDecoder {
        var decoder = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
            maxHeaderListSize: 1 << 20
        )
        decoder.maxDynamicTableLength = 1 << 20
        return decoder
    }

    private static func decode(_ block: ArraySlice<UInt8>, _ decoder: inout HPACKDecoder) throws -> [Field] {
        var buffer = ByteBuffer(bytes: block)
        return try decoder.decodeHeaders(from: &buffer).map { Field($0.name, $0.value) }
    }
}

extension HPACKReader.Field {
    /// - Parameter value: The whole value.
    fileprivate init(name: String, value: String, bytes: UInt64) {
        let kind = HPACKReader.Name(name.utf8.span)
        let kept = kind == .path ? String(value.prefix { $0 != "?" }) : value
        self.init(
            name: kind,
            bytes: bytes,
            number: HPACKReader.number(value.utf8.span, of: kind),
            text: kind.isText ? String(decoding: kept.utf8.prefix(8_192), as: UTF8.self) : ""
        )
    }
}
