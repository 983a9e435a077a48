/// All addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.
///
/// IPv4 and IPv6 are apart: `0.0.0.0/0` is all of IPv4 and `::/0` is all of IPv6, although in 16 bytes the first block
/// lies within the second.
public struct AddressBlock: Hashable, Sendable {
    /// The lowest address: every bit beyond the prefix is 0.
    public let first: InternetAddress
    /// The prefix length in bits of the 16 bytes. For IPv4, this is 96 more than the written length.
    let bits: Int

    /// The block that contains `address`.
    ///
    /// - Parameter bits: Counted in the 16 bytes. The result is `nil` for an impossible prefix: more than 128 bits, or
    ///   for an IPv4 address fewer than 96.
    init?(around address: InternetAddress, bits: Int) {
        guard (address.isIPv4 ? 96...128 : 0...128).contains(bits) else { return nil }
        self.first = address.prefix(bits)
        self.bits = bits
    }

    /// One address.
    public init(_ address: InternetAddress) {
        self.first = address
        self.bits = 128
    }

    /// The prefix length as written: 0 to 32 for IPv4, 0 to 128 for IPv6.
    public var prefixLength: Int { self.first.isIPv4 ? self.bits - 96 : self.bits }

    /// No block contains an unspecified address (`::`, no other end).
    public func contains(_ address: InternetAddress) -> Bool {
        self.first.isIPv4 == address.isIPv4 && !address.isUnspecified && self.first == address.prefix(self.bits)
    }
}

extension AddressBlock {
    /// Why a text is no block.
    public enum Fault: Error, Hashable, Sendable {
        /// Neither IPv4 nor IPv6. Zones (`fe80::1%eth0`) and shortened addresses (`10/8`) are not accepted either.
        case address(String)
        /// Not a number, or more bits than the address has.
        case prefixLength(String, longest: Int)
        /// The address has bits beyond the prefix, so the address or the length is probably a mistake.
        case hostBits(block: AddressBlock, address: InternetAddress)
        /// `0.0.0.0` or `::` without a length. This is nobody's address, so the length was probably forgotten.
        case unspecified(InternetAddress)
    }

    /// - Parameter text: `10.0.0.0/8`, `2001:db8::/32` (RFC 4632, RFC 4291), or an address alone. A v4-mapped address
    ///   is IPv4, but its length counts as written: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
    public init(_ text: some StringProtocol) throws(Fault) {
        let (block, address) = try Self.parse(text)
        guard block.first == address else { throw .hostBits(block: block, address: address) }
        guard block.bits < 128 || !address.isUnspecified else { throw .unspecified(address) }
        self = block
    }

    /// The same, for people who search for something: `10.1.2.3/8` is the block that contains this address.
    ///
    /// - Returns: `nil` if ``init(_:)`` would throw ``Fault/address(_:)`` or ``Fault/prefixLength(_:longest:)``.
    package init?(around text: String) {
        guard let (block, _) = try? Self.parse(text) else { return nil }
        self = block
    }

    private static func parse(
        _ text: some StringProtocol
    ) throws(Fault) -> (block: AddressBlock, address: InternetAddress) {
        let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        let written = String(parts[0])
        guard let address = InternetAddress(written) else { throw .address(String(text)) }
        guard parts.count == 2 else { return (AddressBlock(address), address) }
        // An IPv4 prefix counts from the first bit of the IPv4 address, which is bit 97 of the 16 bytes.
        let isDotted = address.isIPv4 && !written.contains(":")
        let longest = isDotted ? 32 : 128
        let digits = parts[1].utf8
        guard (1...3).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }),
            let length = Int(parts[1]), length <= longest,
            let block = AddressBlock(around: address, bits: isDotted ? length + 96 : length)
        else {
            throw .prefixLength(String(text), longest: longest)
        }
        return (block, address)
    }
}

extension AddressBlock: CustomStringConvertible {
    /// `10.0.0.0/8`; a single address without a length.
    public var description: String {
        self.bits == 128 ? "\(self.first)" : "\(self.first)/\(self.prefixLength)"
    }
}

extension AddressBlock.Fault: CustomStringConvertible {
    public var description: String {
        switch self {
        case .address(let text):
            "'\(text)' is not an address or a prefix such as 10.0.0.0/8 or 2001:db8::/32"
        case .prefixLength(let text, let longest):
            "'\(text)' has no prefix length of 0 to \(longest)"
        case .unspecified(let address):
            "\(address) is nobody's address: write \(address)/0 for all there are"
        case .hostBits(let block, let address):
            "\(address)/\(block.prefixLength) goes on beyond its prefix: write \(block) for the whole block, or \(address) for the one address"
        }
    }
}
