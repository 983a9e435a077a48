import SQLiteDatabase
import TrafficLimits
import TrafficModel

/// Whose bytes a sum of history has.
enum HistorySeries: Hashable, Sendable {
    case total
    case scope(String)
    case `class`(String)
    case group(ProcessGroup)
    case endpoint(ServiceEndpoint)
    /// By the interface's name.
    case interface(String)

    /// In the database. The numbers stay as they are.
    enum Kind: Int64, CaseIterable {
        case total = 0
        case scope = 1
        case `class` = 2
        case group = 3
        case endpoint = 4
        case interface = 5

        /// How many may have sums in one minute, and how many in one month; `nil`: as many as there are. Of more, those
        /// with the least bytes in the minute, and those that come later in the month, add up in ``HistorySeries/other``.
        var limits: (minute: UserLimit, month: UserLimit)? {
            switch self {
            case .total, .scope, .class: nil
            case .group, .endpoint: (.init(500, inAll: 2_000), .init(2_000, inAll: 20_000))
            // No user owns an interface.
            case .interface: (.init(500, inAll: 500), .init(2_000, inAll: 2_000))
            }
        }
    }

    var kind: Kind {
        switch self {
        case .total: .total
        case .scope: .scope
        case .class: .class
        case .group: .group
        case .endpoint: .endpoint
        case .interface: .interface
        }
    }

    /// Whose limit it takes up.
    var uid: UInt32? {
        switch self {
        case .total, .scope, .class, .interface: nil
        case .group(let group): group.uid
        case .endpoint(let endpoint): endpoint.process.uid
        }
    }

    /// The one in which those beyond the limits of its user add up; `nil` where there are no limits.
    var other: HistorySeries? {
        switch self {
        case .total, .scope, .class: nil
        case .group(let group): .group(.other(of: group.uid))
        case .endpoint(let endpoint): .endpoint(.other(of: endpoint.process.uid, endpoint.role))
        case .interface: .interface(InterfaceTotals.other)
        }
    }

    /// In the database. The total has an empty one.
    var name: String {
        switch self {
        case .total: ""
        case .scope(let name), .class(let name), .interface(let name): name
        case .group(let group): group.name
        case .endpoint(let endpoint): endpoint.process.name
        }
    }

    // MARK: The table `series`

    static let columns = "kind, name, executable, uid, unit, container, role, host, route"

    /// For ``columns``.
    var values: [SQLiteFile.Value] {
        let kind = SQLiteFile.Value.number(self.kind.rawValue)
        let none = Array(repeating: SQLiteFile.Value.text(nil), count: 3)
        return switch self {
        case .total, .scope, .class, .interface:
            [kind, .text(self.name), .text(nil), .number(nil), .text(nil), .text(nil)] + none
        case .group(let group): [kind] + Self.values(group) + none
        case .endpoint(let endpoint):
            [kind] + Self.values(endpoint.process)
                + [.text(endpoint.role.rawValue), .text(endpoint.host), .text(endpoint.route)]
        }
    }

    private static func values(_ group: ProcessGroup) -> [SQLiteFile.Value] {
        [
            .text(group.name), .text(group.executable), .number(group.uid.map { Int64($0) }), .text(group.systemdUnit),
            .text(group.containerID),
        ]
    }

    /// - Parameter column: The first of ``columns``.
    init?(_ row: SQLiteFile.Row, from column: Int32) {
        guard let kind = row.number(column).flatMap(Kind.init), let name = row.text(column + 1) else { return nil }
        switch kind {
        case .total: self = .total
        case .scope: self = .scope(name)
        case .class: self = .class(name)
        case .group: self = .group(ProcessGroup(name, row, from: column))
        case .endpoint:
            guard let role = row.text(column + 6).flatMap(EndpointRole.init), let host = row.text(column + 7),
                let route = row.text(column + 8)
            else { return nil }
            let process = ProcessGroup(name, row, from: column)
            self = .endpoint(ServiceEndpoint(process: process, role: role, host: host, route: route))
        case .interface: self = .interface(name)
        }
    }
}

extension ProcessGroup {
    fileprivate init(_ name: String, _ row: SQLiteFile.Row, from column: Int32) {
        self.init(
            name: name,
            executable: row.text(column + 2),
            systemdUnit: row.text(column + 4),
            containerID: row.text(column + 5),
            uid: row.number(column + 3).flatMap { UInt32(exactly: $0) }
        )
    }
}
