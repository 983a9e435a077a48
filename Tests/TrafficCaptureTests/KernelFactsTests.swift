import CLibbpf
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("What a kernel's type information shows")
struct KernelFactsTests {
    /// Type information as a kernel has it, with the few types that matter.
    private static func facts(
        elementHas element: [String],
        storageHas storage: [String],
        hashHas hash: [String] = ["map", "buckets"],
        variables: [String] = [],
        functions: [String] = []
    ) throws -> KernelFacts {
        let types = try #require(btf__new_empty())
        defer { btf__free(types) }
        let number = btf__add_int(types, "int", 4, Int32(BTF_INT_SIGNED))
        for (name, members) in [
            ("bpf_local_storage_elem", element), ("bpf_local_storage", storage), ("bpf_htab", hash),
        ] {
            #expect(btf__add_struct(types, name, UInt32(4 * members.count)) > 0)
            for (index, member) in members.enumerated() {
                #expect(btf__add_field(types, member, number, UInt32(32 * index), 0) == 0)
            }
        }
        for variable in variables { #expect(btf__add_var(types, variable, 1, number) > 0) }
        let prototype = btf__add_func_proto(types, number)
        for function in functions { #expect(btf__add_func(types, function, BTF_FUNC_STATIC, prototype) > 0) }
        return KernelFacts(KernelTypes(types))
    }

    /// As Debian's 6.12 has them. The reader is of other tracepoints.
    @Test("before 6.13: the walk is safe, and tracepoints are not preempted")
    func old() throws {
        let facts = try Self.facts(
            elementHas: ["map_node", "snode", "local_storage", "sdata"],
            storageHas: ["cache", "smap", "list", "owner", "rcu", "lock"],
            hashHas: ["map", "ma", "pcpu_ma"],
            variables: ["runqueues", "tracepoint_srcu_srcu_data"],
            functions: ["__schedule", "rcu_free_old_probes", "srcu_free_old_probes"]
        )
        #expect(facts.storageWalkIsSafe && !facts.preemptsTracepoints && facts.hashesAllocateAsNeeded)
        #expect(facts.passedOver(for: .tracepoint).isEmpty)
    }

    @Test("6.18: the walk is safe, and tracepoints are not preempted")
    func between() throws {
        let facts = try Self.facts(
            elementHas: ["map_node", "snode", "local_storage", "sdata"],
            storageHas: ["cache", "smap", "list", "owner", "rcu", "lock"],
            variables: ["runqueues"],
            functions: ["rcu_free_old_probes"]
        )
        #expect(facts.storageWalkIsSafe && !facts.preemptsTracepoints && !facts.hashesAllocateAsNeeded)
    }

    /// Linux 6.3 and 6.4 have the tracepoints, but sendfile(2) does not pass them.
    @Test(
        "tracepoints come first where the kernel may preempt programs of functions, except where they miss sendfile(2)",
        arguments: [
            (["__schedule", "preempt_schedule"], CaptureMethod.tracepoint),
            (["__schedule"], .fexit),
            ([], .tracepoint),  // it shows no functions
            (["__schedule", "preempt_schedule", "inet_sendpage"], .fexit),
        ]
    )
    func preemptedFunctions(functions: [String], best: CaptureMethod) throws {
        let facts = try Self.facts(
            elementHas: ["sdata"],
            storageHas: ["owner"],
            variables: ["runqueues"],
            functions: functions
        )
        #expect(facts.methods.first == best)
        #expect(facts.passedOver(for: .tracepoint).map(\.method) == (best == .tracepoint ? [.fexit] : []))
        #expect(facts.maySkipPrograms(of: .fexit) == (functions != ["__schedule"]))
        #expect(!facts.maySkipPrograms(of: .tracepoint) && !facts.maySkipPrograms(of: .kprobe))
    }

    @Test("what debugfs says of preemption")
    func preemptionModes() {
        #expect(["(none) voluntary full\n", "none (voluntary) full lazy\n"].allSatisfy(KernelFacts.isCooperative))
        let others = ["none voluntary (full)\n", "none voluntary full (lazy)\n", ""]
        #expect(!others.contains(where: KernelFacts.isCooperative))
    }

    /// As Debian's 7.2 has them.
    @Test("7.2: the walk can crash the kernel, and tracepoints are preempted, whatever its version says")
    func new() throws {
        let facts = try Self.facts(
            elementHas: ["map_node", "snode", "local_storage", "state", "sdata"],
            storageHas: ["cache", "list", "owner", "rcu", "lock", "mem_charge", "owner_refcnt"],
            variables: ["runqueues", "tracepoint_srcu_srcu_data"],
            functions: ["rcu_free_old_probes"]
        )
        #expect(!facts.storageWalkIsSafe && facts.preemptsTracepoints)
        #expect(facts.passedOver(for: .tracepoint).map(\.method) == [.fexit])
        #expect(facts.methods.first == .tracepoint)
    }

    @Test("one of the two members is enough, and a kernel that does not show its variables may preempt")
    func partly() throws {
        #expect(!(try Self.facts(elementHas: ["sdata"], storageHas: ["owner_refcnt"]).storageWalkIsSafe))
        #expect(!(try Self.facts(elementHas: ["state"], storageHas: ["owner"]).storageWalkIsSafe))
        #expect(try Self.facts(elementHas: ["sdata"], storageHas: ["owner"]).preemptsTracepoints)
    }

    @Test("namespaces that are mounted are found in mountinfo, and other mounts are not")
    func mounted() {
        let places = NetworkNamespaces.mounted(
            """
            29 1 254:0 / / rw,relatime - ext4 /dev/vda rw
            61 25 0:4 net:[4026532177] /run/netns/lab rw shared:30 - nsfs nsfs rw
            62 25 0:4 mnt:[4026532178] /run/snapd/ns/lab.mnt rw - nsfs nsfs rw
            """
        )
        #expect(places.map(\.inode) == [4_026_532_177] && places.map(\.path) == ["/run/netns/lab"])
    }
}
