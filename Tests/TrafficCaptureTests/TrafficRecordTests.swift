import CTrafficABI
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

@Suite("Kernel records")
struct TrafficRecordTests {
    /// A record as the kernel writes it.
    static func record(_ change: (inout traffic_socket) -> Void = { _ in }) -> [UInt8] {
        var record = traffic_socket()
        record.serial = 5
        record.cookie = 42
        record.family = 2
        record.protocol = 6
        record.type = 1
        record.state = 1
        record.local_port = 80
        record.remote_port = 4711
        record.local_address = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1)
        record.remote_address = (0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)
        record.owners.0 = owner(tgid: 7, start: 1000, name: "nginx", sent: 10, received: 20)
        change(&record)
        return withUnsafeBytes(of: record) { Array($0) }
    }

    static func owner(tgid: UInt32, start: UInt64, name: String, sent: UInt64, received: UInt64) -> traffic_owner {
        var owner = traffic_owner()
        owner.tgid = tgid
        owner.start_boottime_ns = start
        owner.sent_bytes = sent
        owner.received_bytes = received
        withUnsafeMutableBytes(of: &owner.name) { $0.copyBytes(from: Array(name.utf8).prefix(16)) }
        return owner
    }

    @Test("a TCP record becomes an observation")
    func tcp() throws {
        let seen = try TrafficRecord.decode(Self.record().span.bytes, seesPackets: true)
        #expect(seen.cookie.rawValue == 42)
        #expect(seen.transport == .tcp)
        #expect(seen.local.description == "127.0.0.1:80")
        #expect(seen.remote.description == "[2001:db8::1]:4711")
        #expect(seen.state == .established)
        #expect(
            seen.owners == [
                OwnerObservation(
                    identity: ProcessIdentity(pid: 7, startBoottimeNanoseconds: 1000),
                    name: "nginx",
                    payload: PayloadBytes(sent: 10, received: 20)
                )
            ]
        )
        #expect(seen.tcp != nil)
        #expect(seen.closedBoottimeNanoseconds == nil)
    }

    @Test("a connection's time needs its start and its end, in this order")
    func connect() throws {
        for (began, ended, isKnown) in [(5, 9, true), (5, 5, true), (0, 9, false), (5, 0, false), (9, 5, false)]
            as [(UInt64, UInt64, Bool)]
        {
            let bytes = Self.record {
                $0.connecting_boottime_ns = began
                $0.established_boottime_ns = ended
            }
            let seen = try TrafficRecord.decode(bytes.span.bytes, seesPackets: true).connect
            #expect(seen == (isKnown ? ConnectTimes(beganAt: began, endedAt: ended) : nil))
        }
    }

    @Test(
        "protocol and type name the transport",
        arguments: [
            (UInt16(6), UInt8(1), TransportProtocol.tcp), (17, 2, .udp), (262, 1, .mptcp), (1, 2, .icmp), (1, 3, .raw),
            (6, 3, .raw), (58, 2, .icmpv6), (132, 1, .sctp), (99, 2, .other),
        ]
    )
    func transports(number: UInt16, type: UInt8, expected: TransportProtocol) throws {
        let bytes = Self.record {
            $0.protocol = number
            $0.type = type
        }
        #expect(try TrafficRecord.decode(bytes.span.bytes, seesPackets: true).transport == expected)
    }

    @Test("a name that fills its field has no terminator and is whole")
    func longName() throws {
        let bytes = Self.record {
            $0.owners.0 = Self.owner(tgid: 1, start: 1, name: "abcdefghijklmnop", sent: 0, received: 0)
        }
        #expect(try TrafficRecord.decode(bytes.span.bytes, seesPackets: true).owners.first?.name == "abcdefghijklmnop")
    }

    @Test("a name that is not UTF-8 is repaired, not refused")
    func invalidName() throws {
        let bytes = Self.record {
            withUnsafeMutableBytes(of: &$0.owners.0.name) { $0.copyBytes(from: [0xff, 0x41, 0]) }
        }
        #expect(
            try TrafficRecord.decode(bytes.span.bytes, seesPackets: true).owners.first?.name.hasPrefix("\u{fffd}A")
                == true
        )
    }

    /// The record of a socket with these further owners, in any slots.
    static func sharedRecord(_ further: [Int: traffic_owner], sent: UInt64? = nil) -> [UInt8] {
        var bytes = self.record {
            $0.flags = TRAFFIC_SOCKET_SHARED.rawValue
            if let sent { $0.stream_sent = UInt64(TRAFFIC_STREAM_KNOWN.rawValue) << 32 | sent }
        }
        for slot in 0..<Int(TRAFFIC_FURTHER_OWNERS.rawValue) {
            withUnsafeBytes(of: further[slot] ?? traffic_owner()) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    @Test("the record of a shared socket has all owners, and what they sent is not pending")
    func shared() throws {
        let further = [
            63: Self.owner(tgid: 9, start: 1_002, name: "last", sent: 300, received: 0),
            5: Self.owner(tgid: 8, start: 1_001, name: "third", sent: 20, received: 7),
        ]
        let bytes = Self.sharedRecord(further, sent: 335)
        #expect(bytes.count == TrafficRecord.sharedSize)
        let seen = try TrafficRecord.decode(bytes.span.bytes, seesPackets: true)
        #expect(seen.owners.map(\.name) == ["nginx", "third", "last"])
        #expect(seen.owners.map(\.payload.sent) == [10, 20, 300])
        #expect(seen.pendingSent == 5)
    }

    @Test("records of both sizes are cut out of any pieces", arguments: [1, 7, 16, 64, 4_096, 1 << 20])
    func pieces(length: Int) {
        let records = (0..<20).map { number -> [UInt8] in
            let owner = Self.owner(tgid: UInt32(number), start: 1, name: "any", sent: 0, received: 0)
            return number % 3 == 1 ? Self.sharedRecord([number: owner]) : Self.record { $0.cookie = UInt64(number) }
        }
        let stream = records.flatMap { $0 }
        var (splitter, split) = (RecordSplitter(), [[UInt8]]())
        for start in stride(from: 0, to: stream.count, by: length) {
            let piece = Array(stream[start..<min(stream.count, start + length)])
            splitter.split(piece.span.bytes) { record in split.append(record.withUnsafeBytes { Array($0) }) }
        }
        #expect(split == records)
    }

    @Test(
        "any other size is refused",
        arguments: [
            0, 1, 8, TrafficRecord.size - 1, TrafficRecord.size + 1, TrafficRecord.sharedSize - 64,
            TrafficRecord.sharedSize + 1,
        ]
    )
    func sizes(size: Int) {
        let bytes = [UInt8](repeating: 1, count: size)
        #expect(throws: CaptureError.self) { try TrafficRecord.decode(bytes.span.bytes, seesPackets: true) }
    }

    @Test(
        "random and mutated records give an observation or a typed error, never a trap",
        arguments: 0..<8 as Range<UInt64>
    )
    func mutated(seed: UInt64) {
        var random = Seeded(seed)
        var decoded = 0
        for _ in 0..<2_000 {
            var bytes = Self.record()
            for _ in 0..<Int.random(in: 1...64, using: &random) {
                bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            do {
                _ = try TrafficRecord.decode(bytes.span.bytes, seesPackets: true)
                decoded += 1
            } catch {
                guard case .malformed = error else {
                    Issue.record("unexpected \(error)")
                    return
                }
            }
        }
        #expect(decoded > 0)
    }
}
