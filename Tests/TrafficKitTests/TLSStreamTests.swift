import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Places of plaintext in TLS records")
struct TLSStreamTests {
    /// Some records and what is known of them.
    struct Flight {
        var bytes: [UInt8] = []
        var plain: UInt64 = 0

        mutating func add(_ plain: Int, overhead: Int = 22, type: UInt8 = 23) {
            let length = plain + overhead - 5
            self.bytes += [type, 3, 3, UInt8(length >> 8), UInt8(length & 0xff)]
            self.bytes += repeatElement(0, count: length)
            self.plain += type == 23 ? UInt64(plain) : 0
        }

        /// A record that is encrypted like data and has none.
        mutating func addTicket(_ count: Int, overhead: Int = 22) {
            let plain = self.plain
            self.add(count, overhead: overhead)
            self.plain = plain
        }
    }

    private static func pass(_ flight: Flight, _ stream: inout TLSStream) {
        stream.passed(ciphertext: flight.bytes.span)
        stream.passed(plaintext: flight.plain)
        stream.settle()
    }

    private static func interval(_ stream: TLSStream, _ from: UInt64, _ to: UInt64) -> [UInt64]? {
        stream.interval(.init(from: from, to: to)).map { [$0.interval.from, $0.interval.to, $0.interval.bytes] }
    }

    @Test("a message that ends within a record ends there; the record's overhead is the first one's")
    func shared() {
        var stream = TLSStream(position: 1_000)
        var flight = Flight()
        flight.add(100)
        flight.add(50)
        Self.pass(flight, &stream)
        #expect(Self.interval(stream, 0, 30) == [1_000, 1_052, 52])
        #expect(Self.interval(stream, 30, 100) == [1_052, 1_122, 70])
        #expect(Self.interval(stream, 30, 101) == [1_052, 1_145, 93])
        #expect(Self.interval(stream, 100, 150) == [1_122, 1_194, 72])
        #expect(Self.interval(stream, 100, 151) == nil)
        #expect(stream.position == 1_194 && stream.beside == 1_000)
    }

