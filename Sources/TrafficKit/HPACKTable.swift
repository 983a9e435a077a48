/// The static and the dynamic table of a decoder (RFC 7541 section 2.3), without the texts that nobody needs.
///
/// Each entry has the kind of its name, the lengths of its name and value, and the value if it is wanted. Cookies,
/// tokens and most other values are never kept.
struct HPACKTable {
    /// A field of either table.
    struct Entry {
        var name = HPACKReader.Name.other
        var nameBytes: UInt32 = 0
        var valueBytes: UInt32 = 0
        /// What the value says, as ``HPACKReader/Field/number``. For a text its place in `texts`.
        var number: UInt64 = 0

        /// RFC 7541 section 4.1.
        var size: Int { Int(self.nameBytes) + Int(self.valueBytes) + 32 }
    }

    /// RFC 7541 appendix A.
    private static let known: [(name: String, value: String)] = [
        (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
        (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
        (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
        ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
        ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""),
        ("cache-control", ""), ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""),
        ("content-length", ""), ("content-location", ""), ("content-range", ""), ("content-type", ""),
        ("cookie", ""), ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
        ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
        ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""),
        ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""),
        ("retry-after", ""), ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""),
        ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
    ]
    private static let knownTexts = ["", "GET", "POST", "/", "/index.html"]
    private static let knownEntries: [Entry] = Self.known.map { name, value in
        var entry = Entry(name: .init(name.utf8.span))
        (entry.nameBytes, entry.valueBytes) = (UInt32(name.utf8.count), UInt32(value.utf8.count))
        if entry.name.isText {
            entry.number = UInt64(Self.knownTexts.firstIndex(of: value)!)
        } else {
            entry.number = HPACKReader.number(value.utf8.span, of: entry.name)
        }
        return entry
    }

    private let known = Self.knownEntries
    /// The dynamic table, as a ring. Its length is a power of two.
    private var ring = [Entry](repeating: Entry(), count: 32)
    /// The number of all entries so far: the newest is right before this place of the ring.
    private var next = 0
    private var count = 0
    private(set) var size = 0
    private var limit = 4_096
    /// The wanted texts of both tables. The first are those of the static table.
    private var texts = Self.knownTexts
    private var freeTexts: [Int] = []

    /// - Parameter index: From 1 (RFC 7541 section 2.3.3).
    /// - Returns: `nil` if there is no such field.
    @inline(__always)
    func entry(at index: Int) -> Entry? {
        if index <= self.known.count { return index > 0 ? self.known[index &- 1] : nil }
        let place = index &- self.known.count
        return place <= self.count ? self.ring[(self.next &- place) & (self.ring.count &- 1)] : nil
    }

    func text(of entry: Entry) -> String { self.texts[Int(entry.number)] }

    /// Changes the table's size (RFC 7541 section 4.3).
    mutating func resize(to limit: Int) {
        self.limit = limit
        self.evict(to: limit)
    }

    /// Adds a field (RFC 7541 section 4.4). A field that is larger than the table empties the table.
    ///
    /// - Parameter text: The value, if the name's values are texts.
    mutating func add(_ field: Entry, _ text: String) {
        var entry = field
        self.evict(to: self.limit - entry.size)
        guard entry.size <= self.limit else { return }
        if entry.name.isText {
            if let place = self.freeTexts.popLast() {
                (self.texts[place], entry.number) = (text, UInt64(place))
            } else {
                entry.number = UInt64(self.texts.count)
                self.texts.append(text)
            }
        }
        if self.count == self.ring.count { self.grow() }
        self.size += entry.size
        self.ring[self.next & (self.ring.count - 1)] = entry
        self.next &+= 1
        self.count += 1
    }

    private mutating func evict(to size: Int) {
        while self.size > size, self.count > 0 {
            let oldest = self.ring[(self.next &- self.count) & (self.ring.count - 1)]
            self.size -= oldest.size
            self.count -= 1
            guard oldest.name.isText else { continue }
            self.texts[Int(oldest.number)] = ""
            self.freeTexts.append(Int(oldest.number))
        }
    }

    private mutating func grow() {
        let old = self.ring
        self.ring += old
        for place in 1...self.count {
            self.ring[(self.next &- place) & (self.ring.count - 1)] = old[(self.next &- place) & (old.count - 1)]
        }
    }
}
