import NIOCore
import NIOHPACK
import TestSupport

/// Writes header blocks of one direction, with a dynamic table (RFC 7541). Says which fields the blocks have, and how
/// many bytes each field takes.
struct HPACKWriter {
    struct Field: Hashable {
        let (name, value): (String, String)
        /// Bytes of the encoded field.
        let bytes: UInt64
    }

    private struct Entry {
        let (name, value): (String, String)

        /// RFC 7541 section 4.1.
        var size: Int { self.name.utf8.count + self.value.utf8.count + 32 }
    }

    /// Some entries of RFC 7541 appendix A.
    private static let known: [(index: Int, name: String, value: String)] = [
        (1, ":authority", ""), (2, ":method", "GET"), (3, ":method", "POST"), (4, ":path", "/"),
        (7, ":scheme", "https"),
        (8, ":status", "200"), (16, "accept-encoding", "gzip, deflate"), (32, "cookie", ""),
        (61, "www-authenticate", ""),
    ]
    private static let staticCount = 61

    private let words: HuffmanWords
    /// The newest comes first.
    private var table: [Entry] = []
    private var size = 0
    private var limit = 4_096
    private var block: [UInt8] = []

    init(_ words: HuffmanWords) { self.words = words }

    mutating func block(_ random: inout Seeded) -> (bytes: [UInt8], fields: [Field]) {
        self.block = []
        if random.isOne(in: 4) {
            for _ in 0..<random.number(1..<3) {
                self.resize(random.pick([0, 33, 70, 200, 4_095, 4_096, 4_097, 9_000]))
            }
        }
        var fields: [Field] = []
        for _ in 0..<random.number(0..<8) {
            let before = self.block.count
            let entry = self.addField(&random)
            fields.append(Field(name: entry.name, value: entry.value, bytes: UInt64(self.block.count - before)))
        }
        return (self.block, fields)
    }

    /// Writes these fields, each in one of the ways in which a peer may write it.
    mutating func block(of wanted: [(name: String, value: String)], _ random: inout Seeded) -> HTTP2Block {
        self.block = []
        if random.isOne(in: 8) { self.resize(random.pick([0, 70, 200, 4_096, 9_000])) }
        var fields: [Field] = []
        for (name, value) in wanted {
            let before = self.block.count
            self.add(name, value, &random)
            fields.append(Field(name: name, value: value, bytes: UInt64(self.block.count - before)))
        }
        return HTTP2Block(bytes: self.block, fields: fields)
    }

    private mutating func add(_ name: String, _ value: String, _ random: inout Seeded) {
        // Appendix A has some of these fields, and the dynamic table may have them.
        let kept = self.table.indices.map { (Self.staticCount + 1 + $0, self.table[$0].name, self.table[$0].value) }
        let sameName = (Self.known.map { ($0.index, $0.name, $0.value) } + kept).filter { $0.1 == name }
        let same = sameName.filter { $0.2 == value }
        if !same.isEmpty, !random.isOne(in: 4) { return self.add(random.pick(same).0, prefix: 7, 0x80) }
        let isKept = random.isOne(in: 2)
        let (prefix, mark): (Int, UInt8) = isKept ? (6, 0x40) : (4, random.pick([0, 0x10]))
        if sameName.isEmpty || random.isOne(in: 4) {
            self.add(0, prefix: prefix, mark)
            self.add(name, &random)
        } else {
            self.add(random.pick(sameName).0, prefix: prefix, mark)
        }
        self.add(value, &random)
        if isKept { self.keep(Entry(name: name, value: value)) }
    }

    private mutating func addField(_ random: inout Seeded) -> Entry {
        let known = random.pick(Self.known)
        var (index, entry) = (known.index, Entry(name: known.name, value: known.value))
        if !self.table.isEmpty, random.isOne(in: 2) {
            let place = random.isOne(in: 3) ? self.table.count - 1 : random.number(0..<self.table.count)
            (index, entry) = (Self.staticCount + 1 + place, self.table[place])
        }
        if random.isOne(in: 3) {
            self.add(index, prefix: 7, 0x80)
            return entry
        }
        // A literal. The table keeps every second literal.
        let isKept = random.isOne(in: 2)
        let (prefix, mark): (Int, UInt8) = isKept ? (6, 0x40) : (4, random.pick([0, 0x10]))
        var name = entry.name
        if random.isOne(in: 3) {
            self.add(0, prefix: prefix, mark)
            name = self.addString(&random)
        } else {
            self.add(index, prefix: prefix, mark)
        }
        // The value may be so long that the entry just fits beside the other entries, or is one byte too long.
        let room = self.limit - self.size - Entry(name: name, value: "").size
        let isFull = isKept && (0..<5_000).contains(room) && random.isOne(in: 4)
        let field = Entry(name: name, value: isFull ? self.add(room + random.number(0..<2)) : self.addString(&random))
        if isKept { self.keep(field) }
        return field
    }

    private mutating func resize(_ limit: Int) {
        self.add(limit, prefix: 5, 0x20)
        self.limit = limit
        self.evict(to: limit)
    }

    /// RFC 7541 section 4.4.
    private mutating func keep(_ entry: Entry) {
        self.evict(to: self.limit - entry.size)
        guard entry.size <= self.limit else { return }
        self.table.insert(entry, at: 0)
        self.size += entry.size
    }

    private mutating func evict(to size: Int) {
        while self.size > size, let entry = self.table.popLast() { self.size -= entry.size }
    }

    /// RFC 7541 section 5.1.
    private mutating func add(_ number: Int, prefix: Int, _ mark: UInt8) {
        let largest = 1 << prefix - 1
        guard number >= largest else { return self.block.append(mark | UInt8(number)) }
        self.block.append(mark | UInt8(largest))
        var rest = number - largest
        while rest >= 128 {
            self.block.append(UInt8(rest & 127 | 128))
            rest >>= 7
        }
        self.block.append(UInt8(rest))
    }

    /// RFC 7541 section 5.2.
    private mutating func addString(_ random: inout Seeded) -> String {
        if random.isOne(in: 2) {
            let word = random.pick(self.words.words)
            self.block += word.encoded
            return word.text
        }
        return self.add(random.pick([1, 12, 12, 126, 127, 128, 254, 255, 256, 383, 4_031, 4_064]))
    }

    /// RFC 7541 section 5.2: a text that may have Huffman's code.
    private mutating func add(_ text: String, _ random: inout Seeded) {
        if random.isOne(in: 2), let word = self.words.words.first(where: { $0.text == text }) {
            self.block += word.encoded
        } else {
            self.add(text.utf8.count, prefix: 7, 0)
            self.block += Array(text.utf8)
        }
    }

    private mutating func add(_ count: Int) -> String {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: count)
        self.add(count, prefix: 7, 0)
        self.block += text
        return String(decoding: text, as: UTF8.self)
    }
}

/// Words in Huffman's code, as NIOHPACK's encoder writes them.
struct HuffmanWords: Sendable {
    let words: [(text: String, encoded: [UInt8])]

    init() {
        self.words = ["www.example.com", "/a/b?c=d", "0", "no-cache", String(repeating: "~z%", count: 90)].map { text in
            var encoder = HPACKEncoder(allocator: ByteBufferAllocator())
            var buffer = ByteBuffer()
            // One field with a new name of one letter, so three bytes stand before the word.
            try? encoder.encode(headers: ["a": text], to: &buffer)
            return (text, Array(buffer.readableBytesView.dropFirst(3)))
        }
    }
}
