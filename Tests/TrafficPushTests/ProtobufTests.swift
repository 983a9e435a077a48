import Testing

@testable import TrafficPush

@Suite("Fields of Protocol Buffers")
struct ProtobufTests {
    @Test("what was written is read, whatever comes between")
    func fields() {
        var inner = ProtobufMessage()
        inner.add(1, varint: .max)
        inner.add(2, "größe")
        var message = ProtobufMessage()
        message.add(3, fixed: 7)
        message.add(4, packed: [1, 2])
        message.add(1, inner)
        message.add(400, varint: 300)
        let fields = ProtobufFields(message.bytes)
        let found = fields.bytes(1).map { ProtobufFields($0) }
        #expect(found?.number(1) == .max && found?.bytes(2).map(Array.init) == Array("größe".utf8))
        #expect(fields.number(400) == 300 && fields.number(1) == nil && fields.bytes(2) == nil)
        // Cut anywhere: no more is read, and nothing else.
        for length in 0..<message.bytes.count {
            let cut = ProtobufFields(message.bytes.prefix(length))
            #expect(cut.bytes(1).map { Array($0) == inner.bytes } ?? true && cut.number(400) == nil)
        }
    }

    @Test(
        "what is no message ends the reading",
        arguments: [
            [0x0b], [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], Array(repeating: 0xff, count: 20),
            [0x0d, 1, 2], [0x09],
        ] as [[UInt8]]
    )
    func nonsense(bytes: [UInt8]) {
        let fields = ProtobufFields(bytes)
        #expect(fields.number(1) == nil && fields.bytes(1) == nil)
    }
}
