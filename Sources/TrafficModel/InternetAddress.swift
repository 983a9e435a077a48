private import Glibc

/// An IPv4 or IPv6 address.
///
/// Stored as 16 bytes, with IPv4 in its v4-mapped form (RFC 4291 section 2.5.5.2). So a v4 peer of a socket on `::` is
/// the same address as on an IPv4 socket. Printed in dotted form or as RFC 5952 says.
public struct InternetAddress: Hashable, Sendable {
    /// Network byte order.
    public var bytes: InlineArray<16, UInt8>

    public init(bytes: InlineArray<16, UInt8>) {
        self.bytes = bytes
    }

    /// - Returns: `nil` where `text` is neither IPv4 nor IPv6. A zone (`%eth0`) is not accepted.
    public init?(_ text: String) {
        var bytes = InlineArray<16, UInt8>(repeating: 0)
        let parsed6 = unsafe withUnsafeMutableBytes(of: &bytes) {
            unsafe inet_pton(AF_INET6, text, $0.baseAddress)
        }
        if parsed6 != 1 {
            var four: UInt32 = 0
            guard unsafe inet_pton(AF_INET, text, &four) == 1 else { return nil }
            bytes = InlineArray(repeating: 0)
            bytes[10] = 0xff
            bytes[11] = 0xff
            for index in 0..<4 {
                bytes[12 + index] = UInt8(truncatingIfNeeded: UInt32(bigEndian: four) >> (24 - 8 * UInt32(index)))
            }
        }
        self.bytes = bytes
    }

    private var high: UInt64 { self.word(0) }
    private var low: UInt64 { self.word(8) }

    private func word(_ offset: Int) -> UInt64 {
        var word: UInt64 = 0
        for index in offset..<offset + 8 { word = word << 8 | UInt64(self.bytes[index]) }
        return word
    }

    /// The first `count` bits of the 16 bytes. The other bits are 0.
    package func prefix(_ count: Int) -> InternetAddress {
        var result = self
        for index in 0..<16 {
            let kept = max(0, min(8, count - index * 8))
            result.bytes[index] &= UInt8(truncatingIfNeeded: 0xff00 >> kept)
        }
        return result
    }

    public static func == (left: Self, right: Self) -> Bool {
        left.high == right.high && left.low == right.low
    }

    public func hash(into hasher: inout Hasher) {
        hasher.combine(self.high)
        hasher.combine(self.low)
    }

    /// IPv4, also if an IPv6 socket uses it.
    public var isIPv4: Bool { self.high == 0 && self.low >> 32 == 0xffff }

    /// `0.0.0.0` or `::`.
    public var isUnspecified: Bool { self.high == 0 && (self.low == 0 || self.low == 0xffff_0000_0000) }

    /// 127.0.0.0/8 (RFC 1122) or `::1` (RFC 4291).
    public var isLoopback: Bool {
        self.isIPv4 ? self.bytes[12] == 127 : self.high == 0 && self.low == 1
    }

    /// Addresses that stay inside a site: private (RFC 1918), shared (RFC 6598), link-local (RFC 3927, RFC 4291),
    /// unique local (RFC 4193), and multicast of at most site scope.
    public var isLocalArea: Bool {
        if self.isIPv4 {
            switch (self.bytes[12], self.bytes[13]) {
            case (10, _), (172, 16...31), (192, 168), (169, 254), (100, 64...127), (224...239, _), (255, _): return true
            default: return false
            }
        }
        switch self.bytes[0] {
        case 0xfc, 0xfd: return true
        case 0xfe: return self.bytes[1] & 0xc0 == 0x80
        case 0xff: return self.bytes[1] & 0x0f <= 5
        default: return false
        }
    }
}

extension InternetAddress: CustomStringConvertible {
    public var description: String {
        if self.isIPv4 {
            return "\(self.bytes[12]).\(self.bytes[13]).\(self.bytes[14]).\(self.bytes[15])"
        }
        var text = InlineArray<46, CChar>(repeating: 0)
        var bytes = self.bytes
        return unsafe withUnsafeMutableBytes(of: &text) { text in
            unsafe withUnsafeBytes(of: &bytes) { bytes in
                let start = unsafe text.baseAddress.unsafelyUnwrapped.assumingMemoryBound(to: CChar.self)
                _ = unsafe inet_ntop(AF_INET6, bytes.baseAddress, start, socklen_t(text.count))
                return unsafe String(cString: start)
            }
        }
    }
}

extension InternetAddress: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let address = InternetAddress(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an IP address: \(text)")
        }
        self = address
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}

/// One end of a socket.
public struct SocketAddress: Hashable, Sendable, Codable, CustomStringConvertible {
    public var address: InternetAddress
    public var port: UInt16

    public init(address: InternetAddress, port: UInt16) {
        self.address = address
        self.port = port
    }

    package enum CodingKeys: String, CodingKey {
        case address, port
    }

    /// `127.0.0.1:80`, `[::1]:80`; a port of 0 prints as `*`.
    public var description: String {
        let port = self.port == 0 ? "*" : String(self.port)
        return self.address.isIPv4 ? "\(self.address):\(port)" : "[\(self.address)]:\(port)"
    }
}
