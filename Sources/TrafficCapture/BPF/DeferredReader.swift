/// Reads a map of records that found no room in the ring (`closing.bpf.h`): `deferred` has final records of sockets,
/// and `released` has copies of sockets whose last file is gone. Their payload no longer grows, and no program removes
/// them, so nothing is lost between reading and removing.
final class DeferredReader {
    let place: TrafficRecord.Place
    private let map: BPFMap
    /// The keys of what is still in the map and will not be read again.
    private(set) var taken: [UInt64]
    private var takenLast: [UInt64] = []

    /// - Parameter taken: What earlier readers of this and of other maps read. It leaves the maps at once.
    init(map: BPFMap, of place: TrafficRecord.Place, taken: [UInt64] = []) {
        (self.map, self.place) = (map, place)
        self.taken = taken.filter { TrafficRecord.Place(ofKey: $0) == place }
        self.release()
    }

    /// - Parameter body: Is called with each record that was not read before, also before an error.
    func take(_ body: (RawSpan) -> Void) throws(CaptureError) {
        let known = Set(self.taken)
        var fresh: [UInt64] = []
        defer {
            self.taken += fresh
            self.takenLast = fresh
        }
        try self.map.forEach(keySize: 8, valueSize: self.place.recordSize) { key, record in
            let key = key.unsafeLoadUnaligned(as: UInt64.self)
            guard !known.contains(key) else { return }
            fresh.append(key)
            body(record)
        }
    }

    /// The records that were read last will be read again.
    func putBack() {
        let last = Set(self.takenLast)
        self.taken.removeAll(where: last.contains)
    }

    /// The record with this key is not to be read.
    func passOver(_ key: UInt64) { self.taken.append(key) }

    /// Removes what was read.
    func release() {
        for key in self.taken { self.map.remove(key) }
        self.taken = []
    }
}
