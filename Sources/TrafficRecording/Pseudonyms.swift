import TrafficModel

/// Names in place of names: the same for the same, within one recording. Whoever has the recording can't try names until
/// one fits, because the key is random and is never written.
package struct Pseudonyms: Sendable {
    /// What a name is of. The same text has another pseudonym as another kind.
    enum Kind: String {
        case process, path, user, unit, container, group, host, word, place, address, `class`, interface, boot
    }

    private let digest: KeyedDigest

    package init() {
        var random = SystemRandomNumberGenerator()
        self.init(key: (0..<32).map { _ in random.next() })
    }

    /// For tests.
    init(key: [UInt8]) { self.digest = KeyedDigest(key: key) }

    /// 64 bits that only the key and the text decide.
    func number(_ kind: Kind, _ text: String) -> UInt64 {
        let code = self.digest.code(of: Array((kind.rawValue + "\0" + text).utf8))
        return code.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// Eight characters: 40 bits. Letters and digits that are hard to mistake for each other.
    func text(_ kind: Kind, _ text: String) -> String {
        let number = self.number(kind, text)
        return String(
            (0..<8).map { index in
                Character(Unicode.Scalar(Self.alphabet[Int(number >> UInt64(5 * index) & 31)]))
            }
        )
    }

    private static let alphabet = Array("abcdefghijkmnpqrstuvwxyz23456789".utf8)

    // MARK: What stays of a name

    func process(_ name: String) -> String {
        // Ours: the row in which things add up, and the kernel, which is no process.
        if [EndpointUsage.other, "kernel", "trafficd", "trafficctl"].contains(name) { return name }
        let prefix = "kernel:"
        return name.hasPrefix(prefix) ? prefix + self.text(.process, name) : "p-" + self.text(.process, name)
    }

    func path(_ path: String) -> String { "/x-" + self.text(.path, path) }

    /// The kind of the unit stays.
    func unit(_ unit: String) -> String {
        let kinds = ["service", "scope", "slice", "socket", "timer", "mount", "swap", "target", "path", "automount"]
        let kind = kinds.first { unit.hasSuffix("." + $0) }
        return "u-" + self.text(.unit, unit) + (kind.map { "." + $0 } ?? "")
    }

    /// As long as what screens show of one.
    func container(_ id: String) -> String {
        let digits = String(self.number(.container, id), radix: 16)
        return String(("000000000000" + digits).suffix(12))
    }

    /// Root stays root. The ids of a block stay in one block, and those below all blocks stay below them (``PayingUser``):
    /// limits do the same with them.
    func uid(_ uid: UInt32) -> UInt32 {
        let (block, id) = (UInt16(uid >> 16), UInt16(truncatingIfNeeded: uid))
        guard block != 0 else { return UInt32(self.other(id, among: "users")) }
        return UInt32(self.other(block, among: "blocks")) << 16 | UInt32(self.permuted(id, "\(block)"))
    }

    /// 0 stays 0, and no other number becomes 0.
    private func other(_ number: UInt16, among kind: String) -> UInt16 {
        guard number != 0 else { return 0 }
        var other = number
        repeat { other = self.permuted(other, kind) } while other == 0
        return other
    }

    /// A Feistel network of four rounds: each number becomes another one.
    private func permuted(_ number: UInt16, _ kind: String) -> UInt16 {
        var (left, right) = (UInt8(number >> 8), UInt8(truncatingIfNeeded: number))
        for round in 0..<4 {
            let mask = UInt8(truncatingIfNeeded: self.number(.user, "\(kind) \(round) \(right)"))
            (left, right) = (right, left ^ mask)
        }
        return UInt16(left) << 8 | UInt16(right)
    }

    func user(_ name: String, uid: UInt32) -> String { uid == 0 ? "root" : "user-" + self.text(.user, name) }

    func interface(_ name: String) -> String {
        // Names that the kernel gives.
        let isUsual =
            name == "lo"
            || name.hasPrefix("eth") && (4...5).contains(name.utf8.count)
                && name.utf8.dropFirst(3).allSatisfy { 0x30...0x39 ~= $0 }
        return isUsual ? name : "if-" + self.text(.interface, name)
    }

    /// A name that the configuration gives to some addresses.
    func addressClass(_ name: String) -> String { "class-" + self.text(.class, name) }

    /// Of a request.
    func host(_ host: String) -> String {
        if [EndpointUsage.other, "localhost", ""].contains(host) { return host }
        if let address = InternetAddress(host) { return self.address(address).description }
        return "h-" + self.text(.host, host)
    }

    /// The slashes stay, and places for parameters.
    func route(_ route: String) -> String {
        if route == EndpointUsage.other { return route }
        return route.split(separator: "/", omittingEmptySubsequences: false).map { segment in
            let segment = String(segment)
            switch segment {
            case "", "*", "**", "{id}", ":id": return segment
            case _ where segment.hasPrefix("{") && segment.hasSuffix("}"):
                return "{v-" + self.text(.place, segment) + "}"
            case _ where segment.hasPrefix(":"): return ":v-" + self.text(.place, segment)
            default: return "w-" + self.text(.word, segment)
            }
        }.joined(separator: "/")
    }
}
