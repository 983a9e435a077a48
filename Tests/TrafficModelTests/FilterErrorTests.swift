import Testing
import TrafficModel

@Suite("What a filter says of a faulty text")
struct FilterErrorTests {
    @Test(
        "The error has the place and the reason",
        arguments: [
            ("port:443 prot:tcp", 9, .unknownKey("prot", suggestion: .transport)),
            ("proces:x", 0, .unknownKey("proces", suggestion: .process)),
            ("xyzzy:1", 0, .unknownKey("xyzzy", suggestion: nil)),
            ("ry>1", 0, .unknownKey("ry", suggestion: .received)),
            ("kernel:nfsd", 0, .unknownKey("kernel", suggestion: nil)),
            ("ü port:", 2, .missingValue(after: "port:")),
            ("rx>=", 0, .missingValue(after: "rx>=")),
            ("a - b", 2, .missingValue(after: "-")),
            ("!", 0, .missingValue(after: "!")),
            ("process:\"\"", 0, .missingValue(after: "process:")),
            ("process:\"a b", 8, .unterminatedQuote),
            ("port>80", 0, .wrongOperator(">", key: .port, expected: "':'")),
            ("rx:1M", 0, .wrongOperator(":", key: .received, expected: "one of > >= < <= =")),
        ] as [(String, Int, FilterError.Reason)]
    )
    func reasons(text: String, offset: Int, reason: FilterError.Reason) {
        #expect(throws: FilterError(reason: reason, offset: offset)) { try Filter(text) }
    }

    @Test(
        "A value that a key does not take is refused where it stands",
        arguments: [
            ("pid:x", "pid"), ("pid:99999999999", "pid"), ("port:0x50", "port"), ("port:65536", "port"),
            ("port:9-8", "port"), ("port:1-2-3", "port"), ("port:80-", "port"), ("lport:http", "lport"),
            ("rport:", nil), ("remote:10.0.0.0/33", "remote"), ("remote:::/129", "remote"), ("remote:10/8", "remote"),
            ("local:example.com", "local"), ("proto:quic", "proto"), ("state:open", "state"), ("scope:wan", "scope"),
            ("class:a.b", "class"), ("class:", nil),
            ("role:owner", "role"), ("rx>", nil), ("rx>M", "rx"), ("tx>1.2.3", "tx"), ("total>1X", "total"),
            ("rate>-1", "rate"), ("rxrate>nan", "rxrate"), ("txrate>1e3", "txrate"), ("rx>>1", "rx"),
        ]
    )
    func values(text: String, key: String?) throws {
        let error = try #require(throws: FilterError.self) { try Filter(text) }
        if let key {
            guard case .invalidValue(_, let refusing, _) = error.reason else {
                Issue.record("\(error)")
                return
            }
            #expect(refusing.rawValue == key)
            #expect(error.offset > 0)
        }
    }

    @Test("The message names the place, what was likely meant, and all keys")
    func message() throws {
        let error = try #require(throws: FilterError.self) { try Filter("port:443 prot:tcp") }
        #expect(
            error.description == """
                unknown key 'prot' at character 10; did you mean 'proto'? Keys: process, pid, user, unit, container, \
                cgroup, port, lport, rport, remote, local, proto, state, scope, class, role, rx, tx, total, rxrate, txrate,\
                 rate
                """
        )
        let other = try #require(throws: FilterError.self) { try Filter("proto:quic") }
        #expect(other.description.contains("'quic' at character 7 is not what 'proto' takes: one of tcp, udp,"))
    }

    @Test("Random text is a filter or a FilterError, never a trap")
    func random() {
        var generator = SplitMix(state: 7)
        let pieces = [
            "process", "port", "rx", ":", ">", "=", "<", "-", "!", "\"", "\\", " ", "1M", "10.0.0.0/8", "ü", "\0", "👩‍👩‍👧",
        ]
        for _ in 0..<20_000 {
            let text = (0..<Int.random(in: 0...8, using: &generator)).map { _ in
                pieces.randomElement(using: &generator) ?? ""
            }.joined()
            do throws(FilterError) {
                let filter = try Filter(text)
                _ = FilterTests.snapshot.filtered(by: filter)
            } catch {
                #expect((0...text.count).contains(error.offset), "\(text)")
            }
        }
    }
}

/// Seeded, so that a failure comes again.
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        self.state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
