import TrafficModel

/// What is wrong with the text of a ``Filter``, and where.
public struct FilterError: Error, Sendable, Hashable {
    public enum Reason: Sendable, Hashable {
        /// - Parameter suggestion: The key that the user probably meant.
        case unknownKey(String, suggestion: FilterKey?)
        /// A key that this reader does not have.
        case notKnown(String, to: FilterReader)
        /// A key, `-` or `!` with nothing after it.
        case missingValue(after: String)
        /// - Parameter expected: What the key takes, in words.
        case invalidValue(String, key: FilterKey, expected: String)
        /// `rx:1M` or `port>80`.
        case wrongOperator(String, key: FilterKey, expected: String)
        case unterminatedQuote
        case joiningWord(String, JoiningWord)
        /// More than 4,096 bytes of UTF-8.
        case tooLong
        /// More than 64 values.
        case tooManyValues
        /// It looks at sockets, and this reader has none.
        case noSockets
    }

    /// Words that join terms in other languages, and that filters do not need.
    public enum JoiningWord: Sendable, Hashable {
        case and, or, not

        /// - Parameter word: In upper or lower case.
        init?(_ word: String) {
            switch word.lowercased() {
            case "and", "&&": self = .and
            case "or", "||": self = .or
            case "not": self = .not
            default: return nil
            }
        }
    }

    public var reason: Reason
    /// Where the faulty part begins, in characters from the beginning of the text.
    public var offset: Int

    public init(reason: Reason, offset: Int) {
        self.reason = reason
        self.offset = offset
    }

    /// All keys, in the order of the documentation.
    public static var knownKeys: [FilterKey] { FilterKey.allCases }
}

extension FilterError: CustomStringConvertible {
    /// One line: the place, what is wrong, and what the user probably meant.
    public var description: String {
        let place = "at character \(self.offset + 1)"
        switch self.reason {
        case .noSockets:
            return "it looks at sockets, which this daemon shows on control.sock, or with the administrators' token"
        case .unknownKey(let key, let suggestion):
            let hint =
                suggestion.map { "did you mean '\($0.rawValue)'?" } ?? "quote the word to search for it as it is."
            let keys = Self.knownKeys.map(\.rawValue).joined(separator: ", ")
            return "unknown key '\(key)' \(place); \(hint) Keys: \(keys)"
        case .notKnown(let key, let reader):
            let keys = reader.keys.map(\.rawValue).joined(separator: ", ")
            return "\(reader.name) not know '\(key)' \(place), but these keys: \(keys)"
        case .missingValue(let after):
            return "nothing after '\(after)' \(place)"
        case .invalidValue(let value, let key, let expected):
            return "'\(value)' \(place) is not what '\(key.rawValue)' takes: \(expected)"
        case .wrongOperator(let written, let key, let expected):
            return "'\(key.rawValue)' \(place) takes \(expected), not '\(written)'"
        case .unterminatedQuote:
            return "the quote that begins \(place) has no end"
        case .joiningWord(let word, let joining):
            let advice =
                switch joining {
                case .and: "all terms must hold as it is, so leave it out"
                case .or: "for one of several values put commas between them: user:a,b"
                case .not: "put - before the term: -user:a"
                }
            return "'\(word)' \(place) joins no terms: \(advice) (quoted, it is a word to search for)"
        case .tooLong:
            return "a filter has at most \(Filter.longestText) bytes"
        case .tooManyValues:
            return "a filter has at most \(Filter.mostValues) values; the next one is \(place)"
        }
    }
}

/// Who reads filters and knows only some keys.
public enum FilterReader: Sendable, Hashable {
    case history
    /// The list of a past minute in `top`, which has processes alone.
    case pastMinute
    /// Alerts about the bytes of processes, those about the requests of endpoints, and those about new destinations.
    case byteAlerts, requestAlerts, destinationAlerts

    public var keys: [FilterKey] {
        switch self {
        case .history: HistoryFilter.keys
        case .pastMinute: HistoryFilter.keys.filter { $0 != .host && $0 != .route }
        case .byteAlerts, .destinationAlerts: [.process, .user, .unit, .container]
        case .requestAlerts: Self.byteAlerts.keys + [.host, .route]
        }
    }

    fileprivate var name: String {
        switch self {
        case .history: "history does"
        case .pastMinute: "a past minute does"
        case .byteAlerts: "alerts about bytes do"
        case .requestAlerts: "alerts about requests do"
        case .destinationAlerts: "alerts about new destinations do"
        }
    }
}

/// The keys of a ``Filter``'s terms.
public enum FilterKey: String, Sendable, Hashable, CaseIterable {
    case process, pid, user, unit, container, cgroup
    case port
    case localPort = "lport"
    case remotePort = "rport"
    case remote, local
    case transport = "proto"
    case state, scope
    case addressClass = "class"
    case role
    case host, route, method, status, outcome
    case received = "rx"
    case sent = "tx"
    case total
    case receivedRate = "rxrate"
    case sentRate = "txrate"
    case rate

    /// - Parameter word: A key, in letters of any case. The words of tables and of `--sort` are known too.
    init?(word: String) {
        switch word.lowercased() {
        case "received": self = .received
        case "sent": self = .sent
        case "receivedrate": self = .receivedRate
        case "sentrate": self = .sentRate
        case let key: self.init(rawValue: key)
        }
    }

    /// The key nearest to a misspelt key.
    ///
    /// - Returns: `nil` if no key is within two changes, or within one change for a text of up to three characters.
    static func nearest(to text: String) -> FilterKey? {
        FilterKey.allCases
            .map { (key: $0, distance: Self.distance(from: Array(text.utf8), to: Array($0.rawValue.utf8))) }
            .filter { $0.distance <= (text.utf8.count <= 3 ? 1 : 2) }
            .min { $0.distance < $1.distance }?
            .key
    }

    /// Levenshtein's distance: how many bytes to insert, delete or replace.
    private static func distance(from left: [UInt8], to right: [UInt8]) -> Int {
        var row = Array(0...right.count)
        for (line, byte) in left.enumerated() {
            var diagonal = row[0]
            row[0] = line + 1
            for column in right.indices {
                let replaced = diagonal + (byte == right[column] ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(replaced, row[column] + 1, diagonal + 1)
            }
        }
        return row[right.count]
    }
}
