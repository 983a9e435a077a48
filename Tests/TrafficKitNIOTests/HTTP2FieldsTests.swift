import NIOCore
import NIOHPACK
import Testing

@testable import TrafficKitNIO

@Suite("HPACK: the bytes of each field")
struct HTTP2FieldsTests {
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

    private static func array(_ fields: HTTP2Fields) -> [(name: String, value: String, bytes: UInt64)] {
        var array: [(name: String, value: String, bytes: UInt64)] = []
        fields.forEach { array.append(($0, $1, $2)) }
        return array
    }

    @Test("the decoder's memory keeps nothing of fields that must not be indexed", arguments: [6, 20_000])
    func forgets(length: Int) throws {
        let secret = String(repeating: "#", count: length)
        var headers = HPACKHeaders()
        headers.add(name: "authorization", value: secret, indexing: .neverIndexed)
        var (encoder, block) = (HPACKEncoder(allocator: ByteBufferAllocator()), ByteBuffer())
        try encoder.encode(headers: headers, to: &block)
        var decoder = HTTP2FieldDecoder()
        let bytes = Array(buffer: block)
        let decoded = decoder.decode(bytes)
        #expect(decoded.map { Self.array($0).map(\.value) } == [secret])
        let parts = Mirror(reflecting: decoder).children
        var buffer = try #require(parts.first { $0.label == "buffer" }?.value as? ByteBuffer)
        buffer.moveReaderIndex(to: 0)
        #expect(buffer.readableBytesView.allSatisfy { $0 == 0 } && buffer.capacity <= 32_768)
    }

    @Test("after a block that can't be decoded no further block is decoded: the table differs from the sender's")
    func latch() {
        var decoder = HTTP2FieldDecoder()
        // A literal `:path` that goes to the table, an index that does not exist, and the entry in the table.
        let secret = [0x44, 0x07] + Array("/secret".utf8)
        #expect(decoder.decode(secret) != nil && decoder.decode([0xbe]) != nil)
        #expect(decoder.decode([0xff, 0xff, 0x07]) == nil)
        #expect(decoder.decode([0xbe]) == nil && decoder.decode(secret) == nil)
    }

    @Test("the RFC's examples", arguments: [Self.plain, Self.huffman])
    func examples(_ examples: [(block: String, lengths: [UInt64])]) throws {
        var decoder = HTTP2FieldDecoder()
        for (block, lengths) in examples {
            let decoded = decoder.decode(Self.bytes(block))
            let fields = Self.array(try #require(decoded))
            #expect(fields.map(\.bytes) == lengths)
            #expect(fields.map(\.name).prefix(4) == [":method", ":scheme", ":path", ":authority"])
            #expect(fields[3].value == "www.example.com")
        }
    }

    @Test("for any output of NIOHPACK the lengths add up to the block, except changes of the table's size")
    func encoded() throws {
        var random = SystemRandomNumberGenerator()
        var (encoder, decoder) = (HPACKEncoder(allocator: ByteBufferAllocator()), HTTP2FieldDecoder())
        for round in 0..<2_000 {
            var headers = HPACKHeaders([(":method", "GET"), (":path", "/\(UInt8.random(in: 0...40, using: &random))")])
            for index in 0..<Int.random(in: 0...12, using: &random) {
                let value = String(repeating: "v", count: Int.random(in: 0...300, using: &random))
                let indexing: HPACKIndexing = [.indexable, .nonIndexable, .neverIndexed][index % 3]
                headers.add(name: "name-\(Int.random(in: 0...30, using: &random))", value: value, indexing: indexing)
            }
            var buffer = ByteBuffer()
            if round % 100 == 99 {
                try encoder.setDynamicTableSize(round % 200 == 99 ? 100 : 4_096)
            }
            try encoder.encode(headers: headers, to: &buffer)
            let block = Array(buffer.readableBytesView)
            let decoded = decoder.decode(block)
            let fields = Self.array(try #require(decoded))
            #expect(fields.map(\.name) == headers.map(\.name) && fields.map(\.value) == headers.map(\.value))
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
            #expect(HTTP2FieldLengths(of: block).reduce(0, +) <= UInt64(block.count))
            var decoder = HTTP2FieldDecoder()
            guard let fields = decoder.decode(block) else { continue }
            #expect(Self.array(fields).reduce(0) { $0 + $1.bytes } <= UInt64(block.count))
        }
    }
}
