import TrafficModel

/// Reads the text of a ``Filter`` from left to right, one character at a time.
struct FilterParser {
    private let characters: [Character]
    private let reader: FilterReader?
    private var position = 0

    /// - Parameter reader: `nil` for one that knows all keys.
    init(_ text: String, for reader: FilterReader?) {
        self.characters = Array(text)
        self.reader = reader
    }

    mutating func parse() throws(FilterError) -> [Filter.Term] {
        var terms: [Filter.Term] = []
        var values = 0
        self.skipBlanks()
        while self.position < self.characters.count {
            let start = self.position
            let term = try self.term()
            values += term.alternatives.count
            guard values <= Filter.mostValues else { throw FilterError(reason: .tooManyValues, offset: start) }
            terms.append(term)
            self.skipBlanks()
        }
        return terms
    }

    private mutating func skipBlanks() {
        while self.position < self.characters.count, self.characters[self.position].isWhitespace { self.position += 1 }
    }

    private mutating func term() throws(FilterError) -> Filter.Term {
        let start = self.position
        let isNegated = self.characters[start] == "-" || self.characters[start] == "!"
        if isNegated { self.position += 1 }
        let alternatives = try self.alternatives()
        guard !alternatives.isEmpty else {
            throw FilterError(reason: .missingValue(after: String(self.characters[start])), offset: start)
        }
        return Filter.Term(alternatives: alternatives, isNegated: isNegated)
    }

    /// - Returns: Empty if the term has no value.
    private mutating func alternatives() throws(FilterError) -> [Filter.Condition] {
        let start = self.position
        guard let (name, sign) = self.keyAndOperator() else {
            try self.refuseJoiningWord()
            return try self.values(after: "", from: start).map { .word(Filter.WordCondition($0.text)) }
        }
        guard let key = FilterKey(word: name), self.reader?.keys.contains(key) ?? true else {
            throw FilterError(
                reason: self.reader.map { .notKnown(name, to: $0) }
                    ?? .unknownKey(name, suggestion: FilterKey.nearest(to: name.lowercased())),
                offset: start
            )
        }
        let values = try self.values(after: name + sign, from: start)
        guard !values.isEmpty else { throw FilterError(reason: .missingValue(after: name + sign), offset: start) }
        guard values.count == 1 || key.takesLists else {
            let written = String(self.characters[values[0].offset..<self.position])
            let reason = FilterError.Reason.invalidValue(written, key: key, expected: "one number, not several")
            throw FilterError(reason: reason, offset: values[0].offset)
        }
        var conditions: [Filter.Condition] = []
        for value in values {
            do throws(FilterKey.Mismatch) {
                conditions.append(try key.condition(sign: sign, value: value.text))
            } catch {
                switch error {
                case .sign(let expected):
                    throw FilterError(reason: .wrongOperator(sign, key: key, expected: expected), offset: start)
                case .value(let expected):
                    let reason = FilterError.Reason.invalidValue(value.text, key: key, expected: expected)
                    throw FilterError(reason: reason, offset: value.offset)
                }
            }
        }
        return conditions
    }

    /// Without this check, `a OR b` would also search for the word `or`, and show nothing.
    private func refuseJoiningWord() throws(FilterError) {
        let word = String(self.characters[self.position...].prefix { !$0.isWhitespace })
        guard let joining = FilterError.JoiningWord(word) else { return }
        throw FilterError(reason: .joiningWord(word, joining), offset: self.position)
    }

    /// The values up to the next blank, separated by commas.
    ///
    /// - Parameters:
    ///   - key: The text before the values.
    ///   - start: Where that text begins.
    private mutating func values(
        after key: String,
        from start: Int
    ) throws(FilterError) -> [(text: String, offset: Int)] {
        var values: [(text: String, offset: Int)] = []
        let first = self.position
        while true {
            let offset = self.position
            let value = try self.value()
            let isLast = self.position >= self.characters.count || self.characters[self.position] != ","
            if value.isEmpty {
                if values.isEmpty && isLast { return [] }
                let written = values.isEmpty ? "" : String(self.characters[first..<offset])
                throw FilterError(reason: .missingValue(after: key + written), offset: start)
            }
            values.append((value, offset))
            if isLast { return values }
            self.position += 1
        }
    }

    /// Letters and an operator, not quoted. Nothing is consumed if the term is a word alone, such as an address.
    private mutating func keyAndOperator() -> (key: String, sign: String)? {
        let rest = self.characters[self.position...]
        let name = rest.prefix { $0.isASCII && $0.isLetter }
        guard !name.isEmpty, let first = rest.dropFirst(name.count).first, ":<>=".contains(first) else { return nil }
        if FilterKey(word: String(name)) == nil,
            Self.isBeginningOfAddress(String(rest.prefix { !$0.isWhitespace }))
        {
            return nil
        }
        var sign = String(first)
        if first == "<" || first == ">", rest.dropFirst(name.count + 1).first == "=" { sign += "=" }
        self.position += name.count + sign.count
        return (String(name), sign)
    }

    /// Reads up to the next blank or comma outside quotes. Within quotes, a character after a backslash stands for
    /// itself.
    private mutating func value() throws(FilterError) -> String {
        var value = ""
        var quote: Int?
        while self.position < self.characters.count {
            let character = self.characters[self.position]
            if character == "\"" {
                quote = quote == nil ? self.position : nil
            } else if quote != nil, character == "\\", self.position + 1 < self.characters.count {
                self.position += 1
                value.append(self.characters[self.position])
            } else if quote == nil, character.isWhitespace || character == "," {
                break
            } else {
                value.append(character)
            }
            self.position += 1
        }
        if let quote { throw FilterError(reason: .unterminatedQuote, offset: quote) }
        return value
    }

