public import TrafficModel

/// What an alert watches: the terms of a ``Filter`` about processes, and of alerts about requests also those about hosts
/// and routes.
public struct AlertFilter: Sendable, Hashable {
    /// As it was written.
    public let text: String
    let terms: [Filter.Term]

    /// All processes and endpoints.
    public static let everything = AlertFilter()

    private init() { (self.text, self.terms) = ("", []) }

    /// - Throws: ``FilterError`` with the place of the first error, also for a key that `reader` does not know.
    public init(_ text: String, for reader: FilterReader) throws(FilterError) {
        self.text = text
        self.terms = try Filter(text, for: reader).terms
    }

    /// - Parameters:
    ///   - endpoint: `nil` for the bytes of the group.
    ///   - userName: The name of a user; `nil` if it has none. Only asked where the answer depends on it.
    public func admits(
        _ group: ProcessGroup,
        _ endpoint: (host: String, route: String)?,
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
}
