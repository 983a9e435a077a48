import CLibbpf
import TrafficModel

/// Which programs of `bpf/traffic.bpf.c` make up a method.
struct BPFPrograms {
    /// A program and the place where it is attached.
    struct Hook: Hashable {
        enum Place: Hashable, CustomStringConvertible {
            /// A kernel function or tracepoint.
            case target(String, kind: bpf_attach_type)
            /// The entry of a kernel function, by a kprobe.
            case entry(String)
            /// The return of a kernel function, by a kretprobe.
            case exit(String)
            /// The root of the cgroup hierarchy.
            case cgroup

            var description: String {
                switch self {
                case .target(let target, _), .entry(let target), .exit(let target): target
                case .cgroup: "cgroup hierarchy"
                }
            }
        }

        var program: String
        var place: Place
        /// What the capture no longer sees if the kernel refuses this program. `nil` for a hook that the method needs.
        var blindSpot: String?
        /// The program that this twin replaces when the kernel skips that program (preempt.bpf.h).
        var twinOf: String?

        init(_ program: String, fexit target: String, blindSpot: String? = nil) {
            self.program = program
            self.place = .target(target, kind: BPF_TRACE_FEXIT)
            self.blindSpot = blindSpot
        }

        init(_ program: String, tracepoint target: String, blindSpot: String? = nil) {
            self.program = program
            self.place = .target(target, kind: BPF_TRACE_RAW_TP)
            self.blindSpot = blindSpot
        }

        init(twinOf program: String, tracepoint target: String) {
            self.init("\(program)_twin", tracepoint: target)
            self.twinOf = program
        }

        init(_ program: String, kprobe target: String, blindSpot: String? = nil) {
            self.program = program
            self.place = .entry(target)
            self.blindSpot = blindSpot
        }

        init(_ program: String, kretprobe target: String, blindSpot: String? = nil) {
            self.program = program
            self.place = .exit(target)
            self.blindSpot = blindSpot
        }

        init(_ program: String, cgroupBlindSpot blindSpot: String) {
            self.program = program
            self.place = .cgroup
            self.blindSpot = blindSpot
        }

        var isReturnProbe: Bool { if case .exit = self.place { true } else { false } }

        /// Whether the kernel's BTF contains the target. Only an attempt shows whether the program can be attached.
        var isKnownToKernel: Bool {
            switch self.place {
            case .target(let target, let kind): libbpf_find_vmlinux_btf_id(target, kind) > 0
            case .entry(let function), .exit(let function): libbpf_find_vmlinux_btf_id(function, BPF_TRACE_FENTRY) > 0
            case .cgroup: true
            }
        }
    }

    let hooks: [Hook]

    /// Programs that the daemon runs in addition to the sweep. They are attached to nothing.
    static let iterators: Set<String> = ["adopt_held_sockets", "adopt_tcp_sockets"]

    /// The programs that count the packets of sockets. Their numbers are complete only together: if the kernel refuses
    /// one, none is used.
    static let packets: Set<String> = ["packet_sent", "packet_received", "socket_create"]

    /// The programs that count the packets at interfaces. Their numbers mean something only beside those of
    /// ``packets``.
    static let interfaces: Set<String> = ["interface_sent", "interface_received"]

    /// The programs that run for each packet and are not used with this choice. `socket_create` runs for each socket,
    /// and is useful without them.
    static func unused(with wire: WireCounting) -> Set<String> {
        switch wire {
        case .estimated: self.interfaces.union(["packet_sent", "packet_received"])
        case .exact: self.interfaces
        case .audited: []
        }
    }

    /// The probes of AF_PACKET. They go together: without the probe that sees the end of a socket, its element would
    /// stay forever.
    static let frameProbes: Set<String> = [
        "packet_sendmsg_called", "packet_sendmsg_returned", "packet_sendmsg_spkt_called",
        "packet_sendmsg_spkt_returned",
        "packet_recvmsg_called", "packet_recvmsg_returned", "packet_released",
    ]

    /// The programs that are left out together with this program if the kernel refuses it.
    static func companions(of program: String) -> Set<String> {
        if self.packets.contains(program) { return self.packets.union(self.interfaces) }
        return [self.interfaces, self.frameProbes].first { $0.contains(program) } ?? [program]
    }

    static func of(_ method: CaptureMethod) -> BPFPrograms {
        switch method {
        case .fexit: BPFPrograms(hooks: self.fexit + self.frames + self.everyMethod)
        case .tracepoint:
            BPFPrograms(hooks: self.tracepoint + (Preemption.reachesTracepoints ? self.twins : []) + self.everyMethod)
        case .kprobe: BPFPrograms(hooks: self.kprobe + self.everyMethod)
        case .lifecycle: BPFPrograms(hooks: self.lives + [Hook("socket_create", cgroupBlindSpot: ownerBlindSpot)])
        case .poll: BPFPrograms(hooks: [])
        }
    }

