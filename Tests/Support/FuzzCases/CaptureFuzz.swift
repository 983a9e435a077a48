import CTrafficABI
public import TestSupport
import TrafficCapture
import TrafficModel

/// Records as the kernel writes them, with any numbers. The decoder must put each number where it belongs, or throw an
/// error for a record that no kernel writes. The pieces in which the records are read must make no difference.
public struct CaptureFuzz: FuzzSubject {
    public static let name = "capture"

    private static let dictionary: [[UInt8]] = [
        [0xff, 0xff, 0xff, 0xff], [0, 0, 0, 0], [2, 0], [10, 0], [17, 0], [6], [0x80],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let records = (0..<random.number(1..<4)).map { _ in Self.record(&random) }
        let stream = records.flatMap { $0 }
        var (splitter, split) = (RecordSplitter(), [[UInt8]]())
        for piece in random.split(stream) {
            splitter.split(Array(piece).span.bytes) { record in split.append(record.withUnsafeBytes { Array($0) }) }
        }
        guard split == records else { return "\(split.count) of \(records.count) records" }
        for bytes in records {
            if let text = Self.compare(bytes, seesPackets: random.isOne(in: 2)) { return "\(text): \(bytes.escaped)" }
        }
        var short = records[0]
        short.removeLast(random.number(1..<short.count))
        if short.count != TrafficRecord.size, (try? TrafficRecord.decode(short.span.bytes, seesPackets: true)) != nil {
            return "\(short.count) bytes are a record"
        }
        return nil
    }

    private static func record(_ random: inout Seeded) -> [UInt8] {
        var record = traffic_socket()
        // Every second record gets random bytes everywhere.
        if random.isOne(in: 2) {
            withUnsafeMutableBytes(of: &record) { bytes in
                for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
            }
        }
        if !random.isOne(in: 8) {
            record.serial = random.next() | 1
            record.family = random.pick([2, 10, 17, 1])
            record.state = UInt8(random.number(0..<14))
            (record.protocol, record.type) = (random.pick([6, 17, 33, 262, 1, 999]), random.pick([1, 2, 3]))
        }
        if random.isOne(in: 3) { record.closed_boottime_ns = 0 }
        if random.isOne(in: 3) { record.owners.1.start_boottime_ns = 0 }
        if random.isOne(in: 3) { (record.in_rows.sent_bytes, record.in_rows.received_bytes) = (0, 0) }
        // Further owners lie behind the record, where a flag says so.
        if !random.isOne(in: 4) { record.flags &= ~Self.isShared }
        var bytes = withUnsafeBytes(of: record) { Array($0) }
        random.mutate(&bytes, Self.dictionary, changes: random.number(0..<4))
        bytes += [UInt8](repeating: 0, count: TrafficRecord.size)
        guard bytes.span.bytes.unsafeLoadUnaligned(as: traffic_socket.self).flags & Self.isShared != 0 else {
            return Array(bytes.prefix(TrafficRecord.size))
        }
        bytes.removeLast(bytes.count - TrafficRecord.size)
        while bytes.count < TrafficRecord.sharedSize {
            var slot = traffic_owner()
            if random.isOne(in: 2) {
                withUnsafeMutableBytes(of: &slot) { bytes in
                    for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
                }
            }
            if random.isOne(in: 8) { slot.start_boottime_ns = 0 }
            withUnsafeBytes(of: slot) { bytes.append(contentsOf: $0) }
        }
        return bytes
    }

    private static let isShared: UInt32 = 1 << 1

    private static func compare(_ bytes: [UInt8], seesPackets: Bool) -> String? {
        let record = bytes.span.bytes.unsafeLoadUnaligned(as: traffic_socket.self)
        let behind = stride(from: TrafficRecord.size, to: bytes.count, by: MemoryLayout<traffic_owner>.size)
        let further = behind.map { bytes.span.bytes.unsafeLoadUnaligned(fromByteOffset: $0, as: traffic_owner.self) }
        let isPacket = record.family == 17
        let isDCCP = record.protocol == 33 && record.type != 3 && !isPacket
        let isPossible =
            record.serial != 0 && [2, 10, 17].contains(record.family) && (isDCCP || (1...12).contains(record.state))
        guard let seen = try? TrafficRecord.decode(bytes.span.bytes, seesPackets: seesPackets) else {
            return isPossible ? "no record" : nil
        }
        guard isPossible else { return "a record" }
        return CaptureTruth(record, further, seesPackets: seesPackets, isPacket: isPacket).difference(seen)
    }
}
