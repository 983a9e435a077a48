public import TrafficDocuments
public import TrafficModel

/// What moved in a few seconds.
public struct AlertSample: Sendable, Hashable {
    /// The end of this time.
    public var takenAt: Timestamp
    /// Its length on `CLOCK_BOOTTIME`: the wall clock may be set meanwhile.
    public var seconds: Double
    /// Payload of both directions. Only groups that moved some.
    public var groups: [ProcessGroup: UInt64]
    /// Only endpoints that gained something.
    public var endpoints: [ServiceEndpoint: EndpointCounts]
    /// Whom processes have reached, if a rule asks.
    public var contacts: ContactSums

    public init(
        takenAt: Timestamp,
        seconds: Double,
        groups: [ProcessGroup: UInt64] = [:],
        endpoints: [ServiceEndpoint: EndpointCounts] = [:],
        contacts: ContactSums = ContactSums()
    ) {
        (self.takenAt, self.seconds) = (takenAt, seconds)
        (self.groups, self.endpoints, self.contacts) = (groups, endpoints, contacts)
    }

    /// Both times as one.
    public func joined(with later: AlertSample) -> AlertSample {
        AlertSample(
            takenAt: later.takenAt,
            seconds: self.seconds + later.seconds,
            groups: self.groups.merging(later.groups, uniquingKeysWith: +|),
            endpoints: self.endpoints.merging(later.endpoints) { first, second in
                var sum = first
                sum += second
                return sum
            },
            contacts: self.contacts.joined(with: later.contacts)
        )
    }
}

/// What history has of the bytes of a rule.
public struct BudgetSum: Sendable, Hashable {
    /// The beginning of the day or month.
    public var since: Timestamp
    /// Payload of both directions.
    public var bytes: UInt64
    /// The time in which the daemon counted.
    public var countedSeconds: UInt64
    /// Until the day or month ends.
    public var remainingSeconds: UInt64

    public init(since: Timestamp, bytes: UInt64, countedSeconds: UInt64, remainingSeconds: UInt64) {
        (self.since, self.bytes) = (since, bytes)
        (self.countedSeconds, self.remainingSeconds) = (countedSeconds, remainingSeconds)
    }
}

public enum AlertChange: Sendable, Hashable {
    case began(Alert)
    /// It reached its next step: only of ``AlertRule/Kind/bytes(_:per:)``.
    case rose(Alert)
    case ended(Alert)

    public var alert: Alert {
        switch self {
        case .began(let alert), .rose(let alert), .ended(let alert): alert
        }
    }
}

extension AlertChange {
    /// The same change, with the name of the user.
    ///
    /// - Parameter userName: The name of a user; `nil` if it has none.
    public func naming(_ userName: (UInt32) -> String?) -> AlertChange {
        switch self {
        case .began(let alert): .began(alert.naming(userName))
        case .rose(let alert): .rose(alert.naming(userName))
        case .ended(let alert): .ended(alert.naming(userName))
        }
    }
}

extension Alert {
    /// As ``AlertChange/naming(_:)``.
    public func naming(_ userName: (UInt32) -> String?) -> Alert {
        var alert = self
        alert.user = self.process?.uid.flatMap(userName)
        return alert
    }
}
