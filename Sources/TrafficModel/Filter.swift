/// Which processes and sockets to show: `process:nginx port:443 rx>1M -user:root`.
///
/// Terms are separated by blanks and all of them must hold. Of several values with commas between them, `user:a,b`, one has to hold. `-` or
/// `!` before a term turns it round; quotes keep blanks and take the meaning from every other character. The keys are those of
/// ``FilterKey``. A text has at most 4,096 bytes and 64 values.
///
/// - `process:` part of the name or the path of the executable; `unit:`, `container:`, `cgroup:` part of the value
/// - `pid:`, `user:` (name or uid), `proto:`, `state:`, `scope:`, `class:`, `role:` exactly
/// - `port:` (either end), `lport:`, `rport:` one port or a range, `8000-8100`
/// - `remote:`, `local:` an address, a prefix (`10.0.0.0/8`), or the beginning of an address as text (`192.168.`)
/// - `rx`, `tx`, `total` payload bytes and `rxrate`, `txrate`, `rate` bytes per second, after `>`, `>=`, `<`, `<=` or `=` a number
///   with k, M, G, T (powers of 1000) or Ki, Mi, Gi, Ti (of 1024); of the row that is looked at: a process's own sum or a socket's
/// - a word alone: part of the name, executable, user or unit, or the beginning of the remote address
///
/// Texts are compared without regard to case.
public struct Filter: Sendable, Hashable {
    /// One condition, about one side of "this process owns this socket".
    enum Condition: Sendable, Hashable {
        case process(ProcessCondition)
        case socket(SocketCondition)
        case amount(AmountCondition)
        case word(WordCondition)
    }

    struct Term: Sendable, Hashable {
        /// Of one key, so that all are about the same side. One of them has to hold.
        var alternatives: [Condition]
        var isNegated: Bool

        /// - Parameter check: `nil` for a condition that is not to be judged: the term holds, turned round or not.
        func holds(_ check: (Condition) -> Bool?) -> Bool {
            for alternative in self.alternatives {
                guard let isMet = check(alternative) else { return true }
                if isMet { return !self.isNegated }
            }
            return self.isNegated
        }
    }

    /// A request to the daemon must not cost more than its answer: UTF-8 bytes of the text, and values in it.
    static let longestText = 4096
    static let mostValues = 64

    let terms: [Term]

    /// - Throws: ``FilterError`` with the place of the first thing that is wrong. An empty text is a filter that everything passes.
    public init(_ text: String) throws(FilterError) {
        guard text.utf8.count <= Self.longestText else { throw FilterError(reason: .tooLong, offset: 0) }
        var parser = FilterParser(text)
        self.terms = try parser.parse()
    }

    /// Whether everything passes.
    public var isEmpty: Bool { self.terms.isEmpty }

    /// Whether a term asks for a property that sockets alone have, so that processes can't be judged without them.
    public var needsSockets: Bool {
        self.terms.contains {
            if case .socket = $0.alternatives.first { true } else { false }
        }
    }

    /// Whether a process passes, as far as that can be told without its sockets: terms about sockets are ignored.
    public func matches(_ process: ProcessUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(process)
                case .amount(let condition): condition.matches(process.bytes, process.rates)
                case .word(let condition): condition.matches(process)
                case .socket: nil
                }
            }
        }
    }

    /// Whether a socket passes together with at least one of its owners.
    ///
    /// - Parameter owners: The processes that use it, as far as they are known. A socket of an unknown process passes no term that
    ///   asks for something of its process.
    public func matches(_ socket: SocketUsage, owners: [ProcessUsage]) -> Bool {
        let holds = self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .socket(let condition): condition.matches(socket)
                case .amount(let condition): condition.matches(socket.bytes, socket.rates)
                case .process, .word: nil
                }
            }
        }
        guard holds else { return false }
        if owners.isEmpty { return self.matchesOwner(nil, of: socket) }
        return owners.contains { self.matchesOwner($0, of: socket) }
    }

    /// The terms about the process, of one owner of a socket: `process:a user:b` is one process that is both.
    private func matchesOwner(_ owner: ProcessUsage?, of socket: SocketUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): owner.map(condition.matches) ?? false
                case .word(let condition):
                    (owner.map(condition.matches) ?? false) || condition.matchesRemote(of: socket)
                case .socket, .amount: nil
                }
            }
        }
    }

    /// Whether a process passes because of one of its sockets. Amounts are the process's: that no single socket moved as much
    /// does not matter.
    func matches(_ process: ProcessUsage, through socket: SocketUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(process)
                case .socket(let condition): condition.matches(socket)
                case .amount(let condition): condition.matches(process.bytes, process.rates)
                case .word(let condition): condition.matches(process) || condition.matchesRemote(of: socket)
                }
            }
        }
    }

    /// Whether the row of an executable's gone processes passes. All that it has left is a name, a path and bytes: a term about
    /// anything else does not hold.
    func matches(_ exited: ExitedUsage) -> Bool {
        self.terms.allSatisfy { term in
            term.holds {
                switch $0 {
                case .process(let condition): condition.matches(exited)
                case .socket: false
                case .amount(let condition): condition.matches(exited.bytes, nil)
                case .word(let condition): condition.matches(exited)
                }
            }
        }
    }
}

extension Snapshot {
    /// The rows that pass. A process passes if it matches and, where terms ask for sockets, owns a socket that matches them; a
    /// socket passes with its owners, an API with a process of its service, an exchange with its process. Interfaces stay as they are: they
    /// are the host's, not the filter's. Totals are of the rows of processes that pass, each with all its bytes.
    ///
    /// Where the snapshot has no sockets, terms about sockets are ignored.
    public func filtered(by filter: Filter) -> Snapshot {
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
        result.exited = self.exited?.filter(filter.matches)
        let passing = result.processes ?? []
        let (groups, identities) = (Set(passing.map { ProcessGroup($0.details) }), Set(passing.map(\.identity)))
        result.endpoints = self.endpoints?.filter { groups.contains($0.process) }
        result.exchanges = self.exchanges?.filter { identities.contains($0.process) }
        result.totals = Totals(of: passing, result.exited ?? [])
        return result
    }
}