    private static let fexit = [
        Hook("inet_sendmsg_exit", fexit: "inet_sendmsg"),
        Hook("inet6_sendmsg_exit", fexit: "inet6_sendmsg"),
        Hook("inet_sendpage_exit", fexit: "inet_sendpage"),
        Hook(
            "sock_splice_read_exit",
            fexit: "sock_splice_read",
            blindSpot: splicedBlindSpot
        ),
        Hook("inet_recvmsg_exit", fexit: "inet_recvmsg"),
        Hook("inet6_recvmsg_exit", fexit: "inet6_recvmsg"),
        Hook(
            "sock_common_recvmsg_exit",
            fexit: "sock_common_recvmsg",
            blindSpot: rawReceiveBlindSpot
        ),
    ]

    /// The hooks of AF_PACKET for `fexit`. They use the tracepoints if the kernel has them, because programs of
    /// tracepoints need no BTF of a module.
    private static var frames: [Hook] {
        let byTracepoint = [
            Hook("frame_send_length", tracepoint: "sock_send_length", blindSpot: frameBlindSpot),
            Hook("frame_recv_length", tracepoint: "sock_recv_length", blindSpot: frameBlindSpot),
        ]
        guard byTracepoint.allSatisfy(\.isKnownToKernel) else {
            return [
                Hook("packet_sendmsg_exit", fexit: "packet_sendmsg", blindSpot: frameBlindSpot),
                Hook("packet_sendmsg_spkt_exit", fexit: "packet_sendmsg_spkt", blindSpot: frameBlindSpot),
                Hook("packet_recvmsg_exit", fexit: "packet_recvmsg", blindSpot: frameBlindSpot),
            ]
        }
        return byTracepoint
    }

    private static let tracepoint = [
        Hook("sock_send_length", tracepoint: "sock_send_length"),
        Hook("sock_recv_length", tracepoint: "sock_recv_length"),
        // A program of `fexit`, if the kernel has trampolines after all: no tracepoint sees this call.
        Hook("sock_splice_read_exit", fexit: "sock_splice_read", blindSpot: splicedBlindSpot),
    ]

    /// Used in addition to the programs of `tracepoint` where the kernel may skip those: see preempt.bpf.h.
    private static let twins = [
        Hook(twinOf: "sock_send_length", tracepoint: "sock_send_length"),
        Hook(twinOf: "sock_recv_length", tracepoint: "sock_recv_length"),
        Hook(twinOf: "tcp_receive", tracepoint: "tcp_rcv_space_adjust"),
    ]

    private static let kprobe = [
        Hook("socket_unlocked", kprobe: "release_sock"),
        Hook("inet_sendmsg_called", kprobe: "inet_sendmsg"),
        Hook("inet_sendmsg_returned", kretprobe: "inet_sendmsg"),
        Hook("inet6_sendmsg_called", kprobe: "inet6_sendmsg"),
        Hook("inet6_sendmsg_returned", kretprobe: "inet6_sendmsg"),
        Hook("inet_sendpage_called", kprobe: "inet_sendpage"),
        Hook("inet_sendpage_returned", kretprobe: "inet_sendpage"),
        Hook("inet_recvmsg_called", kprobe: "inet_recvmsg"),
        Hook("inet_recvmsg_returned", kretprobe: "inet_recvmsg"),
        Hook("inet6_recvmsg_called", kprobe: "inet6_recvmsg"),
        Hook("inet6_recvmsg_returned", kretprobe: "inet6_recvmsg"),
        Hook("sock_common_recvmsg_called", kprobe: "sock_common_recvmsg", blindSpot: rawReceiveBlindSpot),
        Hook("sock_common_recvmsg_returned", kretprobe: "sock_common_recvmsg", blindSpot: rawReceiveBlindSpot),
        Hook("sock_splice_read_called", kprobe: "sock_splice_read", blindSpot: splicedBlindSpot),
        Hook("sock_splice_read_returned", kretprobe: "sock_splice_read", blindSpot: splicedBlindSpot),
        Hook("datagram_consumed", kprobe: "skb_consume_udp"),
        Hook("socket_released", kprobe: "inet_release"),
        Hook("packet_sendmsg_called", kprobe: "packet_sendmsg", blindSpot: frameBlindSpot),
        Hook("packet_sendmsg_returned", kretprobe: "packet_sendmsg", blindSpot: frameBlindSpot),
        Hook("packet_sendmsg_spkt_called", kprobe: "packet_sendmsg_spkt", blindSpot: frameBlindSpot),
        Hook("packet_sendmsg_spkt_returned", kretprobe: "packet_sendmsg_spkt", blindSpot: frameBlindSpot),
        Hook("packet_recvmsg_called", kprobe: "packet_recvmsg", blindSpot: frameBlindSpot),
        Hook("packet_recvmsg_returned", kretprobe: "packet_recvmsg", blindSpot: frameBlindSpot),
        Hook("packet_released", kprobe: "packet_release", blindSpot: frameBlindSpot),
    ]

