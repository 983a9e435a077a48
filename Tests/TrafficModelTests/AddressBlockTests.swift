import Testing

@testable import TrafficModel

@Suite("Blocks of addresses")
struct AddressBlockTests {
    @Test(
        "A block is written as it is read, in its shortest form",
        arguments: [
            ("10.0.0.0/8", "10.0.0.0/8"), ("0.0.0.0/0", "0.0.0.0/0"), ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1/32", "192.0.2.1"), ("128.0.0.0/1", "128.0.0.0/1"), ("192.0.2.254/31", "192.0.2.254/31"),
            ("::/0", "::/0"), ("2001:db8::/32", "2001:db8::/32"), ("2001:DB8:0::/33", "2001:db8::/33"),
            ("fe80::/10", "fe80::/10"), ("::1", "::1"), ("::1/128", "::1"), ("10.0.0.0/08", "10.0.0.0/8"),
            // IPv4 in an IPv6 socket's words.
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"), ("::ffff:192.0.2.1", "192.0.2.1"), ("::ffff:0:0/96", "0.0.0.0/0"),
        ]
    )
    func text(_ text: String, _ written: String) throws {
        #expect(try AddressBlock(text).description == written)
    }

    @Test(
        "A text that is no block is refused with the reason",
        arguments: [
            ("", .address("")), ("/8", .address("/8")), ("10/8", .address("10/8")),
            ("10.0.0/24", .address("10.0.0/24")),
            ("fe80::1%eth0", .address("fe80::1%eth0")), ("example.com", .address("example.com")),
            (" 10.0.0.0/8", .address(" 10.0.0.0/8")), ("1.2.3.4.5", .address("1.2.3.4.5")),
            ("10.0.0.0/", .prefixLength("10.0.0.0/", longest: 32)),
            ("10.0.0.0/33", .prefixLength("10.0.0.0/33", longest: 32)),
            ("10.0.0.0/-1", .prefixLength("10.0.0.0/-1", longest: 32)),
            ("10.0.0.0/+8", .prefixLength("10.0.0.0/+8", longest: 32)),
            ("10.0.0.0/8/8", .prefixLength("10.0.0.0/8/8", longest: 32)),
            ("10.0.0.0/255.0.0.0", .prefixLength("10.0.0.0/255.0.0.0", longest: 32)),
            ("10.0.0.0/99999999999999999999", .prefixLength("10.0.0.0/99999999999999999999", longest: 32)),
            ("::/129", .prefixLength("::/129", longest: 128)), ("::/x", .prefixLength("::/x", longest: 128)),
            // Part of the bits that make it IPv4: neither all of IPv4 nor anything of IPv6.
            ("::ffff:0:0/90", .prefixLength("::ffff:0:0/90", longest: 128)),
        ] as [(String, AddressBlock.Fault)]
    )
    func faults(_ text: String, _ fault: AddressBlock.Fault) {
        #expect(throws: fault) { try AddressBlock(text) }
        #expect(AddressBlock(around: text) == nil)
    }

    @Test(
        "Bits beyond the prefix are an error, and the message shows both corrections",
        arguments: [
            ("10.1.0.0/8", "10.0.0.0/8", "10.1.0.0"), ("192.0.2.1/31", "192.0.2.0/31", "192.0.2.1"),
            ("2001:db8::1/32", "2001:db8::/32", "2001:db8::1"), ("::1/0", "::/0", "::1"),
        ]
    )
    func hostBits(_ text: String, _ block: String, _ address: String) throws {
        let fault = #expect(throws: AddressBlock.Fault.self) { try AddressBlock(text) }
        let message = try #require(fault).description
        #expect(message.contains("write \(block) for"))
        #expect(message.contains("or \(address) for"))
        // A search for such a text means the block around the address.
        #expect(AddressBlock(around: text)?.description == block)
    }

    @Test("The unspecified address alone is an error", arguments: ["0.0.0.0", "::", "0.0.0.0/32", "::/128"])
    func unspecified(_ text: String) {
        #expect(throws: AddressBlock.Fault.self) { try AddressBlock(text) }
    }

    @Test(
        "An address lies in a block or not",
        arguments: [
            ("10.0.0.0/8", "10.255.255.255", true), ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "9.255.255.255", false), ("192.0.2.4/30", "192.0.2.7", true),
            ("192.0.2.4/30", "192.0.2.8", false), ("192.0.2.4/30", "192.0.2.3", false),
            ("192.0.2.1", "192.0.2.1", true), ("192.0.2.1", "192.0.2.0", false),
            ("0.0.0.0/0", "255.255.255.255", true), ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true), ("::/0", "192.0.2.1", false), ("::/0", "::ffff:192.0.2.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true), ("::/1", "2001:db8::1", true), ("8000::/1", "2001:db8::1", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true), ("2001:db8::/33", "2001:db8:8000::", false),
            ("fe80::/10", "febf::1", true), ("fe80::/10", "fec0::1", false),
            // The unspecified address means no remote end, so no block contains it.
            ("0.0.0.0/0", "0.0.0.0", false), ("::/0", "::", false),
        ]
    )
    func contains(_ block: String, _ address: String, _ lies: Bool) throws {
        #expect(try AddressBlock(block).contains(try #require(InternetAddress(address))) == lies)
    }

    @Test("Every prefix of an address is a block that it lies in, and that ends where the next bit differs")
    func everyLength() throws {
        for (text, first) in [("203.0.113.77", 96), ("2001:db8:1234:5678:9abc:def0:1357:9bdf", 0)] {
            let address = try #require(InternetAddress(text))
            for bits in first...128 {
                let block = try #require(AddressBlock(around: address, bits: bits))
                #expect(block.contains(address))
                #expect(try AddressBlock(block.description) == block)
                #expect(block.prefixLength == bits - first)
                if bits > first {
                    var other = address
                    other.bytes[(bits - 1) / 8] ^= 0x80 >> UInt8((bits - 1) % 8)
                    #expect(!block.contains(other), "\(block) and \(other)")
                }
            }
        }
    }
}
