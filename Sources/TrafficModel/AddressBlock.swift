/// All addresses that begin with the same bits: `10.0.0.0/8`, `2001:db8::/32`, or one address alone.
///
/// IPv4 and IPv6 are apart: `0.0.0.0/0` is all of IPv4, `::/0` all of IPv6, though in 16 bytes one lies within the other.
public struct AddressBlock: Hashable, Sendable {
    /// The lowest address: every bit beyond the prefix is 0.
    public let first: InternetAddress
    /// In bits of the 16 bytes, so 96 more than an IPv4 prefix is written with.
    let bits: Int

    /// The block that an address lies in.
    ///
    /// - Parameter bits: Of the 16 bytes. `nil` for what is no prefix: more than 128, or fewer than the 96 that make an address IPv4.
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

    /// As it is written: 0 to 32 for IPv4, 0 to 128 for IPv6.
    public var prefixLength: Int { self.first.isIPv4 ? self.bits - 96 : self.bits }

    /// An unspecified address (`::`, no other end) lies in no block.
    public func contains(_ address: InternetAddress) -> Bool {
        self.first.isIPv4 == address.isIPv4 && !address.isUnspecified && self.first == address.prefix(self.bits)
    }
}

extension AddressBlock {
    /// Why a text is no block.
    public enum Fault: Error, Hashable, Sendable {
        /// Neither IPv4 nor IPv6. Zones (`fe80::1%eth0`) and shortened ones (`10/8`) are not either.
        case address(String)
        /// Not a number, or more bits than the address has.
        case prefixLength(String, longest: Int)
        /// The address goes on beyond the prefix, so one of the two is a slip.
        case hostBits(block: AddressBlock, address: InternetAddress)
        /// `0.0.0.0` or `::` alone: nobody's address, so likely the length was forgotten.
        case unspecified(InternetAddress)
    }

    /// - Parameter text: `10.0.0.0/8`, `2001:db8::/32` (RFC 4632, RFC 4291), or an address alone. A v4-mapped address is IPv4, and its
    ///   length counts as it is written: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
    public init(_ text: some StringProtocol) throws(Fault) {
        let (block, address) = try Self.parse(text)
        guard block.first == address else { throw .hostBits(block: block, address: address) }
        guard block.bits < 128 || !address.isUnspecified else { throw .unspecified(address) }
        self = block
    }

    /// The same, for people who look for something: `10.1.2.3/8` is the block around that address.
    ///
    /// - Returns: `nil` where ``init(_:)`` has any other fault to find.
    init?(around text: String) {
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
        // An IPv4 prefix counts from the address's own first bit, which is the 97th of the 16 bytes.
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
    /// `10.0.0.0/8`; one address without a length.
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
