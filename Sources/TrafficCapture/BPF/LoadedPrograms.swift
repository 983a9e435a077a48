import CTrafficABI
import TrafficModel

/// The loaded and attached programs of a method. They are detached and unloaded when the value goes away.
struct LoadedPrograms: ~Copyable {
    /// For tests: faults of the kernel and small maps.
    struct Faults {
        /// Programs that are not attached, nor their twins. The kernel sometimes skips a program for one call; this
        /// does the same for all calls.
        var leftOut: Set<String> = []
        /// Programs that the kernel is made to refuse.
        var refused: Set<String> = []
        /// Bytes of the ring of closed sockets, a power of two and at least a page.
        var ringBytes: UInt32?
        /// Elements of every hash map.
        var mapElements: UInt32?
        /// In `deferred`, of which each payer has its part.
        var deferredElements: UInt32?
        /// Elements of the map of interfaces.
        var interfaceElements: UInt32?
        /// Elements of the map of rows.
        var rowElements: UInt32?
    }

    // The links come first, because they depend on the programs of the object.
    let links: BPFLinks
    let object: BPFObject
    let blindSpots: [String]
    /// Which packets the attached programs count.
    let wire: WireCounting

    /// Loads and attaches the programs of the method. Where the kernel refuses one, the method goes on with its
    /// substitutes or without it, as ``BPFPrograms`` says.
    ///
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if the kernel refuses a program that the method needs.
    init(_ method: CaptureMethod, wire: WireCounting, faults: Faults) throws(CaptureError) {
        var refused: [String: String] = [:]
        while true {
            let plan = try CapturePlan(method, wire: wire, refused: refused)
            do throws(CaptureError) {
                let object = try LoadedPrograms.load(method, plan, faults)
                let wanted = plan.programs.filter { !faults.leftOut.contains($0.twinOf ?? $0.program) }
                self.links = try LoadedPrograms.attach(wanted, object)
                self.object = object
                self.wire = plan.wire
                let narrow = self.links.narrowReturns.map { "\(BPFPrograms.narrowReturnsBlindSpot) (\($0))" }
                self.blindSpots = plan.blindSpots + (narrow.map { [$0] } ?? [])
                return
            } catch .refused(let program, let reason) where plan.names.contains(program) {
                refused[program] = reason
            }
        }
    }

    private static func load(
        _ method: CaptureMethod,
        _ plan: CapturePlan,
        _ faults: Faults
    ) throws(CaptureError) -> BPFObject {
        let facts = KernelFacts.ofThisKernel
        let embedded = method.object
        let object = try BPFObject(elf: embedded.elf())
        object.select(programs: plan.names)
        for program in faults.refused.intersection(plan.names) { try object.spoil(program) }
        // The type of this map does not exist before Linux 5.11, and only twins use the map.
        if embedded == .storage && !facts.preemptsTracepoints {
            try object.definition(ofMap: "counted_calls").leaveOut()
        }
        if embedded == .hash && facts.hashesAllocateAsNeeded { try self.widen(object) }
        if let bytes = faults.ringBytes { try object.definition(ofMap: "closed").setCapacity(bytes) }
        if let elements = faults.mapElements {
            // `sharers` is a hash only in the one object.
            let others = embedded == .storage ? [] : ["sharers"]
            for map in ["deferred", "deferred_shared", "interfaces", "early", "executed"] + others {
                try object.definition(ofMap: map).setCapacity(elements)
            }
        }
        if let elements = faults.interfaceElements {
            try object.definition(ofMap: "interfaces").setCapacity(elements)
        }
        let deferredLimit =
            faults.deferredElements
            ?? (embedded == .storage ? TRAFFIC_DEFERRED : TRAFFIC_DEFERRED_IN_HASH).rawValue
        if let elements = faults.deferredElements {
            try object.definition(ofMap: "deferred").setCapacity(elements)
            try object.definition(ofMap: "deferred_shared").setCapacity(elements / TRAFFIC_PLACES_OF_SHARED.rawValue)
        }
        if let elements = faults.rowElements {
            try object.definition(ofMap: "rows").setCapacity(elements)
        }
        try object.definition(ofMap: ".rodata.fixed").setInitial(
            traffic_fixed_settings(
                derives_wire: plan.wire == .derived ? 1 : 0,
                counts_interfaces: plan.wire == .audited ? 1 : 0,
                counts_streams: method == .lifecycle ? 1 : 0,
                tracepoints_preempted: facts.preemptsTracepoints ? 1 : 0,
                leaves_totals: plan.leavesTotals ? 1 : 0,
                // A probe of `kprobe` sees them, too.
                sees_releases: method == .kprobe || plan.names.contains(BPFPrograms.release) ? 1 : 0,
                deferred_limit: deferredLimit,
                pad: 0
            )
        )
        try object.load()
        return object
    }

    /// Where probes may use maps that allocate memory as needed (``KernelFacts/hashesAllocateAsNeeded``), these maps can
    /// have more elements at no cost.
    private static func widen(_ object: borrowing BPFObject) throws(CaptureError) {
        let widened: [(String, UInt32)] = [
            ("sockets", 1 << 18), ("sharers", 1 << 14), ("deferred", 1 << 16), ("deferred_shared", 1 << 12),
        ]
        for (name, elements) in widened {
            let map = try object.definition(ofMap: name)
            try map.allocateAsNeeded()
            try map.setCapacity(elements)
        }
    }

    private static func attach(
        _ hooks: [BPFPrograms.Hook],
        _ object: borrowing BPFObject
    ) throws(CaptureError) -> BPFLinks {
        var links = BPFLinks()
        if hooks.contains(where: \.isReturnProbe) { links.openTracingDirectory() }
        for hook in hooks {
            let program = try object.program(hook.program)
            links.twins[hook.program] = hook.twinOf
            switch hook.place {
            case .target, .entry:
                try links.attach(program)
            case .exit(let function):
                try links.attach(program, toReturnOf: function)
            case .cgroup:
                do throws(CaptureError) {
                    try links.attach(program, toCgroup: try CgroupRoot.open())
                } catch .unsupported(let feature, let reason) {
                    throw .refused(program: hook.program, reason: "\(feature): \(reason)")
                }
            case .list:
                links.iterators.append(try BPFIterator(program, over: nil))
            case .sockets:
                links.iterators.append(try BPFIterator(program, over: object.maps()["sockets"]))
            }
        }
        return links
    }
}

extension CaptureMethod {
    /// The object that contains the programs of the method.
    var object: EmbeddedObject { self == .kprobe ? .hash : .storage }
}