    @Test(
        "records without plaintext are told from data: before, between and after it",
        arguments: [0, 1, 2, 3]
    )
    func tickets(at place: Int) {
        var stream = TLSStream()
        var flight = Flight()
        for index in 0..<3 {
            if index == place { flight.addTicket(233) }
            flight.add(100 + index)
        }
        if place == 3 { flight.addTicket(233) }
        Self.pass(flight, &stream)
        let ticket = UInt64(233 + 22)
        let all = stream.interval(.init(from: 0, to: 303))
        #expect(stream.beside == ticket && all?.isExact == true)
        #expect(all?.interval.bytes == 303 + 3 * 22)
        let isWithin = place == 1 || place == 2
        #expect(
            (all?.interval.to ?? 0) - (all?.interval.from ?? 0) == 303 + 3 * 22 + (isWithin ? ticket : 0)
        )
    }

    @Test("a handshake that ends in the flight of the first data")
    func handshake() {
        var stream = TLSStream()
        var flight = Flight()
        flight.add(512, overhead: 5, type: 22)
        flight.add(1, overhead: 5, type: 20)
        flight.addTicket(52)
        flight.add(300)
        Self.pass(flight, &stream)
        #expect(stream.beside == 517 + 6 + 74)
        #expect(Self.interval(stream, 0, 300) == [597, 919, 322])
    }

    /// Bytes of a handshake's record behind ChangeCipherSpec: a Finished of TLS 1.2, a second hello of TLS 1.3, or none.
    @Test("one record is exact with any cipher; several of CBC count as one", arguments: [85, 94, 95, 0])
    func blockCipher(handshake: Int) {
        var stream = TLSStream()
        var flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        if handshake > 0 { flight.add(handshake - 5, overhead: 5, type: 22) }
        flight.add(100, overhead: 69)
        Self.pass(flight, &stream)
        let base = UInt64(6 + handshake)
        #expect(Self.interval(stream, 0, 60) == [base, base + 129, 129])
        stream.forget(before: 100)
        flight = Flight()
        flight.add(10, overhead: 63)
        flight.add(20, overhead: 69)
        Self.pass(flight, &stream)
        // An alert of TLS 1.3, padded, would look no different.
        let isBefore13 = (1...94).contains(handshake)
        #expect(stream.interval(.init(from: 100, to: 130)).map { $0.isExact } == isBefore13)
        #expect(Self.interval(stream, 100, 130) == [base + 169, base + 331, 162])
        #expect(stream.interval(.init(from: 100, to: 110)).map { $0.isExact } == false)
    }

    /// Two records that fit no cipher, of a peer that has sent so many bytes of a handshake in each record behind ChangeCipherSpec.
    private static func padded(behind handshake: [Int], _ learned: TLSStream? = nil, first: Int = 290) -> Bool? {
        var stream = TLSStream(by: .client)
        var flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        for count in handshake { flight.add(count - 5, overhead: 5, type: 22) }
        Self.pass(flight, &stream)
        if let learned { stream.learn(from: learned) }
        flight = Flight()
        flight.add(first, overhead: 63)
        flight.add(290, overhead: 69)
        Self.pass(flight, &stream)
        return stream.interval(.init(from: 0, to: UInt64(first + 290)))?.isExact
    }

    @Test("what version it is only this process's own records say: a peer cuts its hello as it likes")
    func forgedFinished() {
        // The second hello, in two pieces behind ChangeCipherSpec, or with its first piece before that.
        for handshake in [[112, 100], [85, 60], [85]] { #expect(Self.padded(behind: handshake) == false) }
        var own = TLSStream()
        var flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        flight.add(80, overhead: 5, type: 22)
        Self.pass(flight, &own)
        #expect(Self.padded(behind: [85], own) == true)
        // The first one may be without plaintext.
        #expect(Self.padded(behind: [85], own, first: 278) == false)
        // Behind a HelloRetryRequest: the shortest ServerHello.
        own = TLSStream()
        flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        flight.add(90, overhead: 5, type: 22)
        Self.pass(flight, &own)
        #expect(Self.padded(behind: [85], own) == false)
    }

    /// How many bytes each record's plaintext would have, and which are tickets and alerts.
    static let untold: [(records: [Int], empty: [Int])] = [
        ([2, 2], [1]), ([2, 2], [0]), ([233, 2, 2], [0, 2]), ([5, 2, 3, 1], [0]), ([30, 16, 14], [0]),
    ]

    @Test(
        "where it can't be told which records are without plaintext, the ends of all are not exact",
        arguments: Self.untold
    )
    func doubt(records: [Int], empty: [Int]) {
        var stream = TLSStream()
        var flight = Flight()
        for (index, count) in records.enumerated() {
            if empty.contains(index) { flight.addTicket(count) } else { flight.add(count) }
        }
        Self.pass(flight, &stream)
        #expect(stream.interval(.init(from: 0, to: flight.plain))?.isExact == false)
    }

    @Test("records without plaintext on both sides of data are told, too")
    func around() {
        var stream = TLSStream()
        var flight = Flight()
        flight.addTicket(233)
        flight.addTicket(234)
        flight.add(100)
        flight.addTicket(2)
        Self.pass(flight, &stream)
        #expect(Self.interval(stream, 0, 100) == [511, 633, 122])
        #expect(stream.interval(.init(from: 0, to: 100))?.isExact == true)
        #expect(stream.beside == 511 + 24)
    }

    /// What a peer has sent: before its data a handshake's records and tickets, behind that an alert, and what each record of data adds.
    struct Sent: Sendable {
        var maker = TLSStream.Maker.client
        var position: UInt64 = 0
        /// Behind a record with plaintext that came alone.
        var isLater = false
        /// This process's own Finished says so.
        var isBefore13 = false
        var before: [Int] = []
        var data: [(plain: Int, overhead: Int)]
        var behind: [Int] = []
        let isExact: Bool

        func read() -> Bool? {
            var own = TLSStream()
            var flight = Flight()
            flight.add(1, overhead: 5, type: 20)
            if self.isBefore13 { flight.add(40, overhead: 5, type: 22) }
            TLSStreamTests.pass(flight, &own)
            var stream = TLSStream(position: self.position, by: self.maker)
            stream.learn(from: own)
            if self.isLater {
                flight = Flight()
                flight.add(10)
                TLSStreamTests.pass(flight, &stream)
            }
            flight = Flight()
            for count in self.before { flight.addTicket(count) }
            for (plain, overhead) in self.data { flight.add(plain, overhead: overhead) }
            for count in self.behind { flight.addTicket(count) }
            TLSStreamTests.pass(flight, &stream)
            let from: UInt64 = self.isLater ? 10 : 0
            return stream.interval(.init(from: from, to: from + flight.plain))?.isExact
        }
    }

    private static let two = [(100, 22), (40, 22)]
    static let sent: [Sent] = [
        // A client's Finished, and what it would be without.
        Sent(before: [52], data: two, isExact: true), Sent(data: two, isExact: false),
        Sent(before: [52], data: two, behind: [2], isExact: true), Sent(before: [52, 200], data: two, isExact: false),
        // As if the second record of data were empty, or the first one.
        Sent(before: [52], data: [(60, 62), (40, 22)], isExact: false),
        Sent(before: [52], data: [(100, 22), (40, 122)], isExact: false),
        Sent(isLater: true, data: two, isExact: true), Sent(isLater: true, data: two, behind: [2], isExact: true),
        Sent(isLater: true, before: [52], data: two, isExact: false),
        Sent(isLater: true, data: [(60, 62), (40, 22)], isExact: false),
        Sent(isLater: true, data: [(100, 22), (40, 122)], isExact: false),
        // A server's handshake and tickets.
        Sent(maker: .server, before: [30, 900, 80, 52, 233, 233], data: two, behind: [2], isExact: true),
        Sent(maker: .server, data: two, isExact: true),
        Sent(maker: .server, isLater: true, before: [233], data: two, isExact: false),
        Sent(maker: .server, data: two, behind: [233], isExact: false),
        // From the end of the handshake on.
        Sent(position: 700, data: two, isExact: true), Sent(position: 700, before: [52], data: two, isExact: false),
        // Padded to look like TLS 1.2, and the real one.
        Sent(before: [52], data: [(100, 22), (40, 36)], isExact: false),
        Sent(isLater: true, data: [(100, 29), (40, 29)], isExact: false),
        Sent(isBefore13: true, data: [(100, 29), (40, 29)], isExact: true),
        Sent(isBefore13: true, data: [(100, 21), (40, 21)], isExact: true),
        Sent(isBefore13: true, before: [52], data: [(100, 29), (40, 29)], isExact: false),
    ]

    @Test("a peer's padding makes no place exact that a peer may choose", arguments: sent)
    func padding(_ sent: Sent) {
        #expect(sent.read() == sent.isExact)
    }

    /// Records whose plaintext is not known.
    private static func kept(_ stream: TLSStream) -> Int? {
        (Mirror(reflecting: stream).descendant("records") as? [TLSRecordScanner.Record])?.count
    }

    @Test(
        "of a peer's records 1,024 are told apart, and of one's own all",
        arguments: [1_024, 1_025],
        [TLSStream.Maker.own, .server]
    )
    func many(count: Int, maker: TLSStream.Maker) {
        var stream = TLSStream(position: 7, by: maker)
        stream.learn(from: TLSStream())
        var flight = Flight()
        flight.add(1)
        Self.pass(flight, &stream)
        flight = Flight()
        for _ in 0..<count { flight.add(1) }
        Self.pass(flight, &stream)
        let end = 1 + UInt64(count)
        #expect(stream.interval(.init(from: 1, to: end))?.isExact == (maker == .own || count == 1_024))
        #expect(Self.interval(stream, 1, end) == [30, 7 + end * 23, UInt64(count) * 23])
        #expect(stream.beside == 7)
    }

    @Test(
        "a peer that sends records without plaintext, or pieces of its hello, does not make anybody keep them",
        arguments: [22, 23]
    )
    func flood(type: UInt8) {
        var stream = TLSStream(by: .client)
        for _ in 0..<100 {
            var flight = Flight()
            for _ in 0..<100 { flight.add(1, type: type) }
            flight.plain = 0
            Self.pass(flight, &stream)
            #expect(Self.kept(stream).map { $0 <= 1_024 } == true)
        }
        var flight = Flight()
        flight.add(50)
        Self.pass(flight, &stream)
        // A record of a handshake has no plaintext, however many are put together.
        let isHandshake = type == 22
        #expect(stream.interval(.init(from: 0, to: 50))?.isExact == isHandshake)
        #expect(Self.interval(stream, 0, 50) == (isHandshake ? [230_000, 230_072, 72] : [0, 230_072, 230_072]))
        #expect(stream.isSettled && stream.beside == (isHandshake ? 230_000 : 0) && Self.kept(stream) == 0)
    }

    @Test("records that were put together are never a single one")
    func merged() {
        var stream = TLSStream(by: .client)
        var flight = Flight()
        for _ in 0..<1_025 { flight.addTicket(1) }
        Self.pass(flight, &stream)
        #expect(Self.kept(stream) == 1)
        stream.passed(plaintext: 10)
        stream.settle()
        #expect(stream.interval(.init(from: 0, to: 10)).map { $0.isExact } == false)
    }

    @Test("where a peer's first bytes begin no record, it can't choose where others begin")
    func forged() {
        var stream = TLSStream(by: .client)
        stream.passed(ciphertext: ([0x80, 0x2e, 1, 3, 3] + [UInt8](repeating: 0, count: 43)).span)
        // The header of a record that is none, and what it may have chosen of the next.
        stream.passed(ciphertext: ([22, 3, 3, 0, 5] + [UInt8](repeating: 0, count: 5)).span)
        for count in 1...3 {
            var flight = Flight()
            flight.add(100)
            Self.pass(flight, &stream)
            let end = UInt64(58 + 122 * count)
            #expect(stream.isSettled && stream.position == end)
            let message = stream.interval(.init(from: UInt64(100 * count - 100), to: UInt64(100 * count)))
            #expect(message?.isExact == false && message?.interval.to == end)
        }
    }

    @Test("more plaintext than a peer's records may have: they are none, and what comes has a place again")
    func tooLittle() {
        var stream = TLSStream(by: .client)
        var flight = Flight()
        flight.add(10, type: 22)
        flight.add(10)
        flight.plain = 100
        Self.pass(flight, &stream)
        #expect(!stream.isSettled)
        flight = Flight()
        flight.add(300, type: 22)
        Self.pass(flight, &stream)
        #expect(stream.isSettled && Self.interval(stream, 0, 100) == [0, 386, 386])
        flight = Flight()
        flight.add(10)
        Self.pass(flight, &stream)
        #expect(stream.interval(.init(from: 100, to: 110)).map { $0.isExact } == false)
        #expect(stream.beside == 0)
    }

    @Test("bytes outside data records keep their place, also beside records that count as one")
    func besideSeveral() {
        var stream = TLSStream(position: 1_000)
        var flight = Flight()
        flight.add(1, overhead: 5, type: 22)
        flight.add(10, overhead: 63)
        flight.add(20, overhead: 69)
        flight.add(4, overhead: 5, type: 22)
        Self.pass(flight, &stream)
        #expect(stream.beside == 1_000 + 6 + 9)
        flight = Flight()
        flight.add(100, overhead: 69)
        Self.pass(flight, &stream)
        #expect(Self.interval(stream, 0, 130) == [1_006, 1_346, 162 + 169])
    }

    @Test("the rest of a record that began before is no plaintext, and what follows is in step again")
    func restOfRecord() {
        var stream = TLSStream(position: 1_000)
        stream.passed(ciphertext: [UInt8](repeating: 0xaa, count: 100).span)
        var flight = Flight()
        flight.add(50)
        Self.pass(flight, &stream)
        #expect(Self.interval(stream, 0, 50) == [1_100, 1_172, 72])
        #expect(stream.beside == 1_100 && stream.position == 1_172)
    }

    @Test("what is no TLS has its place, too, and never traps")
    func garbage() {
        var stream = TLSStream()
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let bytes = (0..<Int.random(in: 1...50)).map { _ in UInt8.random(in: 0...30, using: &random) }
            stream.passed(ciphertext: bytes.span)
            if Bool.random() { stream.passed(plaintext: .random(in: 0...60)) }
            stream.settle()
            if stream.isSettled { stream.forget(before: 0) }
        }
        #expect(stream.beside <= stream.position)
    }

    /// Both sides of what a connection does, made up: messages in writes, writes in records, tickets between them.
    @Test("whatever messages, records and flights, intervals are disjoint and add up", arguments: [22, 29, 21])
    func anything(overhead: Int) throws {
        for _ in 0..<40 {
            let base = UInt64.random(in: 0...5_000)
            var stream = TLSStream(position: base)
            let messages = (0..<40).map { _ in UInt64.random(in: 1...9_000) }
            var (message, begins, plain, claimed) = (0, UInt64(0), UInt64(0), UInt64(0))
            var (last, beside) = (base, base)
            let total = messages.reduce(0, +)
            while plain < total {
                var flight = Flight()
                let ticket = overhead == 22 ? Int.random(in: 0...8) : 9
                for index in 0..<Int.random(in: 1...4) where plain + flight.plain < total {
                    if index == ticket {
                        flight.addTicket(61, overhead: overhead)
                        beside += 61 + UInt64(overhead)
                    }
                    flight.add(
                        Int(min(UInt64.random(in: 100...5_000), total - plain - flight.plain)),
                        overhead: overhead
                    )
                }
                Self.pass(flight, &stream)
                #expect(stream.isSettled)
                plain += flight.plain
                while message < messages.count, begins + messages[message] <= plain {
                    let (interval, isExact) = try #require(
                        stream.interval(.init(from: begins, to: begins + messages[message]))
                    )
                    #expect(isExact && interval.from >= last && interval.bytes >= messages[message])
                    last = interval.to
                    claimed += interval.bytes
                    begins += messages[message]
                    message += 1
                }
                stream.forget(before: begins)
            }
            #expect(message == messages.count)
            #expect(stream.beside == beside)
            #expect(claimed + stream.beside == stream.position)
        }
    }

    @Test(
        "a record that was on its way before anybody counted is nobody's, also before TLS 1.3",
        arguments: [22, 29, 21]
    )
    func earlier(overhead: Int) {
        var stream = TLSStream(position: 700)
        var flight = Flight()
        flight.addTicket(9, overhead: overhead)
        flight.add(100, overhead: overhead)
        Self.pass(flight, &stream)
        let message = stream.interval(.init(from: 0, to: 100))
        #expect(message?.isExact == true && message?.interval.bytes == UInt64(100 + overhead))
        #expect(stream.beside == UInt64(700 + 9 + overhead))
    }
}
