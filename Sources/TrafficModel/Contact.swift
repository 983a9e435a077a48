package import TrafficLimits

/// A process group, and a place that it reached.
public struct Contact: Sendable, Hashable {
    public var process: ProcessGroup
    /// The network of an address, such as `192.0.2.0/24`, or the host of an endpoint.
    public var destination: String

    public init(process: ProcessGroup, destination: String) {
        (self.process, self.destination) = (process, destination)
    }

    /// How many addresses the ledger keeps between two samples.
    package static let sampled = UserLimit(1_000, inAll: 10_000)
    /// How many contacts are known.
    package static let learned = UserLimit(5_000, inAll: 50_000)
    /// A contact that was not seen for so many days is forgotten.
    package static let days: Int64 = 62

    /// For `doctor`, docs/security.md and its test.
    package static var limits: [StatedLimit] {
        func limit(_ of: String, _ most: UserLimit) -> StatedLimit {
            StatedLimit(
                of: of,
                user: most.ofUser,
                all: most.inAll,
                beyond: "not judged and not learned; the log says how many"
            )
        }
        return [
            limit("addresses that processes reach between two looks, for rules about new destinations", Self.sampled),
            limit("known destinations of process groups, for such rules", Self.learned),
        ]
    }
}

/// The bytes of contacts in a time.
public struct ContactSums: Sendable, Hashable {
    /// Payload of both directions; of an endpoint, bytes of messages.
    public var bytes: [Contact: UInt64]
    /// How often a contact had no room, or its process left the list before anything was known of it.
    public var lost: UInt64

    public init(bytes: [Contact: UInt64] = [:], lost: UInt64 = 0) {
        (self.bytes, self.lost) = (bytes, lost)
    }

    /// Both times as one, with as many contacts as one time may have.
    public func joined(with later: ContactSums) -> ContactSums {
        var sum = self
        sum.lost +|= later.lost
        var places = GroupPlaces(Contact.sampled)
        for contact in self.bytes.keys { places.take(for: contact.process.uid) }
        for (contact, bytes) in later.bytes {
            if sum.bytes[contact] == nil {
                guard places.hasRoom(for: contact.process.uid) else {
                    sum.lost +|= 1
                    continue
                }
                places.take(for: contact.process.uid)
            }
            sum.bytes[contact, default: 0] +|= bytes
        }
        return sum
    }
}

/// What history says of a contact. From then on history knows it, unless it has no room.
public enum ContactAnswer: Sendable, Hashable {
    case known
    /// - Parameter groupSince: The time of the group's first contact.
    case new(groupSince: Timestamp)
    case noRoom
}

extension InternetAddress {
    /// The addresses among which a service changes its own: /24 of IPv4, /48 of IPv6.
    package var network: AddressBlock {
        AddressBlock(around: self, bits: self.isIPv4 ? 120 : 48) ?? AddressBlock(self)
    }
}
