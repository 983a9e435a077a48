import CTunTap
import Glibc
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// Frames as a virtual machine or a TAP device may hand them to the kernel: with a header that says how to cut them.
    @Suite("Forged aggregates", .serialized)
    struct ForgedPacketTests {
        struct Frame: Sendable, CustomTestStringConvertible {
            var testDescription: String
            var isIPv6 = false
            /// The length of an IPv6 hop-by-hop option: a multiple of 8 up to 2,040 (RFC 8200 section 4.3).
            var optionLength = 0
            var isUDP = false
            /// The length in words that the TCP header states for itself; it really has 5.
            var statedWords: UInt8 = 5
            var payload: Int
            var segmentSize: UInt16
            /// The bytes that the packets on the wire have beyond the aggregate; `nil`: more than is credible.
            var added: UInt64?

            var ipHeader: Int { self.isIPv6 ? 40 + self.optionLength : 20 }
            var length: Int { self.ipHeader + (self.isUDP ? 8 : 20) + self.payload }
        }

        static let frames = [
            Frame(testDescription: "honest", payload: 1_000, segmentSize: 100, added: 9 * 40),
            Frame(testDescription: "honest, IPv6", isIPv6: true, payload: 1_000, segmentSize: 300, added: 3 * 60),
            Frame(testDescription: "honest, UDP", isUDP: true, payload: 1_001, segmentSize: 100, added: 10 * 28),
            Frame(
                testDescription: "honest, with options",
                isIPv6: true,
                optionLength: 64,
                payload: 1_000,
                segmentSize: 100,
                added: 9 * 124
            ),
            // An earlier version counted 343,597,380,602 bytes more.
            Frame(
                testDescription: "56 bytes with a longer header than they have",
                statedWords: 15,
                payload: 2,
                segmentSize: 1,
                added: 0
            ),
            Frame(
                testDescription: "packets of a byte, with a header that is longer than it is",
                statedWords: 15,
                payload: 1_000,
                segmentSize: 1,
                added: 959 * 80
            ),
            Frame(
                testDescription: "packets of a byte with 2,100 bytes of headers",
                isIPv6: true,
                optionLength: 2_040,
                payload: 3_000,
                segmentSize: 1,
                added: nil
            ),
        ]

        @Test("what packets may add to an aggregate is bounded by its own length", arguments: frames)
        func bounded(_ frame: Frame) throws {
            let capture = try BPFCapture(method: LiveMethod.probed.method ?? .tracepoint, wire: .audited)
            let (networkNamespace, index) = try OwnNamespace.run {
                let tap = OwnedDescriptor(owning: try check("open_tap") { open_tap("tap0") })
                OwnNamespace.raise("tap0")
                let bytes = Self.header(frame) + Self.ethernet(frame) + Self.ip(frame) + Self.transport(frame)
                try check("write", "tap") { write(tap.descriptor, bytes, bytes.count) }
                return if_nametoindex("tap0")
            }
            var seen: InterfacePackets?
            try capture.sweep { event in
                guard case .packets(let all) = event else { return }
                seen = all.first { $0.networkNamespace == networkNamespace && $0.index == index }
            }
            let received = try #require(seen?.received)
            #expect(received.packets == 1 && received.ip == UInt64(frame.length))
            if let added = frame.added {
                #expect(received.offloaded == added)
                #expect(received.wire == UInt64(frame.length) + added)
            } else {
                #expect(received.wire <= 128 * UInt64(frame.length))
                #expect(received.wire > 127 * UInt64(frame.length))
            }
        }

        /// `struct virtio_net_hdr` (linux/virtio_net.h).
        private static func header(_ frame: Frame) -> [UInt8] {
            let datagrams: Int32 = 5  // VIRTIO_NET_HDR_GSO_UDP_L4
            let kind =
                frame.isUDP ? datagrams : frame.isIPv6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4
            var header = virtio_net_hdr()
            header.flags = UInt8(VIRTIO_NET_HDR_F_NEEDS_CSUM)
            header.gso_type = UInt8(kind)
            header.gso_size = frame.segmentSize
            header.csum_start = UInt16(14 + frame.ipHeader)
            header.csum_offset = frame.isUDP ? 6 : 16
            return withUnsafeBytes(of: header) { Array($0) }
        }

        private static func ethernet(_ frame: Frame) -> [UInt8] {
            // Broadcast, because the interface's own address is unknown.
            [UInt8](repeating: 0xff, count: 6) + [2, 0, 0, 0, 0, 1] + (frame.isIPv6 ? [0x86, 0xdd] : [8, 0])
        }

        /// To 192.0.2.1 or 2001:db8::1, which no host has.
        private static func ip(_ frame: Frame) -> [UInt8] {
            let transport: UInt8 = frame.isUDP ? 17 : 6
            guard frame.isIPv6 else {
                return [0x45, 0] + Self.big(frame.length) + [
                    0, 1, 0, 0, 64, transport, 0, 0, 192, 0, 2, 2, 192, 0, 2, 1,
                ]
            }
            let address = { (last: UInt8) in [0x20, 0x01, 0x0d, 0xb8] + [UInt8](repeating: 0, count: 11) + [last] }
            let next = frame.optionLength > 0 ? 0 : transport
            var bytes = [0x60, 0, 0, 0] + Self.big(frame.length - 40) + [next, 64] + address(2) + address(1)
            if frame.optionLength > 0 {
                bytes += [transport, UInt8(frame.optionLength / 8 - 1)]
                // Pad1 options.
                bytes += [UInt8](repeating: 0, count: frame.optionLength - 2)
            }
            return bytes
        }

        private static func transport(_ frame: Frame) -> [UInt8] {
            let payload = [UInt8](repeating: 0x55, count: frame.payload)
            if frame.isUDP { return [0x30, 0x39, 0, 9] + Self.big(8 + frame.payload) + [0, 0] + payload }
            return [0x30, 0x39, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, frame.statedWords << 4, 0x10, 1, 0, 0, 0, 0, 0] + payload
        }

        private static func big(_ value: Int) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 0xff)] }
    }
}
