import TrafficModel

extension Filter {
    /// A text that another text has to contain, without regard to case. Compared as lower-case UTF-8.
    ///
    /// The search takes linear time (Knuth, Morris and Pratt 1977): strangers choose the filter and the texts.
    struct Needle: Sendable, Hashable {
        private let utf8: [UInt8]
        /// For each beginning of the needle: the length of the longest shorter beginning with which it ends.
        private let borders: [Int]

        init(_ text: String) {
            let utf8 = Array(text.lowercased().utf8)
            var borders: [Int] = []
            for (index, byte) in utf8.enumerated() {
                borders.append(index == 0 ? 0 : Self.matched(after: byte, borders[index - 1], utf8, borders))
            }
            (self.utf8, self.borders) = (utf8, borders)
        }

        /// - Parameter matched: How many bytes of the needle matched before `byte`; less than all.
        /// - Returns: How many match with `byte`.
        private static func matched(after byte: UInt8, _ matched: Int, _ utf8: [UInt8], _ borders: [Int]) -> Int {
            var matched = matched
            while matched > 0, utf8[matched] != byte { matched = borders[matched - 1] }
            return utf8[matched] == byte ? matched + 1 : 0
        }

        func isPart(of text: String?) -> Bool {
            guard let text else { return false }
            guard !self.utf8.isEmpty else { return true }
            var matched = 0
            for byte in text.lowercased().utf8 {
                matched = Self.matched(after: byte, matched, self.utf8, self.borders)
                if matched == self.utf8.count { return true }
            }
            return false
        }

        func isBeginning(of text: String) -> Bool {
            text.lowercased().utf8.starts(with: self.utf8)
        }
    }

    /// A part of a unit's name; or the whole name, if it ends like one: `nginx.service` is the system's unit alone, and
    /// not a unit that a user has named so (``ProcessDetails/systemdUnit``).
    struct UnitNeedle: Sendable, Hashable {
        private let needle: Needle
        /// In lower case. `nil`: a part is enough.
        private let whole: String?

        init(_ text: String) {
            self.needle = Needle(text)
            let name = text.lowercased()
            self.whole = name.hasSuffix(".service") || name.hasSuffix(".scope") ? name : nil
        }

        func matches(_ unit: String?) -> Bool {
            self.whole.map { $0 == unit?.lowercased() } ?? self.needle.isPart(of: unit)
        }
    }

    enum ProcessCondition: Sendable, Hashable {
        case process(Needle)
        case pid(Int32)
        case user(name: String, uid: UInt32?)
        case unit(UnitNeedle)
        case container(Needle)
        case cgroup(Needle)

        func matches(_ process: ProcessUsage) -> Bool {
            let details = process.details
            switch self {
            case .process(let needle): return needle.isPart(of: details.name) || needle.isPart(of: details.executable)
            case .pid(let pid): return process.identity.pid == pid
            case .user(let name, let uid): return details.user == name || details.uid == uid
            case .unit(let needle): return needle.matches(details.systemdUnit)
            case .container(let needle): return needle.isPart(of: details.containerID)
            case .cgroup(let needle): return needle.isPart(of: details.cgroup)
            }
        }

        /// - Parameter userName: The name of a user; `nil` if it is not known.
        func matches(_ group: ProcessGroup, userName: (UInt32) -> String?) -> Bool {
            switch self {
            case .process(let needle): needle.isPart(of: group.name) || needle.isPart(of: group.executable)
            // A number is no name: useradd(8) takes no such names, and asking for each user's name may take long.
            case .user(let name, let uid): group.uid.map { uid == nil ? userName($0) == name : $0 == uid } ?? false
            case .unit(let needle): needle.matches(group.systemdUnit)
            case .container(let needle): needle.isPart(of: group.containerID)
            case .pid, .cgroup: false
            }
        }
    }

    enum SocketCondition: Sendable, Hashable {
        case port(ClosedRange<UInt16>)
        case localPort(ClosedRange<UInt16>)
        case remotePort(ClosedRange<UInt16>)
        case remote(AddressPattern)
        case local(AddressPattern)
        case transport(TransportProtocol)
        case state(SocketState)
        case scope(SocketScope)
        case addressClass(String)
        case role(SocketRole)

        func matches(_ socket: SocketUsage) -> Bool {
            switch self {
            case .port(let range): range.contains(socket.local.port) || range.contains(socket.remote.port)
            case .localPort(let range): range.contains(socket.local.port)
            case .remotePort(let range): range.contains(socket.remote.port)
            case .remote(let pattern): pattern.matches(socket.remote.address)
            case .local(let pattern): pattern.matches(socket.local.address)
            case .transport(let transport): socket.transport == transport
            case .state(let state): socket.state == state
            case .scope(let scope): socket.scope == scope
            case .addressClass(let name): socket.addressClass == name
            case .role(let role): socket.role == role
            }
        }
    }

