public import TrafficModel

/// Which processes and sockets to show: `process:nginx port:443 rx>1M -user:root`.
///
/// Blanks separate terms, and all terms must hold. Commas separate several values, `user:a,b`, of which one must hold.
/// `-` or `!` before a term negates it. Quotes keep blanks, and take the special meaning from every other character.
/// The keys are those of ``FilterKey``. A text has at most 4,096 bytes and 64 values.
///
/// - `process:` part of the name or the path of the executable; `container:`, `cgroup:` part of the value;
///   `unit:` part of the name, or the whole name if it ends in `.service` or `.scope`
/// - `pid:`, `user:` (name or uid), `proto:`, `state:`, `scope:`, `class:`, `role:` exactly
/// - `port:` (either end), `lport:`, `rport:` one port or a range, `8000-8100`
/// - `remote:`, `local:` an address, a prefix (`10.0.0.0/8`), or the beginning of an address as text (`192.168.`)
/// - `host:`, `route:` part of the host or route of an exchange or endpoint; `method:`, `status:` (`404`, `5xx`,
///   `500-599`), `outcome:` of an exchange exactly. A process passes if it has such an exchange or endpoint
/// - `rx`, `tx`, `total` payload bytes and `rxrate`, `txrate`, `rate` bytes per second: after `>`, `>=`, `<`, `<=` or
///   `=` a number with k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (of 1024). The number is compared with the row: a
///   process's own sum, or a socket's
/// - a word alone: part of the name, executable, user or unit, or the beginning of the remote address
///
/// Texts are compared without regard to case.
public struct Filter: Sendable, Hashable {
    /// One condition about one side of "this process owns this socket".
    enum Condition: Sendable, Hashable {
        case process(ProcessCondition)
        case socket(SocketCondition)
        case exchange(ExchangeCondition)
        case amount(AmountCondition)
        case word(WordCondition)
    }

    struct Term: Sendable, Hashable {
        /// All have one key, so that all are about the same side. One of them must hold.
        var alternatives: [Condition]
        var isNegated: Bool

        /// - Parameter check: Returns `nil` for a condition that should not be judged. Then the term holds, negated or
        ///   not.
        func holds(_ check: (Condition) -> Bool?) -> Bool {
            for alternative in self.alternatives {
                guard let isMet = check(alternative) else { return true }
                if isMet { return !self.isNegated }
            }
            return self.isNegated
        }
    }

    /// A request to the daemon must not cost more than its answer. Limits the UTF-8 bytes of the text, and the values
    /// in it.
    static let longestText = 4096
    static let mostValues = 64

    let terms: [Term]

    /// - Throws: ``FilterError`` with the place of the first error. An empty text makes a filter that everything
    ///   passes.
    public init(_ text: String) throws(FilterError) {
        try self.init(text, for: nil)
    }

    /// - Parameter reader: `nil` for one that knows all keys.
    /// - Throws: ``FilterError``, also for a key that `reader` does not know.
    init(_ text: String, for reader: FilterReader?) throws(FilterError) {
        guard text.utf8.count <= Self.longestText else { throw FilterError(reason: .tooLong, offset: 0) }
        var parser = FilterParser(text, for: reader)
        self.terms = try parser.parse()
    }

    /// Whether everything passes.
    public var isEmpty: Bool { self.terms.isEmpty }

    /// Whether a term asks for a property that only sockets have, so that processes can't be judged without their
    /// sockets.
    public var needsSockets: Bool {
        self.terms.contains {
            if case .socket = $0.alternatives.first { true } else { false }
        }
    }

    /// Whether a term asks for a property that exchanges and endpoints alone have.
    public var needsExchanges: Bool {
        self.terms.contains {
            if case .exchange = $0.alternatives.first { true } else { false }
        }
    }

