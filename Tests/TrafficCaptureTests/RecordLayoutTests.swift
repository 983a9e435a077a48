import CLibbpf
import CTrafficABI
import Foundation
import Testing

@testable import TrafficCapture

/// The kernel's idea of a shared struct (BTF of the embedded object) against Swift's.
@Suite("Shared records have one layout")
struct RecordLayoutTests {
    struct Layout: Sendable {
        var name: String
        var size: Int
        var fields: [String]

        init<Struct>(_ type: Struct.Type, _ fields: [(name: String, path: PartialKeyPath<Struct>)]) {
            self.name = String(describing: type)
            self.size = MemoryLayout<Struct>.size
            self.fields = fields.map { "\($0.name) at \(MemoryLayout<Struct>.offset(of: $0.path) ?? -1)" }
        }
    }

    static let structs = [
        Layout(
            traffic_owner.self,
            [
                ("start_boottime_ns", \.start_boottime_ns), ("sent_bytes", \.sent_bytes),
                ("received_bytes", \.received_bytes), ("tgid", \.tgid), ("uid", \.uid), ("cgroup_id", \.cgroup_id),
                ("flags", \.flags), ("pad", \.pad), ("name", \.name),
            ]
        ),
        Layout(
            traffic_wire.self,
            [
                ("payload_bytes", \.payload_bytes), ("header_bytes", \.header_bytes), ("bare_bytes", \.bare_bytes),
                ("control_bytes", \.control_bytes),
            ]
        ),
        Layout(
            traffic_payload.self,
            [
                ("sent_bytes", \.sent_bytes), ("received_bytes", \.received_bytes),
            ]
        ),
        Layout(
            traffic_last_record.self,
            [
                ("serial", \.serial), ("owners", \.owners), ("unowned", \.unowned), ("wire", \.wire),
                ("retransmitted_bytes", \.retransmitted_bytes), ("sweep", \.sweep), ("swept", \.swept),
            ]
        ),
        Layout(
            traffic_socket.self,
            [
                ("receive_mark", \.receive_mark), ("urgent_mark", \.urgent_mark), ("flags", \.flags),
                ("owners", \.owners), ("swept_mark", \.swept_mark), ("unowned_sent_bytes", \.unowned_sent_bytes),
                ("unowned_received_bytes", \.unowned_received_bytes), ("send_start", \.send_start),
                ("network_namespace", \.network_namespace), ("protocol", \.protocol), ("type", \.type),
                ("send_phase", \.send_phase), ("family", \.family), ("is_shared", \.is_shared), ("state", \.state),
                ("role", \.role), ("serial", \.serial), ("cookie", \.cookie),
                ("opened_boottime_ns", \.opened_boottime_ns), ("closed_boottime_ns", \.closed_boottime_ns),
                ("further", \.further), ("in_rows", \.in_rows), ("retransmitted_bytes", \.retransmitted_bytes),
                ("segments_sent", \.segments_sent), ("segments_received", \.segments_received),
                ("smoothed_rtt_us", \.smoothed_rtt_us), ("retransmitted_segments", \.retransmitted_segments),
                ("send_end", \.send_end), ("local_port", \.local_port), ("remote_port", \.remote_port),
                ("stream_sent", \.stream_sent), ("local_address", \.local_address),
                ("remote_address", \.remote_address), ("tcp_sent_bytes", \.tcp_sent_bytes),
                ("tcp_received_bytes", \.tcp_received_bytes), ("earlier_sent_bytes", \.earlier_sent_bytes),
                ("earlier_received_bytes", \.earlier_received_bytes),
                ("earlier_retransmitted_bytes", \.earlier_retransmitted_bytes),
                ("stream_sent_base", \.stream_sent_base), ("stream_received_base", \.stream_received_base),
                ("unsent_bytes", \.unsent_bytes), ("unread_bytes", \.unread_bytes), ("urgent_bytes", \.urgent_bytes),
                ("record", \.record), ("early_bytes", \.early_bytes),
                ("connecting_boottime_ns", \.connecting_boottime_ns),
                ("established_boottime_ns", \.established_boottime_ns), ("uid", \.uid),
                ("wire_is_estimated", \.wire_is_estimated), ("handshake_counted", \.handshake_counted),
                ("fences", \.fences), ("record_lock", \.record_lock), ("wire_sent", \.wire_sent),
                ("wire_received", \.wire_received), ("last_record", \.last_record), ("held", \.held),
            ]
        ),
        Layout(
            traffic_held.self,
            [("list", \.list), ("by", \.by), ("last", \.last), ("pad", \.pad)]
        ),
        Layout(
            traffic_holder.self,
            [("serial", \.serial), ("held_by", \.held_by), ("is_first", \.is_first), ("owner", \.owner)]
        ),
        Layout(
            traffic_row_key.self,
            [
                ("start_boottime_ns", \.start_boottime_ns), ("id", \.id), ("generation", \.generation),
            ]
        ),
        Layout(
            traffic_row.self,
            [
                ("owner", \.owner), ("wire", \.wire), ("retransmitted_bytes", \.retransmitted_bytes),
                ("sockets", \.sockets), ("processes", \.processes),
            ]
        ),
        Layout(
            traffic_execution.self,
            [("boottime_ns", \.boottime_ns), ("uid", \.uid), ("pad", \.pad), ("name", \.name)]
        ),
        Layout(
            traffic_interface_key.self,
            [
                ("network_namespace", \.network_namespace), ("index", \.index),
            ]
        ),
        Layout(
            traffic_tuple.self,
            [
                ("local_address", \.local_address), ("remote_address", \.remote_address),
                ("network_namespace", \.network_namespace), ("local_port", \.local_port),
                ("remote_port", \.remote_port),
            ]
        ),
        Layout(
            traffic_interface_bytes.self,
            [
                ("packets", \.packets), ("ip_bytes", \.ip_bytes), ("other_bytes", \.other_bytes),
                ("offloaded_packets", \.offloaded_packets), ("offloaded_bytes", \.offloaded_bytes),
                ("fragment_bytes", \.fragment_bytes), ("socket_bytes", \.socket_bytes),
                ("no_socket_bytes", \.no_socket_bytes), ("answer_bytes", \.answer_bytes),
            ]
        ),
        Layout(
            traffic_interface.self,
            [
                ("sent", \.sent), ("received", \.received),
            ]
        ),
        Layout(
            traffic_process_key.self,
            [
                ("start_boottime_ns", \.start_boottime_ns), ("tgid", \.tgid), ("pad", \.pad),
            ]
        ),
        Layout(traffic_shared_record.self, [("socket", \.socket), ("owners", \.owners)]),
        Layout(traffic_last_further.self, [("serial", \.serial), ("owners", \.owners)]),
        Layout(
            traffic_further.self,
            [
                ("record", \.record), ("last_record", \.last_record), ("payer", \.payer), ("serial", \.serial),
                ("address", \.address),
            ]
        ),
        Layout(
            traffic_payer.self,
            [
                ("drains", \.drains), ("ring_bytes", \.ring_bytes), ("acknowledged_sweep", \.acknowledged_sweep),
                ("deferred", \.deferred), ("storage_failed", \.storage_failed), ("shared_sockets", \.shared_sockets),
            ]
        ),
        Layout(
            traffic_live_settings.self,
            [
                ("baseline_done", \.baseline_done), ("calls_missed", \.calls_missed), ("report_all", \.report_all),
                ("interface_mark", \.interface_mark), ("home_namespace", \.home_namespace),
                ("stranger_limit", \.stranger_limit), ("generation", \.generation), ("drains", \.drains),
                ("sweeps", \.sweeps), ("early_trust", \.early_trust), ("acknowledged_sweep", \.acknowledged_sweep),
                ("report_unacknowledged", \.report_unacknowledged), ("walker", \.walker),
                ("holder_lists", \.holder_lists),
                ("capture", \.capture),
            ]
        ),
        Layout(
            traffic_fixed_settings.self,
            [
                ("derives_wire", \.derives_wire), ("counts_interfaces", \.counts_interfaces),
                ("counts_streams", \.counts_streams), ("tracepoints_preempted", \.tracepoints_preempted),
                ("leaves_totals", \.leaves_totals), ("sees_releases", \.sees_releases),
                ("deferred_limit", \.deferred_limit), ("pad", \.pad),
            ]
        ),
        Layout(
            traffic_loss.self,
            [
                ("closed_sockets", \.closed_sockets), ("closed_submitted", \.closed_submitted),
                ("closed_deferred", \.closed_deferred), ("closed_empty", \.closed_empty),
                ("closed_folded", \.closed_folded), ("unrecorded_ends_lost", \.unrecorded_ends_lost),
                ("calls_folded", \.calls_folded), ("sockets_lost", \.sockets_lost),
                ("interfaces_lost", \.interfaces_lost), ("returns_missed", \.returns_missed),
                ("executions_missed", \.executions_missed),
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
        #expect(kernel == swift.fields)
    }
}
