import Testing

@testable import TrafficRecording

@Suite("Keyed digests")
struct KeyedDigestTests {
    /// RFC 4231, sections 4.2 to 4.8. That of 4.6 is cut to 128 bits there.
    private static let cases: [(key: [UInt8], text: [UInt8], code: String)] = [
        (
            Array(repeating: 0x0b, count: 20), Array("Hi There".utf8),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        ),
        (
            Array("Jefe".utf8), Array("what do ya want for nothing?".utf8),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        ),
        (
            Array(repeating: 0xaa, count: 20), Array(repeating: 0xdd, count: 50),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        ),
        (
            Array(1...25), Array(repeating: 0xcd, count: 50),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
        ),
        (
            Array(repeating: 0x0c, count: 20), Array("Test With Truncation".utf8),
            "a3b6167473100ee06e0c796c2955552b"
        ),
        (
            Array(repeating: 0xaa, count: 131), Array("Test Using Larger Than Block-Size Key - Hash Key First".utf8),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        ),
        (
            Array(repeating: 0xaa, count: 131),
            Array(
                """
                This is a test using a larger than block-size key and a larger than block-size data. The key needs to \
                be hashed before being used by the HMAC algorithm.
                """.utf8
            ),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        ),
    ]

    @Test("the codes are those of RFC 4231, also for a second text", arguments: Self.cases.indices)
    func vectors(_ index: Int) {
        let (key, text, code) = Self.cases[index]
        let digest = KeyedDigest(key: key)
        _ = digest.code(of: [1, 2, 3])
        let found = digest.code(of: text).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        #expect(found.hasPrefix(code) && found.count == 64)
    }

    @Test("a pseudonym of a key stays the same from version to version")
    func pseudonyms() {
        let pseudonyms = Pseudonyms(key: Array(0..<32))
        // As `openssl dgst -sha256 -mac HMAC` says it of "process\0nginx".
        #expect(pseudonyms.number(.process, "nginx") == 0x7006_82a6_2eaa_c0db)
    }
}
