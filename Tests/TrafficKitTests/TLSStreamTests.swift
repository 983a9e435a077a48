import Testing
import TrafficReport

@testable import TrafficKit

@Suite("Places of plaintext in TLS records")
struct TLSStreamTests {
    /// Some records, and their plaintext.
    struct Flight {
        var bytes: [UInt8] = []
        var plain: UInt64 = 0

        mutating func add(_ plain: Int, overhead: Int = 22, type: UInt8 = 23, minor: UInt8 = 3) {
            let length = plain + overhead - 5
            self.bytes += [type, 3, minor, UInt8(length >> 8), UInt8(length & 0xff)]
            self.bytes += repeatElement(0, count: length)
            self.plain += type == 23 ? UInt64(plain) : 0
        }

        /// A record that is encrypted like data, but has no plaintext.
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

    @Test("a message can end within a record; the record's overhead counts for its first message")
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

    @Test("a long message keeps one place, however many records it has, and has an interval at its end")
    func longMessage() {
        var stream = TLSStream()
        for index in 0..<10_000 as Range<UInt64> {
            var flight = Flight()
            flight.add(1)
            Self.pass(flight, &stream)
            stream.forget(before: 0, readTo: index)
        }
        #expect(stream.placesKept <= 2)
        stream.forget(before: 0, readTo: 10_000)
        #expect(Self.interval(stream, 0, 10_000) == [0, 230_000, 230_000])
    }