    /// About an exchange, or about the exchanges that a row of an endpoint adds up.
    enum ExchangeCondition: Sendable, Hashable {
        case host(Needle)
        case route(Needle)
        case method(String)
        case status(ClosedRange<UInt16>)
        case outcome(ExchangeOutcome)

        func matches(_ exchange: ExchangeUsage) -> Bool {
            switch self {
            case .host(let needle): needle.isPart(of: exchange.host)
            case .route(let needle): needle.isPart(of: exchange.route)
            case .method(let method): exchange.method.uppercased() == method
            case .status(let range): exchange.status.map(range.contains) ?? false
            case .outcome(let outcome): exchange.outcome == outcome
            }
        }

        /// A row of an endpoint does not say which methods and statuses it adds up: these terms pass no row.
        func matches(_ endpoint: EndpointUsage) -> Bool {
            switch self {
            case .host(let needle): needle.isPart(of: endpoint.host)
            case .route(let needle): needle.isPart(of: endpoint.route)
            case .outcome(let outcome): (endpoint.outcomes[outcome] ?? 0) > 0
            case .method, .status: false
            }
        }

        func matches(_ endpoint: ProcessEndpoint) -> Bool {
            self.matches(host: endpoint.host, route: endpoint.route)
        }

        /// Of an endpoint whose name alone is known.
        func matches(host: String, route: String) -> Bool {
            switch self {
            case .host(let needle): needle.isPart(of: host)
            case .route(let needle): needle.isPart(of: route)
            case .method, .status, .outcome: false
            }
        }
    }

    enum AddressPattern: Sendable, Hashable {
        case exactly(InternetAddress)
        case network(AddressBlock)
        case beginning(Needle)

        /// An unspecified address (`::`, no other end) matches only if the filter asks for exactly that address.
        func matches(_ address: InternetAddress) -> Bool {
            switch self {
            case .exactly(let wanted): address == wanted
            case .network(let block): block.contains(address)
            case .beginning(let needle): !address.isUnspecified && needle.isBeginning(of: address.description)
            }
        }
    }

    struct AmountCondition: Sendable, Hashable {
        enum Quantity: Sendable, Hashable {
            case received, sent, total, receivedRate, sentRate, rate
        }

        enum Comparison: String, Sendable, Hashable {
            case greaterOrEqual = ">="
            case lessOrEqual = "<="
            case greater = ">"
            case less = "<"
            case equal = "="
        }

        var quantity: Quantity
        var comparison: Comparison
        var threshold: Double

        /// - Parameter rates: `nil` for exited processes, which move nothing.
        func matches(_ bytes: ByteCounts, _ rates: PayloadRates?) -> Bool {
            let value =
                switch self.quantity {
                case .received: Double(bytes.payloadSoFar.received)
                case .sent: Double(bytes.payloadSoFar.sent)
                case .total: Double(bytes.payloadSoFar.total)
                case .receivedRate: rates?.received ?? 0
                case .sentRate: rates?.sent ?? 0
                case .rate: rates?.total ?? 0
                }
            return switch self.comparison {
            case .greaterOrEqual: value >= self.threshold
            case .lessOrEqual: value <= self.threshold
            case .greater: value > self.threshold
            case .less: value < self.threshold
            case .equal: value == self.threshold
            }
        }
    }

    /// A word without a key.
    struct WordCondition: Sendable, Hashable {
        private var needle: Needle
        /// `nil` if no address begins with the word, so that no address is printed for the comparison.
        private var address: AddressPattern?

        init(_ text: String) {
            self.needle = Needle(text)
            if FilterParser.isBeginningOfAddress(text) { self.address = .beginning(self.needle) }
        }

        func matches(_ process: ProcessUsage) -> Bool {
            let details = process.details
            return self.needle.isPart(of: details.name) || self.needle.isPart(of: details.executable)
                || self.needle.isPart(of: details.user) || self.needle.isPart(of: details.systemdUnit)
        }

        /// - Parameter userName: The name of a user; `nil` if it is not known.
        func matches(_ group: ProcessGroup, userName: (UInt32) -> String?) -> Bool {
            self.needle.isPart(of: group.name) || self.needle.isPart(of: group.executable)
                || self.needle.isPart(of: group.systemdUnit) || self.needle.isPart(of: group.uid.flatMap(userName))
        }

        func matchesRemote(of socket: SocketUsage) -> Bool {
            self.address?.matches(socket.remote.address) ?? false
        }
    }
}
