/// A frame (RFC 9113 section 4.1), as a peer writes it.
struct HTTP2Frame {
    /// RFC 9113 section 6.
    enum Kind: UInt8 {
        case data = 0, headers, priority, reset, settings, pushPromise, ping, goAway, windowUpdate, continuation
    }

    enum Flag {
        /// Also the acknowledgement of settings and of a ping.
        static let endStream: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4
        static let padded: UInt8 = 0x8
        static let priority: UInt8 = 0x20
    }

    /// What makes it impossible to read on.
    enum Fault {
        /// No frame of this kind may be here.
        case header
        /// The padding is longer than the frame, or the header block is longer than the library keeps.
        case content
    }

    let type: UInt8
    var flags: UInt8 = 0
    let stream: UInt32
    /// The bytes between the header and the content.
    var prefix: [UInt8] = []
    var content: [UInt8] = []
    var padding = 0
    /// The fields of the block that ends with this frame.
    var fields: [HPACKWriter.Field]?
    var fault: Fault?

    init(_ type: UInt8, _ stream: UInt32, flags: UInt8 = 0, _ content: [UInt8] = []) {
        (self.type, self.stream, self.flags, self.content) = (type, stream, flags, content)
    }

    init(_ kind: Kind, _ stream: UInt32, flags: UInt8 = 0, _ content: [UInt8] = []) {
        self.init(kind.rawValue, stream, flags: flags, content)
    }

    var kind: Kind? { Kind(rawValue: self.type) }

    func has(_ flag: UInt8) -> Bool { self.flags & flag != 0 }

    static let headerBytes = 9

    var count: Int { Self.headerBytes + self.prefix.count + self.content.count + self.padding }

    var bytes: [UInt8] {
        let length = self.count - Self.headerBytes
        var bytes = [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), self.type, self.flags]
        bytes += Self.bytes(of: self.stream) + self.prefix + self.content
        return bytes + [UInt8](repeating: 0, count: self.padding)
    }

    static func bytes(of number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: number >> $0) }
    }
}

/// A header block, and what is in it.
struct HTTP2Block {
    let bytes: [UInt8]
    let fields: [HPACKWriter.Field]
}
