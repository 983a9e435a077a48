/// The BPF object that BPFBuildPlugin compiled from `bpf/`, as ELF.
package enum EmbeddedObject {
    package static func elf() -> [UInt8] {
        let digits = UnsafeBufferPointer(
            start: embeddedTrafficObject.utf8Start,
            count: embeddedTrafficObject.utf8CodeUnitCount
        )
        return (0..<digits.count / 2).map { value(digits[2 * $0]) << 4 | value(digits[2 * $0 + 1]) }
    }

    private static func value(_ digit: UInt8) -> UInt8 {
        digit < UInt8(ascii: "a") ? digit - UInt8(ascii: "0") : digit - UInt8(ascii: "a") + 10
    }
}
