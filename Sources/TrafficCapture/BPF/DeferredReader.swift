import CTrafficABI

/// Reads the records that found no room in the ring (`closing.bpf.h`): final ones of closed sockets, and copies of sockets
/// whose last file is gone. The payload of these sockets no longer grows, and no program removes a record, so nothing is
/// lost between reading and removing.
final class DeferredReader {
    private let map: BPFMap
    private let sharedMap: BPFMap
    /// Keys that will not be read again. What is in the maps under them leaves with ``release()``.
    private(set) var taken: Set<UInt64>
    private var readLast: [UInt64] = []

    /// - Parameter taken: What an earlier reader took. It leaves the maps at once.
    init(_ map: BPFMap, shared sharedMap: BPFMap, taken: [UInt64] = []) {
        (self.map, self.sharedMap) = (map, sharedMap)
        self.taken = Set(taken)
        self.release()
    }

    /// - Parameter body: Is called with each record that is not taken, also before an error. `isCopy`: of a socket that
    ///   was still open.
    func read(_ body: (_ record: RawSpan, _ isCopy: Bool) -> Void) throws(CaptureError) {
        self.readLast = []
        for (map, size) in [(self.map, TrafficRecord.size), (self.sharedMap, TrafficRecord.sharedSize)] {
            try map.forEach(keySize: MemoryLayout<UInt64>.size, valueSize: size) { key, record in
                let key = key.unsafeLoadUnaligned(as: UInt64.self)
                guard !self.taken.contains(key) else { return }
                self.readLast.append(key)
                body(record, key & Self.copyBit != 0)
            }
        }
    }

    /// What was read last is taken. Otherwise the next call of ``read(_:)`` reads it again.
    func confirm() {
        self.taken.formUnion(self.readLast)
        self.readLast = []
    }

    /// A final record has all that the socket's copies have.
    ///
    /// - Parameter final: Of a socket that has left a copy.
    func passOverCopies(of final: RawSpan, serial: UInt64) {
        self.taken.insert(serial | Self.copyBit)
        // The socket may have got further owners after it left its copy.
        if final.byteCount == TrafficRecord.sharedSize { self.taken.insert(serial | Self.copyBit | Self.sharedBit) }
    }

    /// Removes what was taken.
    func release() {
        for key in self.taken { (key & Self.sharedBit == 0 ? self.map : self.sharedMap).remove(key) }
        self.taken = []
    }

    private static let sharedBit = UInt64(TRAFFIC_KEY_SHARED.rawValue) << 32
    private static let copyBit = UInt64(TRAFFIC_KEY_COPY.rawValue) << 32
}