    @Test(
        "records without plaintext are recognized: before data, between data and after data",
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

    /// The length of a handshake's record after ChangeCipherSpec: a Finished of TLS 1.2, a second hello of TLS 1.3, or
    /// no record.
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
        stream.forget(before: 100, readTo: 100)
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

    /// Two records that fit no cipher. Before, the peer has sent handshake records of these lengths after
    /// ChangeCipherSpec.
    private static func padded(behind handshake: [Int], _ learned: TLSStream? = nil, first: Int = 290) -> Bool? {
        var stream = TLSStream(by: .peerClient)
        var flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        for count in handshake { flight.add(count - 5, overhead: 5, type: 22) }
        Self.pass(flight, &stream)
        if let learned { stream.learn(learned.version) }
        flight = Flight()
        flight.add(first, overhead: 63)
        flight.add(290, overhead: 69)
        Self.pass(flight, &stream)
        return stream.interval(.init(from: 0, to: UInt64(first + 290)))?.isExact
    }

    @Test("only this process's own records show the version: a peer may cut its hello anywhere")
    func forgedFinished() {
        // The second hello, in two pieces after ChangeCipherSpec, or with its first piece before that.
        for handshake in [[112, 100], [85, 60], [85]] { #expect(Self.padded(behind: handshake) == false) }
        var own = TLSStream()
        var flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        flight.add(80, overhead: 5, type: 22)
        Self.pass(flight, &own)
        #expect(Self.padded(behind: [85], own) == true)
        // The first record may have no plaintext.
        #expect(Self.padded(behind: [85], own, first: 278) == false)
        // After a HelloRetryRequest: the shortest ServerHello.
        own = TLSStream()
        flight = Flight()
        flight.add(1, overhead: 5, type: 20)
        flight.add(90, overhead: 5, type: 22)
        Self.pass(flight, &own)
        #expect(Self.padded(behind: [85], own) == false)
    }

    /// How many bytes of plaintext each record would have, and which records are tickets and alerts.
    static let untold: [(records: [Int], empty: [Int])] = [
        ([2, 2], [1]), ([2, 2], [0]), ([233, 2, 2], [0, 2]), ([5, 2, 3, 1], [0]), ([30, 16, 14], [0]),
    ]

    @Test(
        "if several records may be those without plaintext, no end of a record is exact",
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

    @Test("records without plaintext on both sides of data are recognized, too")
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

    /// What a peer sends at once: a handshake's records or tickets (`before`), data, then an alert or a ticket (`behind`).
    struct PeerFlight: Sendable {
        var maker = TLSStream.Maker.peerClient
        var position: UInt64 = 0
        /// The flight comes after a record with plaintext that came alone.
        var isLater = false
        /// What this process has sent.
        var own = Own.records13
        var minor: UInt8 = 3
        var before: [Int] = []
        var data: [(plain: Int, overhead: Int)]
        var behind: [Int] = []
        let isExact: Bool

        enum Own {
            /// Only a hello.
            case hello
            case records13
            case finished12
            /// Only records after the handshake; the value is what each record adds.
            case data(UInt64)

            var stream: TLSStream {
                var stream = TLSStream()
                var flight = Flight()
                flight.add(1, overhead: 5, type: 20)
                switch self {
                case .hello: break
                case .records13: flight.addTicket(52)
                case .finished12: flight.add(40, overhead: 5, type: 22)
                case .data(let overhead):
                    (stream, flight) = (TLSStream(position: 700), Flight())
                    if overhead > 0 { flight.add(10, overhead: Int(overhead)) }
                }
                TLSStreamTests.pass(flight, &stream)
                return stream
            }
        }

        /// - Returns: Whether the place of all data is exact, its interval, and the bytes outside data records.
        func place() throws -> (isExact: Bool, interval: Report.Interval, beside: UInt64) {
            var stream = TLSStream(position: self.position, by: self.maker)
            stream.learn(self.own.stream.version)
            var flight = Flight()
            if self.isLater {
                flight.add(10)
                TLSStreamTests.pass(flight, &stream)
            }
            flight = Flight()
            for count in self.before { flight.addTicket(count) }
            for (plain, overhead) in self.data { flight.add(plain, overhead: overhead, minor: self.minor) }
            for count in self.behind { flight.addTicket(count) }
            TLSStreamTests.pass(flight, &stream)
            let from: UInt64 = self.isLater ? 10 : 0
            let place = try #require(stream.interval(.init(from: from, to: from + flight.plain)))
            return (place.isExact, place.interval, stream.beside)
        }

        /// Where the records of data are, and how many bytes other records take before and after them.
        var truth: (from: UInt64, bytes: UInt64, beside: UInt64) {
            let empty = { (counts: [Int]) in counts.reduce(0) { $0 + UInt64($1) + 22 } }
            return (
                self.position + (self.isLater ? 32 : 0) + empty(self.before),
                self.data.reduce(0) { $0 + UInt64($1.plain + $1.overhead) },
                self.position + empty(self.before) + empty(self.behind)
            )
        }
    }

    private static let twoRecords = [(100, 22), (40, 22)]
    static let peerFlights: [PeerFlight] = [
        // A client's Finished, no handshake record, and several handshake records.
        PeerFlight(before: [52], data: twoRecords, isExact: true), PeerFlight(data: twoRecords, isExact: false),
        PeerFlight(before: [52], data: twoRecords, behind: [2], isExact: true),
        PeerFlight(before: [52, 200], data: twoRecords, isExact: false),
        // Padded as if the second record of data, or the first record, were empty.
        PeerFlight(before: [52], data: [(60, 62), (40, 22)], isExact: false),
        PeerFlight(before: [52], data: [(100, 22), (40, 122)], isExact: false),
        PeerFlight(isLater: true, data: twoRecords, isExact: true),
        PeerFlight(isLater: true, data: twoRecords, behind: [2], isExact: true),
        PeerFlight(isLater: true, before: [52], data: twoRecords, isExact: false),
        PeerFlight(isLater: true, data: [(60, 62), (40, 22)], isExact: false),
        PeerFlight(isLater: true, data: [(100, 22), (40, 122)], isExact: false),
        // A server's handshake and tickets.
        PeerFlight(
            maker: .peerServer,
            before: [30, 900, 80, 52, 233, 233],
            data: twoRecords,
            behind: [2],
            isExact: true
        ),
        PeerFlight(maker: .peerServer, data: twoRecords, isExact: true),
        PeerFlight(maker: .peerServer, isLater: true, before: [233], data: twoRecords, isExact: false),
        PeerFlight(maker: .peerServer, data: twoRecords, behind: [233], isExact: false),
        // Only records after the handshake.
        PeerFlight(position: 700, data: twoRecords, isExact: true),
        PeerFlight(position: 700, before: [52], data: twoRecords, isExact: false),
        // Padded to look like TLS 1.2, and real TLS 1.2.
        PeerFlight(before: [52], data: [(100, 22), (40, 36)], isExact: false),
        PeerFlight(isLater: true, data: [(100, 29), (40, 29)], isExact: false),
        PeerFlight(own: .finished12, data: [(100, 29), (40, 29)], isExact: true),
        PeerFlight(own: .finished12, data: [(100, 21), (40, 21)], isExact: true),
        PeerFlight(own: .finished12, before: [52], data: [(100, 29), (40, 29)], isExact: false),
        // CBC of TLS 1.0, padded as if each record added 29 bytes.
        PeerFlight(own: .finished12, minor: 1, data: [(105, 28), (103, 30)], isExact: false),
        PeerFlight(own: .finished12, minor: 1, data: [(100, 29), (40, 29)], isExact: false),
        // This process's own data show the version, or nothing shows it.
        PeerFlight(own: .data(29), data: [(100, 29), (40, 29)], isExact: true),
        PeerFlight(position: 700, own: .data(22), data: twoRecords, isExact: true),
        PeerFlight(own: .data(0), before: [52], data: twoRecords, isExact: false),
        PeerFlight(own: .hello, before: [52], data: twoRecords, isExact: false),
    ]

    @Test("a peer cannot make a wrong place exact by padding", arguments: peerFlights)
    func padding(_ flight: PeerFlight) throws {
        let (isExact, interval, beside) = try flight.place()
        #expect(isExact == flight.isExact)
        let truth = flight.truth
        guard isExact else { return }
        #expect(interval.from == truth.from && interval.bytes == truth.bytes && beside == truth.beside)
    }

    /// Records whose plaintext is not known.
    private static func kept(_ stream: TLSStream) -> Int? {
        (Mirror(reflecting: stream).descendant("records") as? [TLSRecordScanner.Record])?.count
    }

    @Test(
        "up to 1,024 of a peer's records are told apart, and all records of this process",
        arguments: [1_024, 1_025],
        [TLSStream.Maker.thisProcess, .peerServer]
    )
    func many(count: Int, maker: TLSStream.Maker) {
        var stream = TLSStream(position: 7, by: maker)
        stream.learn(PeerFlight.Own.records13.stream.version)
        var flight = Flight()
        flight.add(1)
        Self.pass(flight, &stream)
        flight = Flight()
        for _ in 0..<count { flight.add(1) }
        Self.pass(flight, &stream)
        let end = 1 + UInt64(count)
        #expect(stream.interval(.init(from: 1, to: end))?.isExact == (maker == .thisProcess || count == 1_024))
        #expect(Self.interval(stream, 1, end) == [30, 7 + end * 23, UInt64(count) * 23])
        #expect(stream.beside == 7)
    }

    @Test(
        "a peer can't make the stream keep many records without plaintext, or pieces of a hello",
        arguments: [22, 23]
    )
    func flood(type: UInt8) {
        var stream = TLSStream(by: .peerClient)
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
        // Records of a handshake have no plaintext, however many are joined.
        let isHandshake = type == 22
        #expect(stream.interval(.init(from: 0, to: 50))?.isExact == isHandshake)
        #expect(Self.interval(stream, 0, 50) == (isHandshake ? [230_000, 230_072, 72] : [0, 230_072, 230_072]))
        #expect(stream.isSettled && stream.beside == (isHandshake ? 230_000 : 0) && Self.kept(stream) == 0)
    }

    @Test("joined records never count as a single record")
    func merged() {
        var stream = TLSStream(by: .peerClient)
        var flight = Flight()
        for _ in 0..<1_025 { flight.addTicket(1) }
        Self.pass(flight, &stream)
        #expect(Self.kept(stream) == 1)
        stream.passed(plaintext: 10)
        stream.settle()
        #expect(stream.interval(.init(from: 0, to: 10)).map { $0.isExact } == false)
    }

    @Test("a peer whose first bytes begin no record can't choose where other records begin")
    func forged() {
        var stream = TLSStream(by: .peerClient)
        stream.passed(ciphertext: ([0x80, 0x2e, 1, 3, 3] + [UInt8](repeating: 0, count: 43)).span)
        // The header of a false record, and the part of the next record that the peer may have chosen.
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

    @Test("more plaintext than a peer's records can have: they are no data, and later data has a place again")
    func tooLittle() {
        var stream = TLSStream(by: .peerClient)
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

    @Test("the rest of a record that began earlier is no plaintext, and later records are in step")
    func restOfRecord() {
        var stream = TLSStream(position: 1_000)
        stream.passed(ciphertext: [UInt8](repeating: 0xaa, count: 100).span)
        var flight = Flight()
        flight.add(50)
        Self.pass(flight, &stream)
        #expect(Self.interval(stream, 0, 50) == [1_100, 1_172, 72])
        #expect(stream.beside == 1_100 && stream.position == 1_172)
    }

    @Test("the start of a message within the rest of a record is not exact")
    func dataInRest() {
        var stream = TLSStream(position: 1_000, by: .peerClient)
        stream.passed(ciphertext: [UInt8](repeating: 0xaa, count: 100).span)
        stream.passed(plaintext: 50)
        stream.settle()
        #expect(stream.interval(.init(from: 0, to: 50)).map { $0.isExact } == false)
    }

    @Test("bytes that are no TLS never trap")
    func garbage() {
        var stream = TLSStream()
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let bytes = (0..<Int.random(in: 1...50)).map { _ in UInt8.random(in: 0...30, using: &random) }
            stream.passed(ciphertext: bytes.span)
            if Bool.random() { stream.passed(plaintext: .random(in: 0...60)) }
            stream.settle()
            if stream.isSettled { stream.forget(before: 0, readTo: 0) }
        }
        #expect(stream.beside <= stream.position)
    }

    /// A made-up connection: messages in writes, writes in records, tickets between the records.
    @Test("for any messages, records and flights, intervals are disjoint and add up", arguments: [22, 29, 21])
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
                stream.forget(before: begins, readTo: plain)
            }
            #expect(message == messages.count)
            #expect(stream.beside == beside)
            #expect(claimed + stream.beside == stream.position)
        }
    }

    @Test(
        "a record that was on its way before counting began is in no message, also before TLS 1.3",
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
