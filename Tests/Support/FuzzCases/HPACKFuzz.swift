import NIOCore
import NIOHPACK
public import TestSupport
import TrafficKitNIO

/// Header blocks of HTTP/2. Blocks of the writer must be read as they were written. Damaged blocks are compared with
/// NIOHPACK, also field by field. Both must read the same fields with the same bytes. Where NIOHPACK fails, the decoder
/// must fail too, and must read nothing from there on.
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
        var decoder = HTTP2FieldDecoder()
        for (number, block) in written.enumerated() {
            var fields: [HPACKWriter.Field] = []
            decoder.decode(block.bytes)?.forEach { fields.append(.init(name: $0, value: $1, bytes: $2)) }
            guard fields == block.fields else { return "block \(number) has \(block.fields), read \(fields)" }
        }
        return nil
    }

    private static func compare(_ blocks: [[UInt8]]) -> String? {
        var ours = HTTP2FieldDecoder()
        var (theirs, single) = (Self.decoder(), Self.decoder())
        var hasFailed = false
        for (number, block) in blocks.enumerated() {
            let found = ours.decode(block)
            guard !hasFailed else {
                if found != nil { return "block \(number) is read behind one that can't be" }
                continue
            }
            guard let fields = try? Self.decode(block[...], &theirs) else {
                if found != nil { return "block \(number) is read, and NIOHPACK does not" }
                hasFailed = true
                continue
            }
            guard let found else { return "block \(number) is not read, and NIOHPACK does" }
            var (same, bytes, sizes) = (true, 0, [Int]())
            found.forEach { name, value, count in
                same = same && sizes.count < fields.count && fields[sizes.count] == Field(name, value)
                sizes.append(Int(count))
                bytes += Int(count)
            }
            guard same, sizes.count == fields.count, bytes <= block.count else { return "block \(number) differs" }
            // Changes of the table's size come first, and belong to no field.
            var start = 0
            for (index, size) in sizes.enumerated() {
                let end = index == 0 ? block.count - bytes + size : start + size
                guard (try? Self.decode(block[start..<end], &single)) == [fields[index]] else {
                    return "field \(index) of block \(number) does not have \(size) bytes"
                }
                start = end
            }
            // A block without fields may still change the table.
            if sizes.isEmpty { _ = try? Self.decode(block[...], &single) }
        }
        return nil
    }

    private struct Field: Hashable {
        let (name, value): (String, String)

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
