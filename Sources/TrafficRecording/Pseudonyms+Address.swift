import TrafficModel

extension Pseudonyms {
    /// An address of the same family and kind: loopback, of a private network, of the internet. A private one stays in its
    /// block. One of the internet becomes one of a block that nobody has: 240.0.0.0/4 (RFC 1112 section 4), 2001:db8::/32
    /// (RFC 3849). Addresses that are the same everywhere stay.
    func address(_ address: InternetAddress) -> InternetAddress {
        if address.isUnspecified || address.isLoopback { return address }
        var result = address
        let number = self.number(.address, address.description)
        guard address.isIPv4 else {
            self.replace(&result, number)
            return result
        }
        let kept: Int
        switch (address.bytes[12], address.bytes[13]) {
        // Groups of one network, such as that of multicast DNS, and the broadcast.
        case (224, 0) where address.bytes[14] == 0, (255, 255): return address
        case (10, _): kept = 8
        case (172, 16...31): kept = 12
        case (192, 168), (169, 254): kept = 16
        case (100, 64...127): kept = 10
        case (224...239, _): kept = 8
        default:
            // 255.x.x.x would be of the local area.
            result.bytes[12] = 240 + UInt8(number >> 32 & 7)
            kept = 8
        }
        let mask = UInt32.max >> UInt32(kept)
        var word: UInt32 = 0
        for index in 12..<16 { word = word << 8 | UInt32(result.bytes[index]) }
        word = word & ~mask | UInt32(truncatingIfNeeded: number) & mask
        for index in 0..<4 { result.bytes[12 + index] = UInt8(truncatingIfNeeded: word >> UInt32(24 - 8 * index)) }
        return result
    }

    private func replace(_ address: inout InternetAddress, _ number: UInt64) {
        let original = address
        switch (original.bytes[0], original.bytes[1]) {
        case (0xff, _):
            // A short number is a group that is the same everywhere. A long one may be made from an address.
            guard (2..<14).contains(where: { original.bytes[$0] != 0 }) else { return }
            for index in 2..<8 { address.bytes[index] = 0 }
        // The block and no more: the rest of a network's address can be its owner's.
        case (0xfc, _), (0xfd, _): for index in 1..<8 { address.bytes[index] = 0 }
        case (0xfe, 0x80...0xbf):
            address.bytes[1] = 0x80
            for index in 2..<8 { address.bytes[index] = 0 }
        default:
            let block: [UInt8] = [0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0]
            for (index, byte) in block.enumerated() { address.bytes[index] = byte }
        }
        for index in 0..<8 { address.bytes[8 + index] = UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * index)) }
    }
}