    private static let everyMethod =
        [Hook("tcp_receive", tracepoint: "tcp_rcv_space_adjust")] + lives + [
            Hook("socket_create", cgroupBlindSpot: packetBlindSpot),
            Hook("packet_sent", cgroupBlindSpot: packetBlindSpot),
            Hook("packet_received", cgroupBlindSpot: packetBlindSpot),
            Hook("interface_sent", tracepoint: "net_dev_start_xmit", blindSpot: interfaceBlindSpot),
            Hook("interface_received", tracepoint: "netif_receive_skb", blindSpot: interfaceBlindSpot),
        ]

    /// The beginnings and ends of sockets, and new names of processes: no program runs for a call or a packet.
    private static let lives = [
        Hook("socket_state", tracepoint: "inet_sock_set_state"),
        Hook(twinOf: "socket_state", tracepoint: "inet_sock_set_state"),
        Hook("tcp_destroy", tracepoint: "tcp_destroy_sock"),
        Hook(twinOf: "tcp_destroy", tracepoint: "tcp_destroy_sock"),
        Hook(
            "process_executed",
            tracepoint: "sched_process_exec",
            blindSpot: "the new name of a process that runs another program and goes on with its old sockets"
        ),
        Hook(
            "socket_release",
            cgroupBlindSpot: "the last bytes, up to one refresh, of UDP and other sockets without a connection"
        ),
    ]

    private static let ownerBlindSpot = "the owners of sockets that close before the next look at all open files"
    private static let frameBlindSpot = "AF_PACKET sockets"
    private static let rawReceiveBlindSpot = "what raw and ping sockets receive over IPv6"
    private static let splicedBlindSpot =
        "what is spliced out of sockets with kernel TLS, and of MPTCP's since Linux 7.0"
    static let narrowReturnsBlindSpot =
        "sends of UDP and calls of raw and other sockets while many of them wait: as `missed_runs`, without their bytes"
    static let packetBlindSpot = "packets: wire bytes are estimated for TCP and unknown for the rest"
    static let interfaceBlindSpot =
        "packets of no socket: forwarded packets, resets, TIME-WAIT, ICMP; the audit ends at the sockets"

    /// Programs whose functions a kernel may lack without a loss: no IPv6, or no sendpage since 6.5.
    static let dispensable: Set<String> = [
        "inet6_sendmsg_exit", "inet6_recvmsg_exit", "inet_sendpage_exit",
        "inet6_sendmsg_called", "inet6_sendmsg_returned", "inet6_recvmsg_called", "inet6_recvmsg_returned",
        "inet_sendpage_called", "inet_sendpage_returned",
        // If the function is missing, the compiler inlined it into udp_recvmsg(), and the return counts.
        "datagram_consumed",
    ]

    /// What a method of BPF programs can't see on this kernel.
    static func blindSpots(of method: CaptureMethod) -> [String] {
        let sendpage = Hook("inet_sendpage_exit", fexit: "inet_sendpage")
        if method == .kprobe { return self.everywhere + self.byProbes }
        if method == .lifecycle { return self.byStreams }
        guard method == .tracepoint else { return self.everywhere }
        guard sendpage.isKnownToKernel else { return self.everywhere }
        // Linux 6.3 and 6.4 have the new tracepoint but not yet dc97391e6610 ("sock: Remove ->sendpage*()").
        return self.everywhere + [
            "sendfile and splice into sockets: not seen as calls; over TCP their bytes stay pending"
        ]
    }

    private static let byProbes = [
        "calls on sockets other than TCP and UDP whose return the kernel has no room to probe: as `missed_runs`, without their bytes"
    ]

    private static let byStreams = [
        "everything but TCP: UDP, MPTCP, SCTP, raw and AF_PACKET sockets",
        "which of several processes that hold a TCP socket moved its bytes: one has them all (`owners_inferred`)",
        "payload of sockets with kernel TLS or in a sockmap: what their TCP streams carried counts instead",
    ]

    private static let everywhere = [
        "frames that a program reads from an AF_PACKET ring (tcpdump): no call moves them",
        "bytes that the kernel sends or receives for itself below the socket layer (NFS, iSCSI)",
        "a datagram received with MSG_TRUNC counts with the length the call returned, which may exceed what was copied",
    ]
}
