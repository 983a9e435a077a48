import CLibmd

/// HMAC with SHA-256 (RFC 2104): for one key, and any number of texts.
struct KeyedDigest: Sendable {
    /// After the key. Each text goes on from copies.
    private var inner = SHA2_CTX()
    private var outer = SHA2_CTX()

    init(key: [UInt8]) {
        let block = Int(SHA256_BLOCK_LENGTH)
        var key = key
        if key.count > block {
            var long = SHA2_CTX()
            SHA256Init(&long)
            SHA256Update(&long, key, key.count)
            key = Self.end(&long)
        }
        key += repeatElement(0, count: block - key.count)
        SHA256Init(&self.inner)
        SHA256Update(&self.inner, key.map { $0 ^ 0x36 }, block)
        SHA256Init(&self.outer)
        SHA256Update(&self.outer, key.map { $0 ^ 0x5c }, block)
    }

    /// - Returns: 32 bytes, which only the key and the text decide.
    func code(of text: [UInt8]) -> [UInt8] {
        var (inner, outer) = (self.inner, self.outer)
        SHA256Update(&inner, text, text.count)
        let digest = Self.end(&inner)
        SHA256Update(&outer, digest, digest.count)
        return Self.end(&outer)
    }

    private static func end(_ context: inout SHA2_CTX) -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
        SHA256Final(&digest, &context)
        return digest
    }
}
