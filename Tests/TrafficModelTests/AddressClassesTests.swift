import TestSupport
import Testing

@testable import TrafficModel

@Suite("Classes of addresses")
struct AddressClassesTests {
    @Test(
        "The longest prefix decides, whichever class it is of and in whatever order they were given",
        arguments: [
            ("8.8.8.8", "paid"), ("2001:db9::1", "paid"), ("10.0.0.1", "own"), ("10.1.2.3", "partner"),
            ("10.1.2.4", "own"), ("::ffff:10.0.0.1", "own"), ("2001:db8::1", "own"), ("2001:db8:ff::1", "partner"),
            ("192.0.2.0", "partner"), ("192.0.2.2", "paid"), ("127.0.0.1", "paid"), ("0.0.0.0", nil), ("::", nil),
        ]
    )
    func longest(_ address: String, _ name: String?) throws {
        let definitions = [
            "paid=0.0.0.0/0,::/0", "own=10.0.0.0/8,2001:db8::/32", "partner=10.1.2.3,192.0.2.0/31,2001:db8:ff::/48",
        ]
        let address = try #require(InternetAddress(address))
        #expect(try AddressClasses(definitions).name(of: address) == name)
        #expect(try AddressClasses(definitions.reversed()).name(of: address) == name)
    }

    @Test("An address outside all blocks has no class, and IPv4 blocks cover no IPv6 address")
    func uncovered() throws {
        let classes = try AddressClasses(["a=10.0.0.0/8", "b=0.0.0.0/0"])
        #expect(classes.name(of: try #require(InternetAddress("2001:db8::1"))) == nil)
        #expect(try AddressClasses(["a=10.0.0.0/8"]).name(of: try #require(InternetAddress("11.0.0.1"))) == nil)
        #expect(AddressClasses().isEmpty)
        #expect(AddressClasses().name(of: try #require(InternetAddress("11.0.0.1"))) == nil)
    }

    @Test("Names keep their order, and a block may be given twice in a class")
    func names() throws {
        #expect(
            try AddressClasses(["z-1=10.0.0.0/8,10.0.0.0/8", "_a=::1", "0=192.0.2.1"]).names == ["z-1", "_a", "0"]
        )
    }

    @Test(
        "A wrong definition is refused with the reason",
        arguments: [
            (["paid"], "'paid' is not NAME=CIDR[,CIDR...]"), ([""], "'' is not NAME=CIDR[,CIDR...]"),
            (["paid="], "'paid=' is not NAME=CIDR[,CIDR...]"), (["=10.0.0.0/8"], "'' is not a name for a class"),
            (["Paid=10.0.0.0/8"], "'Paid' is not a name"), (["a b=10.0.0.0/8"], "'a b' is not a name"),
            (["ü=10.0.0.0/8"], "'ü' is not a name"), (["10.0.0.0/8=paid"], "'10.0.0.0/8' is not a name"),
            (["a=10.0.0.0/8", "a=11.0.0.0/8"], "class 'a' is given twice"),
            (["a=10.0.0.0/8,"], "'' is not an address"), (["a=10.0.0.0/8, ::1"], "' ::1' is not an address"),
            (["a=10.0.0.0/33"], "'10.0.0.0/33' has no prefix length of 0 to 32"),
            (["a=2001:db8::/200"], "'2001:db8::/200' has no prefix length of 0 to 128"),
            (["a=10.0.0.1/8"], "10.0.0.1/8 goes on beyond its prefix"), (["a=0.0.0.0"], "write 0.0.0.0/0 for all"),
            (["a=10.0.0.0/8", "b=::1,10.0.0.0/8"], "10.0.0.0/8 is in class 'a' already"),
            (["a=10.0.0.1", "b=10.0.0.1/32"], "10.0.0.1 is in class 'a' already"),
            (["a=10.0.0.1", "b=::ffff:10.0.0.1"], "10.0.0.1 is in class 'a' already"),
        ]
    )
    func faults(_ definitions: [String], _ message: String) throws {
        let fault = #expect(throws: AddressClasses.Fault.self) { try AddressClasses(definitions) }
        #expect(try #require(fault).description.contains(message))
    }

    /// Looks the address up by the definition itself, one block after the other.
    private func nameByLooking(_ address: InternetAddress, _ blocks: [(AddressBlock, String)]) -> String? {
        blocks.filter { $0.0.contains(address) }.max { $0.0.bits < $1.0.bits }?.1
    }

    @Test("The lookup gives the same class as a search through every block", arguments: 0..<20 as Range<UInt64>)
    func lookUp(seed: UInt64) throws {
        var random = Seeded(seed)
        func address() -> InternetAddress {
            // Few different bits, so that many addresses lie in many blocks.
            var address = InternetAddress(bytes: InlineArray(repeating: 0))
            let isIPv4 = Bool.random(using: &random)
            if isIPv4 { (address.bytes[10], address.bytes[11]) = (0xff, 0xff) }
            for index in (isIPv4 ? 12 : 0)..<16 {
                address.bytes[index] = [0, 0, 1, 0x80].randomElement(using: &random) ?? 0
            }
            return address
        }
        var blocks: [AddressBlock: String] = [:]
        for _ in 0..<200 {
            let address = address()
            let bits = Int.random(in: address.isIPv4 ? 96...127 : 0...127, using: &random)
            let block = try #require(AddressBlock(around: address, bits: bits))
            blocks[block] = "class-\(Int.random(in: 0..<4, using: &random))"
        }
        let definitions = Dictionary(grouping: blocks, by: \.value).map { name, blocks in
            "\(name)=" + blocks.map { $0.key.description }.joined(separator: ",")
        }
        let classes = try AddressClasses(definitions)
        var covered = 0
        for _ in 0..<500 {
            let address = address()
            guard !address.isUnspecified else { continue }
            let expected = self.nameByLooking(address, blocks.map { ($0.key, $0.value) })
            #expect(classes.name(of: address) == expected, "\(address)")
            covered += expected == nil ? 0 : 1
        }
        #expect(covered > 50)
    }
}

