import CLibbpf
import TrafficModel

/// Which programs of `bpf/traffic.bpf.c` make up a rung.
struct BPFPrograms {
    /// A program and the kernel function or tracepoint it hangs on.
    struct Hook: Hashable {
        var program: String
        var target: String
        var kind: bpf_attach_type
        /// Left out where the kernel lacks the target.
        var isOptional = false

        /// Whether the kernel's BTF knows the target. Whether it can be attached to only an attempt shows.
        var isKnownToKernel: Bool { libbpf_find_vmlinux_btf_id(self.target, self.kind) > 0 }
    }

    let hooks: [Hook]

    /// Programs that user space runs, attached to nothing.
    static let iterators: Set<String> = ["sweep_sockets", "adopt_held_sockets", "adopt_tcp_sockets"]
    static let socketRelease = "socket_release"

    static func of(_ rung: CaptureRung) -> BPFPrograms {
        let lives = [
            Hook(program: "tcp_receive", target: "tcp_rcv_space_adjust", kind: BPF_TRACE_RAW_TP),
            Hook(program: "socket_state", target: "inet_sock_set_state", kind: BPF_TRACE_RAW_TP),
            Hook(program: "tcp_destroy", target: "tcp_destroy_sock", kind: BPF_TRACE_RAW_TP),
        ]
        switch rung {
        case .fexit:
            return BPFPrograms(
                hooks: [
                    Hook(program: "inet_sendmsg_exit", target: "inet_sendmsg", kind: BPF_TRACE_FEXIT),
                    Hook(
                        program: "inet6_sendmsg_exit",
                        target: "inet6_sendmsg",
                        kind: BPF_TRACE_FEXIT,
                        isOptional: true
                    ),
                    Hook(
                        program: "inet_sendpage_exit",
                        target: "inet_sendpage",
                        kind: BPF_TRACE_FEXIT,
                        isOptional: true
                    ),
                    Hook(program: "inet_recvmsg_exit", target: "inet_recvmsg", kind: BPF_TRACE_FEXIT),
                    Hook(program: "sock_common_recvmsg_exit", target: "sock_common_recvmsg", kind: BPF_TRACE_FEXIT),
                    Hook(
                        program: "inet6_recvmsg_exit",
                        target: "inet6_recvmsg",
                        kind: BPF_TRACE_FEXIT,
                        isOptional: true
                    ),
                ] + lives
            )
        case .tracepoint:
            return BPFPrograms(
                hooks: [
                    Hook(program: "sock_send_length", target: "sock_send_length", kind: BPF_TRACE_RAW_TP),
                    Hook(program: "sock_recv_length", target: "sock_recv_length", kind: BPF_TRACE_RAW_TP),
                ] + lives
            )
        case .poll:
            return BPFPrograms(hooks: [])
        }
    }

    /// What a rung of BPF programs can't see on this kernel.
    static func blindSpots(of rung: CaptureRung) -> [String] {
        let sendpage = Hook(program: "inet_sendpage_exit", target: "inet_sendpage", kind: BPF_TRACE_FEXIT)
        guard rung == .tracepoint, sendpage.isKnownToKernel else { return self.everywhere }
        // Linux 6.3 and 6.4: the tracepoint is new, and dc97391e6610 ("sock: Remove ->sendpage*()") is yet to come.
        return self.everywhere + [
            "sendfile and splice into sockets: not seen as calls; over TCP their bytes stay pending"
        ]
    }

    private static let everywhere = [
        "AF_PACKET sockets: frames sent and captured past the socket layer's internet protocols",
        "bytes that the kernel sends or receives for itself below the socket layer (NFS, iSCSI)",
        "a datagram received with MSG_TRUNC counts with the length the call returned, which may exceed what was copied",
    ]
}
