/// The BPF objects that BPFBuildPlugin compiled from `bpf/`, as ELF.
package enum EmbeddedObject: CaseIterable {
    /// The counters are in the kernel's socket storage.
    case storage
    /// The counters are in a hash, by the address of the socket.
    case hash

    package func elf() -> [UInt8] {
        let text =
            switch self {
            case .storage: embeddedTrafficObject
            case .hash: embeddedHashObject
            }
        let digits = UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        return (0..<digits.count / 2).map { Self.value(digits[2 * $0]) << 4 | Self.value(digits[2 * $0 + 1]) }
    }

    private static func value(_ digit: UInt8) -> UInt8 {
        digit < UInt8(ascii: "a") ? digit - UInt8(ascii: "0") : digit - UInt8(ascii: "a") + 10
    }
}
