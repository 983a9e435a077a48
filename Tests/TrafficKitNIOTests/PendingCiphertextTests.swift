import NIOCore
import Testing

@testable import TrafficKitNIO

@Suite("Ciphertext that the kernel has not taken")
struct PendingCiphertextTests {
    private static func writes(_ texts: String...) -> PendingCiphertext {
        var writes = PendingCiphertext()
        for text in texts { _ = writes.append(ByteBuffer(string: text)) }
        return writes
    }

    private static func take(_ writes: inout PendingCiphertext, before end: Int) -> [String] {
        var taken: [String] = []
        while let part = writes.removeFirst(before: end) { taken.append(String(buffer: part.buffer)) }
        return taken
    }

    @Test("a part counts when the kernel has taken all of it")
    func whole() {
        var writes = Self.writes("abc", "de", "f")
        #expect(Self.take(&writes, before: writes.taken(4)) == [])
        #expect(Self.take(&writes, before: writes.taken(3)) == ["abc"])
        #expect(Self.take(&writes, before: writes.taken(1)) == ["de"])
        #expect(Self.take(&writes, before: writes.taken(0)) == ["f"] && writes.isEmpty)
    }

    @Test("the last part of a flush has the plaintext of all parts since the flush before")
    func plaintext() {
        var writes = Self.writes("a", "b")
        writes.flush { 10 }
        writes.flush {
            Issue.record("there is no new part"); return 0
        }
        _ = writes.append(ByteBuffer(string: "c"))
        writes.flush { 5 }
        let plaintexts = (0..<3).map { _ in writes.removeFirst(before: .max)?.plaintext }
        #expect(plaintexts == [0, 10, 5])
    }

    @Test("code that is called for a part may write and count again: what was written then is not counted too early")
    func again() {
        var writes = Self.writes("a", "b")
        let end = writes.taken(0)
        #expect(writes.removeFirst(before: end).map { String(buffer: $0.buffer) } == "a")
        _ = writes.append(ByteBuffer(string: "later"))
        // The kernel has not taken the new part.
        #expect(Self.take(&writes, before: writes.taken(5)) == ["b"])
        #expect(Self.take(&writes, before: end) == [] && !writes.isEmpty)
    }

    @Test("a promise of a part that was dropped concerns no later part")
    func dropped() {
        var writes = Self.writes("a", "b")
        writes.drop()
        #expect(writes.isEmpty)
        let number = writes.append(ByteBuffer(string: "c"))
        #expect(Self.take(&writes, before: 2) == [])
        #expect(Self.take(&writes, before: number + 1) == ["c"])
    }
}