@Suite("Scopes")
struct ScopeTests {
    @Test(
        "How far the other end is",
        arguments: [
            ("127.0.0.1", "127.0.0.1", .loopback), ("127.0.0.1", "127.8.8.8", .loopback), ("::1", "::1", .loopback),
            // One loopback address is enough, because its traffic can't leave the machine.
            ("127.0.0.1", "10.0.0.5", .loopback), ("10.0.0.5", "127.0.0.1", .loopback),
            ("10.0.0.5", "10.0.0.5", .sameHost), ("198.51.100.7", "198.51.100.7", .sameHost),
            // A container and the host's end of its veth pair, in either direction, whichever words the socket speaks.
            ("10.0.0.5", "172.17.0.2", .sameHost), ("172.17.0.2", "172.17.0.1", .sameHost),
            ("::ffff:172.17.0.1", "::ffff:172.17.0.2", .sameHost), ("172.17.0.1", "::ffff:172.17.0.2", .sameHost),
            ("fe80::1", "fe80::2", .sameHost), ("10.0.0.5", "198.51.100.9", .sameHost),
            // This is not one of the host's addresses.
            ("10.0.0.5", "172.17.0.3", .localArea), ("10.0.0.5", "192.168.1.1", .localArea),
            ("fe80::1", "fe80::3", .localArea), ("10.0.0.5", "169.254.169.254", .localArea),
            ("10.0.0.5", "100.64.0.1", .localArea), ("fd00::1", "fd00::2", .localArea),
            ("10.0.0.5", "224.0.0.251", .localArea), ("10.0.0.5", "8.8.8.8", .internet),
            ("10.0.0.5", "172.32.0.1", .internet), ("2001:db8::1", "2001:db8::2", .internet),
            ("10.0.0.5", "0.0.0.0", nil), ("::1", "::", nil), ("0.0.0.0", "8.8.8.8", .internet),
        ] as [(String, String, SocketScope?)]
    )
    func scope(_ local: String, _ remote: String, _ scope: SocketScope?) throws {
        let texts = ["127.0.0.1", "::1", "10.0.0.5", "172.17.0.1", "172.17.0.2", "fe80::1", "fe80::2", "198.51.100.9"]
        let host = Set(texts.compactMap { InternetAddress($0) })
        #expect(host.count == texts.count)
        let ends = (try #require(InternetAddress(local)), try #require(InternetAddress(remote)))
        #expect(SocketScope(local: ends.0, remote: ends.1, hostAddresses: host) == scope)
    }

    @Test("Every scope has its place in the order of distance")
    func order() {
        #expect(Set(SocketScope.farthestFirst) == Set(SocketScope.allCases))
        #expect(SocketScope.farthestFirst.count == SocketScope.allCases.count)
    }
}