    /// The terms about exchanges; those about anything else are ignored.
    private func holds(_ check: (ExchangeCondition) -> Bool) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                if case .exchange(let condition) = $0 { check(condition) } else { nil }
            }
        }
    }

    func matches(_ exchange: ExchangeUsage) -> Bool { self.holds { $0.matches(exchange) } }

    func matches(_ endpoint: EndpointUsage) -> Bool { self.holds { $0.matches(endpoint) } }

    func matches(_ endpoint: ProcessEndpoint) -> Bool { self.holds { $0.matches(endpoint) } }

    /// Whether a process passes, judged without its sockets and exchanges: terms about those are ignored.
    public func matches(_ process: ProcessUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(process)
                case .amount(let condition): condition.matches(process.bytes, process.rates)
                case .word(let condition): condition.matches(process)
                case .socket, .exchange: nil
                }
            }
        }
    }

    /// Whether a socket passes together with at least one of its owners.
    ///
    /// - Parameter owners: The known processes that use the socket. A socket of an unknown process passes no term that
    ///   asks for a property of its process.
    public func matches(_ socket: SocketUsage, owners: [ProcessUsage]) -> Bool {
        let holds = self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .socket(let condition): condition.matches(socket)
                case .amount(let condition): condition.matches(socket.bytes, socket.rates)
                case .process, .word, .exchange: nil
                }
            }
        }
        guard holds else { return false }
        if owners.isEmpty { return self.matchesOwner(nil, of: socket) }
        return owners.contains { self.matchesOwner($0, of: socket) }
    }

    /// Checks the terms about the process for one owner of a socket: `process:a user:b` must be one process that is
    /// both.
    private func matchesOwner(_ owner: ProcessUsage?, of socket: SocketUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): owner.map(condition.matches) ?? false
                case .word(let condition):
                    (owner.map(condition.matches) ?? false) || condition.matchesRemote(of: socket)
                case .socket, .amount, .exchange: nil
                }
            }
        }
    }

    /// Whether a process passes because of one of its sockets. Amounts are the process's, even if no single socket
    /// moved that much.
    func matches(_ process: ProcessUsage, through socket: SocketUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(process)
                case .socket(let condition): condition.matches(socket)
                case .amount(let condition): condition.matches(process.bytes, process.rates)
                case .word(let condition): condition.matches(process) || condition.matchesRemote(of: socket)
                case .exchange: nil
                }
            }
        }
    }

    /// Whether the row of a group's ended processes passes. A term about anything that the row does not say does not
    /// hold, and holds if it is negated: a pid, a cgroup, sockets, exchanges, rates.
    func matches(_ exited: ExitedUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(exited.group) { _ in exited.user }
                case .socket, .exchange: false
                case .amount(let condition): condition.matches(exited.bytes, nil)
                case .word(let condition): condition.matches(exited.group) { _ in exited.user }
                }
            }
        }
    }
}

extension Snapshot {
    /// The rows that pass. A process passes if it matches and, if terms ask for sockets, owns a socket that matches
    /// them. A socket passes with its owners, an endpoint with a process of its service, an exchange with its process.
    /// Interfaces stay, because they belong to the host. Totals are the sums over the process rows that pass, each with
    /// all its bytes.
    ///
    /// If the snapshot has no sockets, terms about sockets are ignored.
    ///
    /// - Parameter exchanges: The last exchanges. Terms about exchanges are tested against these and the processes'
    ///   endpoints.
    public func filtered(by filter: Filter, exchanges: [ExchangeUsage] = []) -> Snapshot {
        guard !filter.isEmpty else { return self }
        var result = self
        if let sockets = self.sockets {
            let processes = Dictionary(
                (self.processes ?? []).map { ($0.identity, $0) },
                uniquingKeysWith: { first, _ in first }
            )
            var owned: [ProcessIdentity: [Int]] = [:]
            for (index, socket) in sockets.enumerated() {
                for owner in socket.owners { owned[owner.identity, default: []].append(index) }
            }
            result.sockets = sockets.filter { socket in
                filter.matches(socket, owners: socket.owners.compactMap { processes[$0.identity] })
            }
            result.processes = self.processes?.filter { process in
                guard let indices = owned[process.identity] else {
                    return !filter.needsSockets && filter.matches(process)
                }
                return indices.contains { filter.matches(process, through: sockets[$0]) }
            }
        } else {
            result.processes = self.processes?.filter(filter.matches)
        }
        if filter.needsExchanges { result.keepThose(with: exchanges, passing: filter) }
        result.exited = self.exited?.filter(filter.matches)
        let passing = result.processes ?? []
        let groups = Set(passing.map { ProcessGroup($0.details) })
        result.endpoints = self.endpoints?.filter { groups.contains($0.process) && filter.matches($0) }
        result.totals = Totals(of: passing, result.exited ?? [])
        return result
    }

    /// Keeps the processes that have an exchange that passes, among the last ones or in an endpoint of their own, and their sockets.
    private mutating func keepThose(with exchanges: [ExchangeUsage], passing filter: Filter) {
        let named = Set(exchanges.filter { filter.matches($0) }.map(\.process))
        self.processes = self.processes?.filter { process in
            named.contains(process.identity) || (process.endpoints ?? []).contains { filter.matches($0) }
        }
        let kept = Set((self.processes ?? []).map(\.identity))
        self.sockets = self.sockets?.filter { $0.owners.contains { kept.contains($0.identity) } }
    }
}

extension Reading {
    /// The snapshot's rows that pass, as in ``Snapshot/filtered(by:exchanges:)``, and the exchanges that pass, of the
    /// processes that pass.
    public func filtered(by filter: Filter) -> Reading {
        guard !filter.isEmpty else { return self }
        var result = self
        result.snapshot = self.snapshot.filtered(by: filter, exchanges: self.exchanges)
        let identities = Set((result.snapshot.processes ?? []).map(\.identity))
        result.exchanges = self.exchanges.filter { identities.contains($0.process) && filter.matches($0) }
        return result
    }
}
