import CLibbpf
import CTrafficABI
import Foundation
import Testing

@testable import TrafficCapture

/// The kernel's idea of a shared struct (BTF of the embedded object) against Swift's.
@Suite("Shared records have one layout")
struct RecordLayoutTests {
    struct Field: Sendable {
        var name: String
        var offset: Int?
    }

    static let structs: [(name: String, size: Int, fields: [Field])] = [
        (
            "traffic_owner", MemoryLayout<traffic_owner>.size,
            [
                Field(name: "start_boottime_ns", offset: MemoryLayout<traffic_owner>.offset(of: \.start_boottime_ns)),
                Field(name: "sent_bytes", offset: MemoryLayout<traffic_owner>.offset(of: \.sent_bytes)),
                Field(name: "received_bytes", offset: MemoryLayout<traffic_owner>.offset(of: \.received_bytes)),
                Field(name: "tgid", offset: MemoryLayout<traffic_owner>.offset(of: \.tgid)),
                Field(name: "uid", offset: MemoryLayout<traffic_owner>.offset(of: \.uid)),
                Field(name: "cgroup_id", offset: MemoryLayout<traffic_owner>.offset(of: \.cgroup_id)),
                Field(name: "flags", offset: MemoryLayout<traffic_owner>.offset(of: \.flags)),
                Field(name: "pad", offset: MemoryLayout<traffic_owner>.offset(of: \.pad)),
                Field(name: "name", offset: MemoryLayout<traffic_owner>.offset(of: \.name)),
            ]
        ),
        (
            "traffic_owner_key", MemoryLayout<traffic_owner_key>.size,
            [
                Field(name: "serial", offset: MemoryLayout<traffic_owner_key>.offset(of: \.serial)),
                Field(
                    name: "start_boottime_ns",
                    offset: MemoryLayout<traffic_owner_key>.offset(of: \.start_boottime_ns)
                ),
                Field(name: "tgid", offset: MemoryLayout<traffic_owner_key>.offset(of: \.tgid)),
                Field(name: "pad", offset: MemoryLayout<traffic_owner_key>.offset(of: \.pad)),
            ]
        ),
        (
            "traffic_told", MemoryLayout<traffic_told>.size,
            [
                Field(name: "baseline_done", offset: MemoryLayout<traffic_told>.offset(of: \.baseline_done)),
                Field(name: "calls_missed", offset: MemoryLayout<traffic_told>.offset(of: \.calls_missed)),
                Field(name: "report_all", offset: MemoryLayout<traffic_told>.offset(of: \.report_all)),
                Field(name: "interface_mark", offset: MemoryLayout<traffic_told>.offset(of: \.interface_mark)),
                Field(name: "home_namespace", offset: MemoryLayout<traffic_told>.offset(of: \.home_namespace)),
                Field(name: "stranger_limit", offset: MemoryLayout<traffic_told>.offset(of: \.stranger_limit)),
            ]
        ),
        (
            "traffic_loss", MemoryLayout<traffic_loss>.size,
            [
                Field(name: "closed_sockets", offset: MemoryLayout<traffic_loss>.offset(of: \.closed_sockets)),
                Field(name: "closed_submitted", offset: MemoryLayout<traffic_loss>.offset(of: \.closed_submitted)),
                Field(name: "closed_deferred", offset: MemoryLayout<traffic_loss>.offset(of: \.closed_deferred)),
                Field(name: "closed_lost", offset: MemoryLayout<traffic_loss>.offset(of: \.closed_lost)),
                Field(name: "owners_lost", offset: MemoryLayout<traffic_loss>.offset(of: \.owners_lost)),
                Field(name: "sockets_lost", offset: MemoryLayout<traffic_loss>.offset(of: \.sockets_lost)),
                Field(name: "lost_sent_bytes", offset: MemoryLayout<traffic_loss>.offset(of: \.lost_sent_bytes)),
                Field(
                    name: "lost_received_bytes",
                    offset: MemoryLayout<traffic_loss>.offset(of: \.lost_received_bytes)
                ),
                Field(
                    name: "lost_wire_sent_bytes",
                    offset: MemoryLayout<traffic_loss>.offset(of: \.lost_wire_sent_bytes)
                ),
                Field(
                    name: "lost_wire_received_bytes",
                    offset: MemoryLayout<traffic_loss>.offset(of: \.lost_wire_received_bytes)
                ),
                Field(name: "interfaces_lost", offset: MemoryLayout<traffic_loss>.offset(of: \.interfaces_lost)),
                Field(name: "returns_missed", offset: MemoryLayout<traffic_loss>.offset(of: \.returns_missed)),
            ]
        ),
        (
            "traffic_socket", MemoryLayout<traffic_socket>.size,
            [
                Field(name: "receive_mark", offset: MemoryLayout<traffic_socket>.offset(of: \.receive_mark)),
                Field(name: "urgent_mark", offset: MemoryLayout<traffic_socket>.offset(of: \.urgent_mark)),
                Field(name: "flags", offset: MemoryLayout<traffic_socket>.offset(of: \.flags)),
                Field(name: "owners", offset: MemoryLayout<traffic_socket>.offset(of: \.owners)),
                Field(name: "serial", offset: MemoryLayout<traffic_socket>.offset(of: \.serial)),
                Field(name: "cookie", offset: MemoryLayout<traffic_socket>.offset(of: \.cookie)),
                Field(name: "swept_mark", offset: MemoryLayout<traffic_socket>.offset(of: \.swept_mark)),
                Field(
                    name: "opened_boottime_ns",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.opened_boottime_ns)
                ),
                Field(
                    name: "closed_boottime_ns",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.closed_boottime_ns)
                ),
                Field(
                    name: "unowned_sent_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.unowned_sent_bytes)
                ),
                Field(
                    name: "unowned_received_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.unowned_received_bytes)
                ),
                Field(
                    name: "overflow_sent_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.overflow_sent_bytes)
                ),
                Field(
                    name: "retransmitted_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.retransmitted_bytes)
                ),
                Field(name: "segments_sent", offset: MemoryLayout<traffic_socket>.offset(of: \.segments_sent)),
                Field(name: "segments_received", offset: MemoryLayout<traffic_socket>.offset(of: \.segments_received)),
                Field(name: "smoothed_rtt_us", offset: MemoryLayout<traffic_socket>.offset(of: \.smoothed_rtt_us)),
                Field(
                    name: "retransmitted_segments",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.retransmitted_segments)
                ),
                Field(name: "send_start", offset: MemoryLayout<traffic_socket>.offset(of: \.send_start)),
                Field(name: "send_end", offset: MemoryLayout<traffic_socket>.offset(of: \.send_end)),
                Field(name: "stream_sent", offset: MemoryLayout<traffic_socket>.offset(of: \.stream_sent)),
                Field(name: "network_namespace", offset: MemoryLayout<traffic_socket>.offset(of: \.network_namespace)),
                Field(name: "family", offset: MemoryLayout<traffic_socket>.offset(of: \.family)),
                Field(name: "protocol", offset: MemoryLayout<traffic_socket>.offset(of: \.protocol)),
                Field(name: "local_port", offset: MemoryLayout<traffic_socket>.offset(of: \.local_port)),
                Field(name: "remote_port", offset: MemoryLayout<traffic_socket>.offset(of: \.remote_port)),
                Field(name: "state", offset: MemoryLayout<traffic_socket>.offset(of: \.state)),
                Field(name: "role", offset: MemoryLayout<traffic_socket>.offset(of: \.role)),
                Field(name: "type", offset: MemoryLayout<traffic_socket>.offset(of: \.type)),
                Field(name: "send_phase", offset: MemoryLayout<traffic_socket>.offset(of: \.send_phase)),
                Field(name: "local_address", offset: MemoryLayout<traffic_socket>.offset(of: \.local_address)),
                Field(name: "remote_address", offset: MemoryLayout<traffic_socket>.offset(of: \.remote_address)),
                Field(name: "tcp_sent_bytes", offset: MemoryLayout<traffic_socket>.offset(of: \.tcp_sent_bytes)),
                Field(
                    name: "tcp_received_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.tcp_received_bytes)
                ),
                Field(
                    name: "earlier_sent_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.earlier_sent_bytes)
                ),
                Field(
                    name: "earlier_received_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.earlier_received_bytes)
                ),
                Field(
                    name: "earlier_retransmitted_bytes",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.earlier_retransmitted_bytes)
                ),
                Field(name: "unsent_bytes", offset: MemoryLayout<traffic_socket>.offset(of: \.unsent_bytes)),
                Field(name: "unread_bytes", offset: MemoryLayout<traffic_socket>.offset(of: \.unread_bytes)),
                Field(name: "urgent_bytes", offset: MemoryLayout<traffic_socket>.offset(of: \.urgent_bytes)),
                Field(name: "pad", offset: MemoryLayout<traffic_socket>.offset(of: \.pad)),
                Field(name: "early_bytes", offset: MemoryLayout<traffic_socket>.offset(of: \.early_bytes)),
                Field(
                    name: "connecting_boottime_ns",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.connecting_boottime_ns)
                ),
                Field(
                    name: "established_boottime_ns",
                    offset: MemoryLayout<traffic_socket>.offset(of: \.established_boottime_ns)
                ),
                Field(name: "wire_sent", offset: MemoryLayout<traffic_socket>.offset(of: \.wire_sent)),
                Field(name: "wire_received", offset: MemoryLayout<traffic_socket>.offset(of: \.wire_received)),
            ]
        ),
        (
            "traffic_wire", MemoryLayout<traffic_wire>.size,
            [
                Field(name: "payload_bytes", offset: MemoryLayout<traffic_wire>.offset(of: \.payload_bytes)),
                Field(name: "header_bytes", offset: MemoryLayout<traffic_wire>.offset(of: \.header_bytes)),
                Field(name: "bare_bytes", offset: MemoryLayout<traffic_wire>.offset(of: \.bare_bytes)),
                Field(name: "control_bytes", offset: MemoryLayout<traffic_wire>.offset(of: \.control_bytes)),
            ]
        ),
        (
            "traffic_interface_key", MemoryLayout<traffic_interface_key>.size,
            [
                Field(
                    name: "network_namespace",
                    offset: MemoryLayout<traffic_interface_key>.offset(of: \.network_namespace)
                ),
                Field(name: "index", offset: MemoryLayout<traffic_interface_key>.offset(of: \.index)),
            ]
        ),
        (
            "traffic_interface_bytes", MemoryLayout<traffic_interface_bytes>.size,
            [
                Field(name: "packets", offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.packets)),
                Field(name: "ip_bytes", offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.ip_bytes)),
                Field(name: "other_bytes", offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.other_bytes)),
                Field(
                    name: "offloaded_packets",
                    offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.offloaded_packets)
                ),
                Field(
                    name: "offloaded_bytes",
                    offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.offloaded_bytes)
                ),
                Field(
                    name: "fragment_bytes",
                    offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.fragment_bytes)
                ),
                Field(name: "socket_bytes", offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.socket_bytes)),
                Field(
                    name: "no_socket_bytes",
                    offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.no_socket_bytes)
                ),
                Field(name: "answer_bytes", offset: MemoryLayout<traffic_interface_bytes>.offset(of: \.answer_bytes)),
            ]
        ),
        (
            "traffic_interface", MemoryLayout<traffic_interface>.size,
            [
                Field(name: "sent", offset: MemoryLayout<traffic_interface>.offset(of: \.sent)),
                Field(name: "received", offset: MemoryLayout<traffic_interface>.offset(of: \.received)),
            ]
        ),
    ]

    @Test(
        "every field stands where the BPF object's BTF says",
        arguments: Self.structs.indices,
        EmbeddedObject.allCases
    )
    func layout(index: Int, object: EmbeddedObject) throws {
        let swift = Self.structs[index]
        let file = FileManager.default.temporaryDirectory.appending(path: "traffic-\(UUID()).o")
        try Data(object.elf()).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let btf = try #require(btf__parse_elf(file.path(), nil))
        defer { btf__free(btf) }

        let id = btf__find_by_name_kind(btf, swift.name, UInt32(BTF_KIND_STRUCT))
        try #require(id > 0, "no struct \(swift.name) in BTF")
        let type = try #require(btf__type_by_id(btf, UInt32(id)))
        #expect(Int(type.pointee.size) == swift.size)
        #expect(swift.size % 8 == 0)
        let count = Int(type.pointee.info & 0xffff)
        let members = UnsafeRawPointer(type + 1).bindMemory(to: btf_member.self, capacity: count)
        let kernel = (0..<count).map { index in
            let member = members[index]
            return "\(String(cString: btf__name_by_offset(btf, member.name_off))) at \(member.offset / 8)"
        }
        #expect(kernel == swift.fields.map { "\($0.name) at \($0.offset ?? -1)" })
    }
}
