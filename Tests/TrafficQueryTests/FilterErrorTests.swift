import TestSupport
import Testing
import TrafficModel
import TrafficQuery

@Suite("Errors of a faulty filter")
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
                cgroup, port, lport, rport, remote, local, proto, state, scope, class, role, host, route, method, status, outcome, rx, tx, total, rxrate, txrate,\
                 rate
                """
        )
        let other = try #require(throws: FilterError.self) { try Filter("proto:quic") }
        #expect(other.description.contains("'quic' at character 7 is not what 'proto' takes: one of tcp, udp,"))
    }

    @Test(
        "A word that joins terms in other languages is refused, with the right way to join; quoted, the word is text",
        arguments: [
            ("user:a OR user:b", 7, "user:a,b"), ("a or b", 2, "user:a,b"), ("a || b", 2, "user:a,b"),
            ("user:a AND user:b", 7, "leave it out"), ("a && b", 2, "leave it out"), ("not user:a", 0, "-user:a"),
            ("-or", 1, "user:a,b"),
        ]
    )
    func joiningWords(text: String, offset: Int, advice: String) throws {
        let error = try #require(throws: FilterError.self) { try Filter(text) }
        #expect(error.offset == offset)
        #expect(error.description.contains(advice), "\(error)")
        let quoted = text.split(separator: " ").map { $0.contains(":") ? "\($0)" : "\"\($0)\"" }
        #expect(throws: Never.self) { try Filter(quoted.joined(separator: " ")) }
    }

    @Test("A list needs a value at each place, and an error names the place of its fault")
    func lists() throws {
        #expect(throws: FilterError(reason: .missingValue(after: "port:80,"), offset: 2)) { try Filter("a port:80,") }
        #expect(throws: FilterError(reason: .missingValue(after: "user:"), offset: 0)) { try Filter("user:,a") }
        let error = try #require(throws: FilterError.self) { try Filter("proto:tcp,quic") }
        #expect(error.description.contains("'quic' at character 11 is not what 'proto' takes"))
        #expect(throws: FilterError.self) { try Filter("rx>1,2") }
    }

    @Test("A filter has limits for characters and for values, and the error names the limit")
    func limits() throws {
        let long = String(repeating: "x", count: 4096)
        #expect(throws: Never.self) { try Filter(long) }
        let tooLong = try #require(throws: FilterError.self) { try Filter(long + "x") }
        #expect(tooLong.description.contains("4096"))
        // The limit is of memory: some characters take more of it.
        #expect(throws: FilterError.self) { try Filter(String(repeating: "ü", count: 2049)) }
        let many = (0..<64).map { "p\($0)" }
        for separator in [" ", ","] {
            #expect(throws: Never.self) { try Filter(many.joined(separator: separator)) }
            let tooMany = try #require(throws: FilterError.self) {
                try Filter((many + ["x"]).joined(separator: separator))
            }
            #expect(tooMany.description.contains("64"))
        }
    }

    @Test("Random text is a filter or a FilterError, never a trap")
    func random() {
        var generator = Seeded(7)
        let pieces = [
            "process", "port", "rx", ":", ",", "or", ">", "=", "<", "-", "!", "\"", "\\", " ", "1M", "10.0.0.0/8", "ü",
            "\0", "👩‍👩‍👧",
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

    @Test(
        "a key that history does not know is refused with those that it knows",
        arguments: [
            ("pid:1", "pid", 1), ("tx>1 remote:10.0.0.1", "remote", 6), ("-rate>1", "rate", 2), ("xyzzy:1", "xyzzy", 1),
        ]
    )
    func history(text: String, key: String, place: Int) {
        #expect(throws: FilterError(reason: .notKnown(key, to: .history), offset: place - 1)) {
            try HistoryFilter(text)
        }
        let said = "\(FilterError(reason: .notKnown(key, to: .history), offset: place - 1))"
        #expect(
            said
                == "history does not know '\(key)' at character \(place), but these keys: process, user, unit, container, host, route, rx, tx, total"
        )
        let known = "process:a user:b unit:c container:d rx>1 tx>1 total>1 word"
        #expect(throws: Never.self) { try HistoryFilter(known + " host:e route:f") }
        // A past minute in `top` is divided by process alone.
        #expect(throws: Never.self) { try HistoryFilter(ofPastMinute: known) }
        #expect(throws: FilterError(reason: .notKnown("host", to: .pastMinute), offset: 2)) {
            try HistoryFilter(ofPastMinute: "a host:e")
        }
    }

    @Test(
        "a number may have a prefix and a unit",
        arguments: [
            ("1500", 1_500), ("1.5M", 1_500_000), ("2ki", 2_048), ("100Mbit", 100_000_000), ("1Gbit", 1e9), ("0", 0),
            ("", nil), ("M", nil), ("100Q", nil), ("1.5.1", nil), ("-1", nil), ("100b", nil), ("1e3", nil),
            ("bit", nil),
        ] as [(String, Double?)]
    )
    func amounts(text: String, number: Double?) {
        #expect(Amount.number(text, unit: "bit") == number)
    }
}
