import CLibbpf
import TrafficModel

/// Which programs of `bpf/traffic.bpf.c` make up a method, and what becomes of the method without each of them. The table
/// in docs/how-it-counts.md is made from this one.
enum BPFPrograms {
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
            /// A list of the kernel's, over which the daemon runs the program.
            case list(String)
            /// The elements of the map `sockets`.
            case sockets

            var description: String {
                switch self {
                case .target(let target, _), .entry(let target), .exit(let target): target
                case .cgroup: "cgroup hierarchy"
                case .list(let list): "iterator over \(list)"
                case .sockets: "iterator over the elements of a map"
                }
            }
        }

        /// What becomes of the method if the kernel refuses the program, or has no place for it.
        enum Without: Hashable {
            /// The method would count wrong. The daemon tries the next method.
            case otherMethod
            /// The capture no longer sees this.
            case blind(String)
            /// These programs do the work, except for what the text says. If one of them is missing too: as `otherMethod`.
            case substitute(Set<String>, but: String?)
        }

        var program: String
        var place: Place
        var without: Without
        /// Nothing is missing if the kernel does not have the place.
        var kernelMayLackPlace = false
        /// The program that this twin replaces when the kernel skips that program (preempt.bpf.h).
        var twinOf: String?

        init(_ program: String, _ place: Place, without: Without = .otherMethod, kernelMayLackPlace: Bool = false) {
            (self.program, self.place, self.without) = (program, place, without)
            self.kernelMayLackPlace = kernelMayLackPlace
        }

        init(twinOf program: String, tracepoint target: String, without: Without) {
            self.init("\(program)_twin", .tracepoint(target), without: without)
            self.twinOf = program
        }

        var isReturnProbe: Bool { if case .exit = self.place { true } else { false } }

        /// Whether the kernel's BTF contains the place. Only an attempt shows whether the program can be attached.
        var isKnownToKernel: Bool {
            switch self.place {
            case .target(let target, let kind): libbpf_find_vmlinux_btf_id(target, kind) > 0
            case .entry(let function), .exit(let function): libbpf_find_vmlinux_btf_id(function, BPF_TRACE_FENTRY) > 0
            case .list(let list): libbpf_find_vmlinux_btf_id(list, BPF_TRACE_ITER) > 0
            case .cgroup, .sockets: true
            }
        }
    }

    // MARK: Which programs belong together

    /// The sweep: writes a record for each socket that changed.
    static let sweep = "sweep_sockets"
    static let splice = "sock_splice_read_exit"
    static let release = "socket_release"
    /// Together they do what ``sweep`` does.
    static let sweepSubstitutes: Set<String> = [sweepOfHeldSockets, sweepOfTCPSockets, sweepOfUDPSockets]
    static let sweepOfHeldSockets = "sweep_held_sockets"
    static let sweepOfTCPSockets = "sweep_tcp_sockets"
    static let sweepOfUDPSockets = "sweep_udp_sockets"

    /// Lists which processes hold sockets.
    static let holders = "list_holders"

    /// They give a baseline to the sockets that are older than the capture.
    static let adoptionOfHeldSockets = "adopt_held_sockets"
    static let adoptionOfTCPSockets = "adopt_tcp_sockets"

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
        case .derived: self.interfaces.union(["packet_sent", "packet_received"])
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

    // MARK: The table

    /// - Parameter isKnown: Whether the kernel has the place of a program.
    static func of(
        _ method: CaptureMethod,
        _ facts: KernelFacts = .ofThisKernel,
        isKnown: (Hook) -> Bool = \.isKnownToKernel
    ) -> [Hook] {
        switch method {
        case .fexit:
            self.fexit
                + (self.framesByTracepoint.allSatisfy(isKnown) ? self.framesByTracepoint : self.framesByExit)
                + self.everyMethod + self.socketRelease + self.lists
        case .tracepoint:
            self.tracepoint + (facts.preemptsTracepoints ? self.twins : [])
                + self.everyMethod + self.socketRelease + self.lists
        case .kprobe: self.kprobe + self.everyMethod + self.lists
        case .lifecycle:
            self.lifetimes + self.listsOfStreams + [
                Hook("socket_create", .cgroup, without: .blind(ownerBlindSpot)),
                Hook(release, .cgroup, without: .blind(ownerBlindSpot)),
            ]
        case .poll: []
        }
    }

    private static let fexit = [
        Hook("inet_sendmsg_exit", .fexit("inet_sendmsg")),
        Hook("inet6_sendmsg_exit", .fexit("inet6_sendmsg"), kernelMayLackPlace: true),  // no IPv6
        Hook("inet_sendpage_exit", .fexit("inet_sendpage"), kernelMayLackPlace: true),  // since Linux 6.5
        Hook(splice, .fexit("sock_splice_read"), without: .blind(splicedBlindSpot)),
        Hook("inet_recvmsg_exit", .fexit("inet_recvmsg")),
        Hook("inet6_recvmsg_exit", .fexit("inet6_recvmsg"), kernelMayLackPlace: true),
        Hook("sock_common_recvmsg_exit", .fexit("sock_common_recvmsg"), without: .blind(rawReceiveBlindSpot)),
    ]

    /// AF_PACKET for `fexit`: by the tracepoints if the kernel has them, because programs
    /// of tracepoints need no BTF of a module.
    private static let framesByTracepoint = [
        Hook("frame_send_length", .tracepoint("sock_send_length"), without: .blind(frameBlindSpot)),
        Hook("frame_recv_length", .tracepoint("sock_recv_length"), without: .blind(frameBlindSpot)),
    ]
    static let framesByExit = [
        Hook("packet_sendmsg_exit", .fexit("packet_sendmsg"), without: .blind(frameBlindSpot)),
        Hook("packet_sendmsg_spkt_exit", .fexit("packet_sendmsg_spkt"), without: .blind(frameBlindSpot)),
        Hook("packet_recvmsg_exit", .fexit("packet_recvmsg"), without: .blind(frameBlindSpot)),
    ]

    private static let tracepoint = [
        Hook("sock_send_length", .tracepoint("sock_send_length")),
        Hook("sock_recv_length", .tracepoint("sock_recv_length")),
        // A program of `fexit`, if the kernel has trampolines after all: no tracepoint sees this call.
        Hook(splice, .fexit("sock_splice_read"), without: .blind(splicedBlindSpot)),
    ]

    /// Used in addition to the programs of `tracepoint` where the kernel may skip those: see preempt.bpf.h.
    private static let twins = [
        Hook(twinOf: "sock_send_length", tracepoint: "sock_send_length", without: .blind(skippedCallBlindSpot)),
        Hook(twinOf: "sock_recv_length", tracepoint: "sock_recv_length", without: .blind(skippedCallBlindSpot)),
        Hook(twinOf: "tcp_receive", tracepoint: "tcp_rcv_space_adjust", without: .blind(skippedCallBlindSpot)),
    ]

    private static let kprobe = [
        Hook("socket_unlocked", .entry("release_sock")),
        Hook("inet_sendmsg_called", .entry("inet_sendmsg")),
        Hook("inet_sendmsg_returned", .exit("inet_sendmsg")),
        Hook("inet6_sendmsg_called", .entry("inet6_sendmsg"), kernelMayLackPlace: true),
        Hook("inet6_sendmsg_returned", .exit("inet6_sendmsg"), kernelMayLackPlace: true),
        Hook("inet_sendpage_called", .entry("inet_sendpage"), kernelMayLackPlace: true),
        Hook("inet_sendpage_returned", .exit("inet_sendpage"), kernelMayLackPlace: true),
        Hook("inet_recvmsg_called", .entry("inet_recvmsg")),
        Hook("inet_recvmsg_returned", .exit("inet_recvmsg")),
        Hook("inet6_recvmsg_called", .entry("inet6_recvmsg"), kernelMayLackPlace: true),
        Hook("inet6_recvmsg_returned", .exit("inet6_recvmsg"), kernelMayLackPlace: true),
        Hook("sock_common_recvmsg_called", .entry("sock_common_recvmsg"), without: .blind(rawReceiveBlindSpot)),
        Hook("sock_common_recvmsg_returned", .exit("sock_common_recvmsg"), without: .blind(rawReceiveBlindSpot)),
        Hook("sock_splice_read_called", .entry("sock_splice_read"), without: .blind(splicedBlindSpot)),
        Hook("sock_splice_read_returned", .exit("sock_splice_read"), without: .blind(splicedBlindSpot)),
        // A kernel lacks this function if the compiler inlined it into udp_recvmsg().
        Hook(
            "datagram_consumed",
            .entry("skb_consume_udp"),
            without: .substitute(["inet_recvmsg_returned", "inet6_recvmsg_returned"], but: nil),
            kernelMayLackPlace: true
        ),
        Hook(
            "socket_released",
            .entry("inet_release"),
            without: .substitute([release], but: "the ends of the kernel's own sockets other than TCP")
        ),
        Hook(release, .cgroup, without: .substitute(["socket_released"], but: nil)),
        Hook("packet_sendmsg_called", .entry("packet_sendmsg"), without: .blind(frameBlindSpot)),
        Hook("packet_sendmsg_returned", .exit("packet_sendmsg"), without: .blind(frameBlindSpot)),
        Hook("packet_sendmsg_spkt_called", .entry("packet_sendmsg_spkt"), without: .blind(frameBlindSpot)),
        Hook("packet_sendmsg_spkt_returned", .exit("packet_sendmsg_spkt"), without: .blind(frameBlindSpot)),
        Hook("packet_recvmsg_called", .entry("packet_recvmsg"), without: .blind(frameBlindSpot)),
        Hook("packet_recvmsg_returned", .exit("packet_recvmsg"), without: .blind(frameBlindSpot)),
        Hook("packet_released", .entry("packet_release"), without: .blind(frameBlindSpot)),
    ]

    private static let everyMethod =
        [Hook("tcp_receive", .tracepoint("tcp_rcv_space_adjust"))] + lifetimes + [
            Hook("socket_create", .cgroup, without: .blind(packetBlindSpot)),
            Hook("packet_sent", .cgroup, without: .blind(packetBlindSpot)),
            Hook("packet_received", .cgroup, without: .blind(packetBlindSpot)),
            Hook("interface_sent", .tracepoint("net_dev_start_xmit"), without: .blind(interfaceBlindSpot)),
            Hook("interface_received", .tracepoint("netif_receive_skb"), without: .blind(interfaceBlindSpot)),
        ]

    /// The beginnings and ends of sockets, and new names of processes (lifetimes.bpf.h): no program runs for a call or
    /// a packet. What is missing without `socket_create` or `socket_release` differs by method, so they are not here.
    private static let lifetimes = [
        Hook("socket_state", .tracepoint("inet_sock_set_state")),
        Hook(twinOf: "socket_state", tracepoint: "inet_sock_set_state", without: .blind(skippedStateBlindSpot)),
        Hook("tcp_destroy", .tracepoint("tcp_destroy_sock")),
        Hook(twinOf: "tcp_destroy", tracepoint: "tcp_destroy_sock", without: .blind(skippedEndBlindSpot)),
        Hook(
            "process_executed",
            .tracepoint("sched_process_exec"),
            without: .blind(
                "the new name of a process that runs another program and goes on with its old sockets"
            )
        ),
    ]

    private static let socketRelease = [
        Hook(
            release,
            .cgroup,
            without: .blind(
                "the last bytes, up to one refresh, of UDP and other sockets without a connection, and who uses one beside two others"
            )
        )
    ]

    /// The programs that the daemon runs.
    private static let lists = [
        Hook(sweep, .sockets, without: .substitute([sweepOfHeldSockets], but: heldBlindSpot)),
        Hook(sweepOfHeldSockets, .list("task_file")),
        Hook(sweepOfTCPSockets, .list("tcp"), without: .blind(unheldBlindSpot("TCP"))),
        Hook(sweepOfUDPSockets, .list("udp"), without: .blind(unheldBlindSpot("UDP"))),
        Hook(
            adoptionOfHeldSockets,
            .list("task_file"),
            without: .substitute(
                [adoptionOfTCPSockets],
                but:
                    "the processes of connections that no call has used yet, and that sockets other than TCP are older than the capture"
            )
        ),
        adoption,
        Hook(holders, .list("task_file"), without: .blind(holderBlindSpot)),
    ]

    /// For `lifecycle`, which counts TCP alone, and learns from open files which process holds a socket. Whoever looks at a
    /// file holds it for that moment, and may be the last: this method takes the last one for the one who closes. So it looks
    /// no more often than it has to.
    private static let listsOfStreams =
        lists.filter { ![sweepOfUDPSockets, adoptionOfHeldSockets, holders].contains($0.program) } + [
            Hook(
                adoptionOfHeldSockets,
                .list("task_file"),
                without: .substitute(
                    [adoptionOfTCPSockets],
                    but: "accepted connections while they are open: they count, with a process, when they close"
                )
            )
        ]

    static let adoption =
        Hook(
            adoptionOfTCPSockets,
            .list("tcp"),
            without: .substitute(
                [adoptionOfHeldSockets],
                but:
                    "which bytes of a connection are older than the capture, if no process held the connection when the capture began: all of them count"
            )
        )

    private static let holderBlindSpot = "who holds a socket that another process has made, until a call uses it"
    private static let ownerBlindSpot = "the owners of sockets that close before the next look at all open files"
    private static let frameBlindSpot = "AF_PACKET sockets"
    private static let rawReceiveBlindSpot = "what raw and ping sockets receive over IPv6"
    static let splicedBlindSpot =
        "what is spliced out of sockets with kernel TLS, and of MPTCP's since Linux 7.0"
    static let narrowReturnsBlindSpot =
        "sends of UDP and calls of raw and other sockets while many of them wait: as `missed_runs`, without their bytes"
    static let packetBlindSpot = "packets: wire bytes are derived for TCP and UDP and unknown for the rest"
    static let streamsBlindSpot = "packets: wire bytes are derived"
    static let interfaceBlindSpot =
        "packets of no socket: forwarded packets, resets, TIME-WAIT, ICMP; the audit ends at the sockets"

    static let heldBlindSpot =
        "sockets that no process holds, except TCP and UDP: their bytes count when a process holds them again, or when they close"
    private static func unheldBlindSpot(_ protocolName: String) -> String {
        "\(protocolName) sockets that no process holds: their bytes count when a process holds them again, or when they close"
    }
    private static let skippedCallBlindSpot =
        "datagrams of calls for which the kernel skips a program (`missed_runs`); TCP's numbers make up for the others"
    static let skippedProgramBlindSpot =
        "calls for which this kernel may skip a program (`missed_runs`): their bytes may be missing"
    static let hiddenProcessBlindSpot =
        "process 1, and while it runs, packets and which end opened a connection: this kernel then runs no program (`kernel.init_private`)"
    static let unseenEndBlindSpot =
        "TCP connections whose end no program sees: what they moved since their last record"
    private static let skippedStateBlindSpot =
        "which end opened a connection, and the bytes of its missed calls, if it begins or ends while another one does on the same processor"
    private static let skippedEndBlindSpot =
        "the last bytes, up to one refresh, of connections that end while another ends on the same processor"

    /// What a method of BPF programs can't see on this kernel.
    static func blindSpots(of method: CaptureMethod) -> [String] {
        let sendpage = Hook("inet_sendpage_exit", .fexit("inet_sendpage"))
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

extension BPFPrograms.Hook.Place {
    static func fexit(_ function: String) -> Self { .target(function, kind: BPF_TRACE_FEXIT) }
    static func tracepoint(_ tracepoint: String) -> Self { .target(tracepoint, kind: BPF_TRACE_RAW_TP) }
}
