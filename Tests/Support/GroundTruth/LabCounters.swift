import Foundation

/// What has passed through a ``NetworkLab``. Cumulative, in bytes of IP packets without link headers, unless a comment
/// says otherwise.
public struct LabCounters: Equatable, Sendable {
    /// What arrived at one end of the veth.
    public struct Arrivals: Equatable, Sendable {
        public var ip: UInt64 = 0
        /// Neighbour discovery and multicast listener reports, which the kernel itself sends. Part of ``ip``.
        public var discovery: UInt64 = 0
        /// Packets that are not IP: ARP.
        public var other: UInt64 = 0
    }

    /// The kernel's statistics of an interface, with link headers.
    public struct Interface: Equatable, Sendable {
        public var sentBytes: UInt64 = 0
        public var sentPackets: UInt64 = 0
        public var receivedBytes: UInt64 = 0
        public var receivedPackets: UInt64 = 0
        /// By this end in both directions, and by a namespace in between on the way to it.
        public var dropped: UInt64 = 0
    }

    /// What the near side sent, counted at the peer.
    public var atPeer = Arrivals()
    /// What the peer sent, counted on its way into the near side, before any aggregation.
    public var atNear = Arrivals()
    /// Bytes handed to the near interface, before packets are cut to the size of the link.
    public var handedOver: UInt64 = 0
    /// The near side's end of the veth.
    public var veth = Interface()
    /// The near side's loopback.
    public var loopback = Interface()

    public init() {}

    /// ETH_HLEN, linux/if_ether.h
    static let linkHeaderBytes: UInt64 = 14

    /// Rules of nftables for one end of the veth. They count what comes out of the veth, and what is handed to it.
    /// Priority -450 comes before the kernel puts fragments together.
    static func rules(for interface: String) -> String {
        """
        table inet lab {
            counter ip_in {}
            counter discovery_in {}
            counter handed_over {}
            chain prerouting {
                type filter hook prerouting priority -450; policy accept;
                iifname "\(interface)" counter name ip_in
                iifname "\(interface)" \(self.isDiscovery) counter name discovery_in
            }
            chain postrouting {
                type filter hook postrouting priority 450; policy accept;
                oifname "\(interface)" counter name handed_over
            }
        }
        table netdev lab {
            counter other_in {}
            chain ingress {
                type filter hook ingress device "\(interface)" priority 0; policy accept;
                meta protocol != { ip, ip6 } counter name other_in
            }
        }
        """
    }

    /// Rules of nftables for a bridge's port.
    static func bridgeRules(for interface: String) -> String {
        """
        table netdev lab {
            counter ip_in {}
            counter discovery_in {}
            counter other_in {}
            chain ingress {
                type filter hook ingress device "\(interface)" priority 0; policy accept;
                meta protocol { ip, ip6 } counter name ip_in
                \(self.isDiscovery) counter name discovery_in
                meta protocol != { ip, ip6 } counter name other_in
            }
        }
        """
    }

    /// RFC 4861 and RFC 3810.
    private static let isDiscovery = "icmpv6 type { 130, 131, 132, 133, 134, 135, 136, 137, 143 }"
}

extension NetworkLab {
    /// Reads all counters, one after the other. Where two readings in a row are equal, both are of one moment.
    public func counters() async throws -> LabCounters {
        var counters = LabCounters()
        let near = try await Self.nftables(self.near)
        let peer = try await Self.nftables(self.peer)
        let atNear = if let middle { try await Self.nftables(middle) } else { near }
        counters.atPeer = try Self.arrivals(peer)
        counters.atNear = try Self.arrivals(atNear)
        counters.handedOver = try Self.bytes("handed_over", near)
        counters.veth = try await Self.statistics(self.near, Self.interface).counters
        if let middle { counters.veth.dropped += try await Self.statistics(middle, "near").tx.dropped }
        counters.loopback = try await Self.statistics(self.near, "lo").counters
        return counters
    }

    private static func arrivals(_ counters: [String: UInt64]) throws -> LabCounters.Arrivals {
        LabCounters.Arrivals(
            ip: try self.bytes("ip_in", counters),
            discovery: try self.bytes("discovery_in", counters),
            other: try self.bytes("other_in", counters)
        )
    }

    private static func bytes(_ name: String, _ counters: [String: UInt64]) throws -> UInt64 {
        guard let bytes = counters[name] else { throw Unavailable("its counter \(name) is gone") }
        return bytes
    }

    private static func statistics(_ namespace: LabNamespace, _ interface: String) async throws -> Link.Statistics {
        let text = try await namespace.ip("-json", "-statistics", "link", "show", "dev", interface)
        guard let link = try JSONDecoder().decode([Link].self, from: text).first else {
            throw Unavailable("its interface \(interface) is gone")
        }
        return link.statistics
    }

    /// - Returns: Bytes by the counter's name.
    private static func nftables(_ namespace: LabNamespace) async throws -> [String: UInt64] {
        let listing = try JSONDecoder().decode(
            Listing.self,
            from: try await namespace.run("nft", "-j", "list", "counters")
        )
        return Dictionary(
            listing.nftables.compactMap(\.counter).map { ($0.name, $0.bytes) },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// libnftables-json(5)
    private struct Listing: Decodable {
        struct Item: Decodable {
            var counter: Counter?
        }

        struct Counter: Decodable {
            var name: String
            var bytes: UInt64
        }

        var nftables: [Item]
    }

    /// `ip -json -statistics link`
    private struct Link: Decodable {
        struct Direction: Decodable {
            var bytes: UInt64
            var packets: UInt64
            var dropped: UInt64
        }

        struct Statistics: Decodable {
            var rx: Direction
            var tx: Direction

            var counters: LabCounters.Interface {
                LabCounters.Interface(
                    sentBytes: self.tx.bytes,
                    sentPackets: self.tx.packets,
                    receivedBytes: self.rx.bytes,
                    receivedPackets: self.rx.packets,
                    dropped: self.tx.dropped + self.rx.dropped
                )
            }
        }

        var statistics: Statistics

        enum CodingKeys: String, CodingKey {
            case statistics = "stats64"
        }
    }
}
