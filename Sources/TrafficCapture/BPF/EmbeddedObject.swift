import CZlib

/// The BPF objects that BPFBuildPlugin compiled from `bpf/`, as ELF.
package enum EmbeddedObject: CaseIterable {
    /// The counters are in the kernel's socket storage.
    case storage
    /// The counters are in a hash, by the address of the socket.
    case hash

    /// As bpfembed writes it: compressed, because an object takes a megabyte of the program otherwise.
    struct Compressed {
        /// Of the object, in bytes.
        var size: Int
        /// RFC 1950.
        var hexadecimal: StaticString
    }

    package func elf() -> [UInt8] {
        let object =
            switch self {
            case .storage: embeddedTrafficObject
            case .hash: embeddedHashObject
            }
        let compressed = Self.bytes(of: object.hexadecimal)
        return Array(unsafeUninitializedCapacity: object.size) { buffer, count in
            var size = uLong(object.size)
            let status = uncompress(buffer.baseAddress, &size, compressed, uLong(compressed.count))
            // The build wrote both numbers, so nothing that happens to a daemon can change this.
            precondition(status == Z_OK && size == object.size, "zlib can't read the embedded BPF object: \(status)")
            count = object.size
        }
    }

    /// By pointers, because a debug build takes a second of a processor for the same by collections.
    private static func bytes(of text: StaticString) -> [UInt8] {
        let (digits, size) = (text.utf8Start, text.utf8CodeUnitCount / 2)
        return Array(unsafeUninitializedCapacity: size) { buffer, count in
            guard let bytes = buffer.baseAddress else { return }
            while count < size {
                bytes[count] = Self.value(digits[2 &* count]) &<< 4 | Self.value(digits[2 &* count &+ 1])
                count &+= 1
            }
        }
    }

    /// - Parameter digit: `0` to `9` or `a` to `f`; the letters have bit 6, and their lower bits count from 1.
    private static func value(_ digit: UInt8) -> UInt8 { digit & 15 &+ digit &>> 6 &* 9 }
}