    /// Whether a printed address could begin with this text.
    static func isBeginningOfAddress(_ text: String) -> Bool {
        text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                UInt8(ascii: "A")...UInt8(ascii: "F"), UInt8(ascii: "."), UInt8(ascii: ":"):
                true
            default: false
            }
        }
    }
}

extension FilterKey {
    /// Why a key does not take the text after it. The associated text says what the key takes.
    enum Mismatch: Error {
        case sign(expected: String)
        case value(expected: String)
    }

    fileprivate func condition(sign: String, value: String) throws(Mismatch) -> Filter.Condition {
        if let quantity = self.quantity {
            guard let comparison = Filter.AmountCondition.Comparison(rawValue: sign) else {
                throw .sign(expected: "one of > >= < <= =")
            }
            let threshold = try Self.number(value)
            return .amount(.init(quantity: quantity, comparison: comparison, threshold: threshold))
        }
        guard sign == ":" else { throw .sign(expected: "':'") }
        return switch self {
        case .process: .process(.process(.init(value)))
        case .pid: .process(.pid(try Self.parsed(value, Int32.init, expected: "a process id")))
        case .user: .process(.user(name: value, uid: UInt32(value)))
        case .unit: .process(.unit(.init(value)))
        case .container: .process(.container(.init(value)))
        case .cgroup: .process(.cgroup(.init(value)))
        case .port: .socket(.port(try Self.ports(value)))
        case .localPort: .socket(.localPort(try Self.ports(value)))
        case .remotePort: .socket(.remotePort(try Self.ports(value)))
        case .remote: .socket(.remote(try Self.addresses(value)))
        case .local: .socket(.local(try Self.addresses(value)))
        case .transport: .socket(.transport(try Self.word(value)))
        case .state: .socket(.state(try Self.state(value)))
        case .scope: .socket(.scope(try Self.word(value)))
        case .addressClass: .socket(.addressClass(try Self.className(value)))
        case .role: .socket(.role(try Self.word(value)))
        case .host: .exchange(.host(.init(value)))
        case .route: .exchange(.route(.init(value)))
        case .method: .exchange(.method(value.uppercased()))
        case .status: .exchange(.status(try Self.statuses(value)))
        case .outcome: .exchange(.outcome(try Self.word(value)))
        case .received, .sent, .total, .receivedRate, .sentRate, .rate: throw .sign(expected: "a comparison")
        }
    }

    /// Amounts take no lists: of two thresholds, one alone decides.
    fileprivate var takesLists: Bool { self.quantity == nil }

    private var quantity: Filter.AmountCondition.Quantity? {
        switch self {
        case .received: .received
        case .sent: .sent
        case .total: .total
        case .receivedRate: .receivedRate
        case .sentRate: .sentRate
        case .rate: .rate
        default: nil
        }
    }

    private static func parsed<Value>(
        _ text: String,
        _ parse: (String) -> Value?,
        expected: String
    ) throws(Mismatch) -> Value {
        guard let value = parse(text) else { throw .value(expected: expected) }
        return value
    }

    private static func word<Value>(_ text: String) throws(Mismatch) -> Value
    where Value: RawRepresentable<String> & CaseIterable {
        let words = Value.allCases.map(\.rawValue).joined(separator: ", ")
        return try Self.parsed(text.lowercased(), Value.init(rawValue:), expected: "one of \(words)")
    }

    /// As JSON has it or as `ss` prints it: `established`, `ESTAB`.
    private static func state(_ text: String) throws(Mismatch) -> SocketState {
        if let state = SocketState.allCases.first(where: { $0.shortName == text.uppercased() }) { return state }
        return try Self.word(text)
    }

    /// Any valid name of a class. Only the daemon knows which classes there are.
    private static func className(_ text: String) throws(Mismatch) -> String {
        let name = text.lowercased()
        guard AddressClasses.isName(name) else {
            throw .value(expected: "the name of a class, as trafficd was given it with --class")
        }
        return name
    }

    private static func ports(_ text: String) throws(Mismatch) -> ClosedRange<UInt16> {
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
        guard ends.count <= 2, let first = ends.first ?? nil, let last = ends.last ?? nil, first <= last else {
            throw .value(expected: "a port or a range of ports, 8000-8100")
        }
        return first...last
    }

    /// `404`, `500-599`, or `5xx` for all of a class (RFC 9110 section 15).
    private static func statuses(_ text: String) throws(Mismatch) -> ClosedRange<UInt16> {
        if text.count == 3, text.lowercased().hasSuffix("xx"), let first = UInt16(text.prefix(1)), first > 0 {
            return first * 100...first * 100 + 99
        }
        let ends = text.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
        guard ends.count <= 2, let first = ends.first ?? nil, let last = ends.last ?? nil, first <= last,
            first >= 100, last <= 999
        else {
            throw .value(expected: "a status such as 404, 500-599 or 5xx")
        }
        return first...last
    }

    private static func addresses(_ text: String) throws(Mismatch) -> Filter.AddressPattern {
        if let address = InternetAddress(text) { return .exactly(address) }
        if text.contains("/") {
            if let block = AddressBlock(around: text) { return .network(block) }
        } else if FilterParser.isBeginningOfAddress(text) {
            return .beginning(.init(text))
        }
        throw .value(expected: "an address, a prefix such as 10.0.0.0/8, or the beginning of an address")
    }

    /// An ``Amount``, with or without `B`.
    private static func number(_ text: String) throws(Mismatch) -> Double {
        guard let number = Amount.number(text, unit: "b") else {
            throw .value(expected: "a number of bytes such as 1500, 10k, 1.5M or 2Gi")
        }
        return number
    }
}
