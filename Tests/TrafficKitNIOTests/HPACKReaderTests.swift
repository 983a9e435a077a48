import NIOCore
import NIOHPACK
import Testing

@testable import TrafficKit

@Suite("HPACK: the bytes of each field")
struct HPACKReaderTests {
    /// RFC 7541 appendix C.3 and C.4: three requests on a connection, without and with Huffman coding.
    static let plain: [(block: String, lengths: [UInt64])] = [
        ("828684410f7777772e6578616d706c652e636f6d", [1, 1, 1, 17]),
        ("828684be58086e6f2d6361636865", [1, 1, 1, 1, 10]),
        (
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
            [1, 1, 1, 1, 25]
        ),
    ]
    static let huffman: [(block: String, lengths: [UInt64])] = [
        ("828684418cf1e3c2e5f23a6ba0ab90f4ff", [1, 1, 1, 14]), ("828684be5886a8eb10649cbf", [1, 1, 1, 1, 8]),
        ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", [1, 1, 1, 1, 20]),
    ]

    private static func bytes(_ hexadecimal: String) -> [UInt8] {
        stride(from: 0, to: hexadecimal.count, by: 2).map { offset in
            let start = hexadecimal.index(hexadecimal.startIndex, offsetBy: offset)
            return UInt8(hexadecimal[start..<hexadecimal.index(start, offsetBy: 2)], radix: 16)!
        }
    }

    private static func read(_ block: [UInt8], _ reader: inout HPACKReader) -> [HPACKReader.Field]? {
        var fields: [HPACKReader.Field] = []
        return reader.read(block.span) { fields.append(copy $0) } ? fields : nil
    }

    private static func block(_ fields: [(String, String, HPACKIndexing)]) throws -> [UInt8] {
        var headers = HPACKHeaders()
        for (name, value, indexing) in fields { headers.add(name: name, value: value, indexing: indexing) }
        var (encoder, block) = (HPACKEncoder(allocator: ByteBufferAllocator()), ByteBuffer())
        try encoder.encode(headers: headers, to: &block)
        return Array(buffer: block)
    }

    @Test(
        "the reader keeps nothing of fields that it does not need, and no query, even if the table has them",
        arguments: [HPACKIndexing.indexable, .nonIndexable, .neverIndexed],
        [6, 3_000]
    )
    func forgets(indexing: HPACKIndexing, length: Int) throws {
        // Their Huffman codes are longer, so the encoder may choose either form.
        for secret in [String(repeating: "#", count: length), String(repeating: "s3cret", count: length / 6)] {
            let names = ["authorization", "cookie", "set-cookie", "x-token"]
            let fields = names.map { ($0, secret, indexing) } + [(":path", "/a?\(secret)", indexing)]
            var reader = HPACKReader()
            let read = try #require(Self.read(try Self.block(fields), &reader))
            #expect(read.map(\.name) == [.other, .cookie, .cookie, .other, .path] && read.last?.text == "/a")
            // Reading the next string overwrites the memory of the last one.
            _ = Self.read([0x44, 0x01, UInt8(ascii: "/")], &reader)
            var memory = ""
            dump(reader, to: &memory)
            #expect(!memory.contains(secret))
        }
    }

    @Test("after a block that can't be read no further block is read: the table differs from the sender's")
    func latch() {
        var reader = HPACKReader()
        // A literal `:path` that goes to the table, an index that does not exist, and the entry in the table.
        let secret = [0x44, 0x07] + Array("/secret".utf8)
        #expect(Self.read(secret, &reader) != nil && Self.read([0xbe], &reader)?.map(\.text) == ["/secret"])
        #expect(Self.read([0xff, 0xff, 0x07], &reader) == nil)
        #expect(Self.read([0xbe], &reader) == nil && Self.read(secret, &reader) == nil)
    }

    @Test("the RFC's examples", arguments: [Self.plain, Self.huffman])
    func examples(_ examples: [(block: String, lengths: [UInt64])]) throws {
        var reader = HPACKReader()
        for (block, lengths) in examples {
            let fields = try #require(Self.read(Self.bytes(block), &reader))
            #expect(fields.map(\.bytes) == lengths)
            #expect(fields.map(\.name).prefix(4) == [.method, .pseudo, .path, .authority])
            #expect(fields[0].text == "GET" && fields[3].text == "www.example.com")
        }
    }

    @Test("for any output of NIOHPACK the lengths add up to the block, except changes of the table's size")
    func encoded() throws {
        var random = SystemRandomNumberGenerator()
        var (encoder, reader) = (HPACKEncoder(allocator: ByteBufferAllocator()), HPACKReader())
        for round in 0..<2_000 {
            let path = "/\(UInt8.random(in: 0...40, using: &random))"
            var headers = HPACKHeaders([(":method", "GET"), (":path", path)])
            for index in 0..<Int.random(in: 0...12, using: &random) {
                let value = String(repeating: "v", count: Int.random(in: 0...300, using: &random))
                let indexing: HPACKIndexing = [.indexable, .nonIndexable, .neverIndexed][index % 3]
                headers.add(name: "name-\(Int.random(in: 0...30, using: &random))", value: value, indexing: indexing)
            }
            headers.add(name: "content-length", value: "\(round)")
            var buffer = ByteBuffer()
            if round % 100 == 99 {
                try encoder.setDynamicTableSize(round % 200 == 99 ? 100 : 4_096)
            }
            try encoder.encode(headers: headers, to: &buffer)
            let block = Array(buffer.readableBytesView)
            let fields = try #require(Self.read(block, &reader))
            #expect(fields.count == headers.count && fields[1].text == path && fields.last?.number == UInt64(round))
            let rest = UInt64(block.count) - fields.reduce(0) { $0 + $1.bytes }
            #expect(rest == 0 || round % 100 == 99 && rest <= 3)
        }
    }

    @Test("20,000 random blocks: no crash, and no field longer than the block")
    func garbage() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let block = (0..<Int.random(in: 0...40, using: &random)).map { _ in
                UInt8.random(in: 0...255, using: &random)
            }
            var (reader, bytes) = (HPACKReader(), UInt64(0))
            _ = reader.read(block.span) { bytes += $0.bytes }
            #expect(bytes <= UInt64(block.count))
        }
    }
}
