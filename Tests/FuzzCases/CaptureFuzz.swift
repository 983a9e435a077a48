import CTrafficABI
import TrafficCapture
import TrafficModel

/// Records as the kernel writes them, with any numbers: an observation or an error.
public struct CaptureFuzz: FuzzSubject {
    public static let name = "capture"

    private static let dictionary: [[UInt8]] = [
        [0xff, 0xff, 0xff, 0xff], [0, 0, 0, 0], [2, 0], [10, 0], [17, 0], [6], [0x80],
    ]

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        var record = traffic_socket()
        (record.serial, record.cookie, record.protocol, record.type) = (5, 42, 6, 1)
        (record.family, record.state) = (random.pick([2, 10, 17, 1]), UInt8(random.number(0..<13)))
        (record.owners.0.tgid, record.owners.0.start_boottime_ns) = (7, 1_000)
        var bytes = withUnsafeBytes(of: record) { Array($0) }
        // All of it, or a few numbers.
        if random.isOne(in: 4) {
            for index in bytes.indices { bytes[index] = UInt8(truncatingIfNeeded: random.next()) }
        }
        random.mutate(&bytes, Self.dictionary, changes: random.number(0..<8))
        if !random.isOne(in: 8) {
            while bytes.count < TrafficRecord.size { bytes.append(0) }
            bytes.removeLast(bytes.count - TrafficRecord.size)
        }
        let isSized = bytes.count == TrafficRecord.size
        do throws(CaptureError) {
            let observation = try TrafficRecord.decode(bytes.span.bytes, seesPackets: random.isOne(in: 2))
            return isSized && observation.serial != 0 ? nil : "\(bytes.count) bytes are a record: \(bytes.escaped)"
        } catch { return nil }
    }
}
