public import TrafficModel

/// Which bytes of history: the keys of a ``Filter`` that history knows.
///
/// Terms about processes select the groups whose bytes are added up, whatever the rows are divided by; with terms about
/// hosts and routes these are the bytes of HTTP messages. Amounts are those of the rows that come of it.
public struct HistoryFilter: Sendable, Hashable {
    public static let amountKeys: [FilterKey] = [.received, .sent, .total]
    public static let keys: [FilterKey] = [.process, .user, .unit, .container, .host, .route] + Self.amountKeys

    private let terms: [Filter.Term]

    /// Everything passes.
    public init() { self.terms = [] }

    /// - Throws: ``FilterError`` with the place of the first error, also for a key that history does not know.
    public init(_ text: String) throws(FilterError) { self.terms = try Filter(text, for: .history).terms }

    /// The processes of a past minute, which is divided by nothing that is not theirs.
    ///
    /// - Throws: ``FilterError``, as above.
    public init(ofPastMinute text: String) throws(FilterError) { self.terms = try Filter(text, for: .pastMinute).terms }

    /// The bytes of the processes that an alert watches.
    public init(_ filter: AlertFilter) { self.terms = filter.terms }

    public var isEmpty: Bool { self.terms.isEmpty }

    /// Whether a term is about hosts or routes.
    public var hasEndpoints: Bool {
        self.terms.contains { if case .exchange = $0.alternatives.first { true } else { false } }
    }

    /// Whether a term is about processes or what they ask and serve.
    public var hasNames: Bool {
        self.terms.contains { if case .amount = $0.alternatives.first { false } else { true } }
    }

    /// Whether a term is about the amounts of rows.
    public var hasAmounts: Bool {
        self.terms.contains { if case .amount = $0.alternatives.first { true } else { false } }
    }

    /// - Parameters:
    ///   - endpoint: `nil` for the bytes of the group.
    ///   - userName: The name of a user; `nil` if it has none. Only asked where the answer depends on it.
    public func admits(
        _ group: ProcessGroup,
        _ endpoint: (host: String, route: String)? = nil,
        userName: (UInt32) -> String?
    ) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(group, userName: userName)
                case .word(let condition): condition.matches(group, userName: userName)
                case .exchange(let condition): endpoint.map { condition.matches(host: $0.host, route: $0.route) }
                case .amount, .socket: nil
                }
            }
        }
    }

    /// - Parameter sum: Payload, messages, or what an interface counts.
    public func admits(_ sum: PayloadBytes) -> Bool {
        let bytes = ByteCounts(payload: sum)
        return self.terms.allSatisfy { term in
            term.holds { if case .amount(let condition) = $0 { condition.matches(bytes, nil) } else { nil } }
        }
    }
}
