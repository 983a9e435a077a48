/// Reads what found no room in the ring: final records of sockets, and copies of sockets whose last file is gone
/// (`ends.bpf.h`). No program updates them any more, so nothing is lost between reading and removing. A program may remove
/// a copy before the socket's final record takes its place.
struct DeferredReader {
    private let map: BPFMap
    /// The keys of what was read and is still in the map.
    private(set) var taken: [UInt64]

    /// - Parameter taken: What an earlier reader read. It leaves the map at once.
    init(map: BPFMap, taken: [UInt64] = []) {
        (self.map, self.taken) = (map, taken)
        self.release()
    }

    /// - Parameter body: Is called with each record that was not read before, also before an error.
    mutating func take(_ body: (RawSpan) -> Void) throws(CaptureError) {
        // If a program removes the element at which the reader is, the kernel begins anew.
        var known = Set(self.taken)
        var fresh: [UInt64] = []
        defer { self.taken += fresh }
        try self.map.forEach(keySize: 8, valueSize: TrafficRecord.size) { key, record in
            let key = key.unsafeLoadUnaligned(as: UInt64.self)
            guard known.insert(key).inserted else { return }
            fresh.append(key)
            body(record)
        }
    }

    /// Removes what was read.
    mutating func release() {
        for key in self.taken { self.map.remove(key) }
        self.taken = []
    }
}
