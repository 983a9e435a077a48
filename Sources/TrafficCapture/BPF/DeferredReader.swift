/// Reads the closed sockets that found no room in the ring. No program updates their records any more, so nothing is
/// lost between reading and removing.
struct DeferredReader {
    private let map: BPFMap
    /// The serials of the sockets that were read and are still in the map.
    private(set) var taken: [UInt64]

    /// - Parameter taken: What an earlier reader read. It leaves the map at once.
    init(map: BPFMap, taken: [UInt64] = []) {
        (self.map, self.taken) = (map, taken)
        self.release()
    }

    /// - Parameter body: Is called with each record that was not read before, also before an error.
    mutating func take(_ body: (RawSpan) -> Void) throws(CaptureError) {
        let known = Set(self.taken)
        var fresh: [UInt64] = []
        defer { self.taken += fresh }
        try self.map.forEach(keySize: 8, valueSize: TrafficRecord.size) { key, record in
            let serial = key.unsafeLoadUnaligned(as: UInt64.self)
            guard !known.contains(serial) else { return }
            fresh.append(serial)
            body(record)
        }
    }

    /// Removes what was read.
    mutating func release() {
        for serial in self.taken { self.map.remove(serial) }
        self.taken = []
    }
}
