/// The names that systemd gives units.
enum SystemdUnit {
    /// A unit's name with a `*` in place of the part that is new each time: the number of a login, a connection or a run.
    /// `systemctl` takes such patterns.
    ///
    /// Processes of such units are one program to a person. With the part, a server that people log in to would have
    /// groups without end. An instance that somebody chose (`getty@tty1.service`) stays. The scope of a container keeps
    /// its name.
    ///
    /// Sources: sessions are named by systemd-logind, `session-NUMBER.scope`; transient units by systemd-run(1),
    /// `run-ID.scope`; an instance for one connection by systemd.socket(5), `Accept=`: a number, and both addresses, or
    /// pid and user of a peer on the host; a desktop's apps by systemd's "Desktop Environment Integration",
    /// `app-NAME-ID.scope`; a snap's scope has a UUID.
    static func pattern(of name: String) -> String {
        // A user's unit follows the name of the user's service manager and a slash.
        guard let slash = name.utf8.firstIndex(of: UInt8(ascii: "/")) else { return Self.pattern(ofUnit: name) }
        let (manager, unit) = (name[..<slash], name[name.utf8.index(after: slash)...])
        return Self.pattern(ofUnit: String(manager)) + "/" + Self.pattern(ofUnit: String(unit))
    }

    private static func pattern(ofUnit name: String) -> String {
        // Only a name with a digit has such a part.
        guard let dot = name.lastIndex(of: "."), name.utf8.contains(where: Self.isDigit) else { return name }
        let (stem, suffix) = (name[..<dot], name[dot...])
        if let at = stem.firstIndex(of: "@") {
            let instance = stem[stem.index(after: at)...]
            return Self.isConnection(instance) ? "\(stem[...at])*\(suffix)" : name
        }
        if let start = Self.uuid(in: stem) { return "\(stem[..<start])*\(suffix)" }
        guard let hyphen = stem.lastIndex(of: "-") else { return name }
        let last = stem[stem.index(after: hyphen)...]
        if stem.hasPrefix("run-"), Self.isRun(stem.dropFirst(4)) { return "run-*\(suffix)" }
        guard suffix == ".scope" else { return name }
        let isSession = stem[..<hyphen] == "session" && Self.isNumber(last.hasPrefix("c") ? last.dropFirst() : last)
        let isApp = stem.hasPrefix("app-") && stem[..<hyphen] != "app" && Self.isNumber(last)
        return isSession || isApp ? "\(stem[...hyphen])*\(suffix)" : name
    }

    /// `4-192.0.2.1:22-198.51.100.7:50122`, or `4-1234-1000` for a Unix socket.
    private static func isConnection(_ instance: Substring) -> Bool {
        let parts = instance.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count >= 3, Self.isNumber(parts[0]) else { return false }
        let areAddresses = parts[1...].allSatisfy { part in
            part.lastIndex(of: ":").map { Self.isNumber(part[part.index(after: $0)...]) } ?? false
        }
        return areAddresses || parts.count == 3 && Self.isNumber(parts[1]) && Self.isNumber(parts[2])
    }

    /// `u12`, `r0123456789abcdef0123456789abcdef`, `p12-i34` or `12`.
    private static func isRun(_ id: Substring) -> Bool {
        id.split(separator: "-", omittingEmptySubsequences: false).allSatisfy { part in
            let rest = part.drop { "rupi".contains($0) }
            guard part.utf8.count - rest.utf8.count <= 1 else { return false }
            return Self.isNumber(rest) || rest.utf8.count == 32 && rest.utf8.allSatisfy(Self.isHexadecimal)
        }
    }

    /// Where a UUID begins with which the text ends (RFC 9562 section 4).
    private static func uuid(in text: Substring) -> String.Index? {
        guard let start = text.index(text.endIndex, offsetBy: -36, limitedBy: text.startIndex) else { return nil }
        let parts = text[start...].split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [8, 4, 4, 4, 12] else { return nil }
        return parts.allSatisfy { $0.utf8.allSatisfy(Self.isHexadecimal) } ? start : nil
    }

    private static func isNumber(_ text: Substring) -> Bool { !text.isEmpty && text.utf8.allSatisfy(Self.isDigit) }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        Self.isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
    }
}
