import CTrafficABI
import Glibc
import TrafficModel

/// Reads the processes of a socket beyond those in the socket's own record. They leave the map when the socket has
/// closed, or when it is missing in several censuses. Until then the kernel may add to their counters.
struct OwnerReader {
    private let owners: BPFMap
    /// Sockets whose final totals came since the last reading.
    private var closed: Set<UInt64> = []
    /// Sockets that are missing in sweeps that may miss living sockets. The owners leave as their processes end.
    private var doubtful: Set<UInt64> = []
    /// Owners of such sockets whose processes had ended after the last reading. The next reading has their final bytes.
    private var ended: [traffic_owner_key] = []
    private var absences = Absences()
    /// Where the sockets with further owners are: whether a census covers them.
    private var places: [UInt64: Place] = [:]

    private struct Place {
        var transport: TransportProtocol
        var namespace: UInt32
    }

    /// Owners whose final bytes were read.
    private var finished: [traffic_owner_key] = []

    init(map: BPFMap) {
        self.owners = map
    }

    /// Removes the owners whose final bytes were read.
    mutating func release() {
        for key in self.finished { self.owners.remove(key) }
        self.finished = []
    }

    mutating func note(_ socket: SocketObservation) {
        guard socket.isShared else { return }
        self.places[socket.serial] = Place(transport: socket.transport, namespace: socket.networkNamespace)
    }

    mutating func close(_ serial: UInt64) {
        self.closed.insert(serial)
    }

    /// The socket seems to have closed, but may live: a thread in a call or io_uring may hold the socket while no file
    /// descriptor does.
    mutating func doubt(_ serial: UInt64) {
        self.doubtful.insert(serial)
    }

    /// - Parameter census: If it was just taken and no socket that it covers can be missing; otherwise `nil`. If the
    ///   owners of a living socket left the map, their counters would start again at 0.
    /// - Returns: How many entries could not be decoded.
    mutating func read(census: SocketCensus?, _ emit: (CaptureEvent) -> Void) throws(CaptureError) -> UInt64 {
        var sockets: Set<UInt64> = []
        var entries: [(key: traffic_owner_key, socket: UInt64)] = []
        var malformed: UInt64 = 0
        try self.owners.forEach(
            keySize: MemoryLayout<traffic_owner_key>.size,
            valueSize: MemoryLayout<traffic_owner>.size
        ) { key, value in
            do {
                let (serial, owner) = try TrafficRecord.decodeOwner(key: key, value: value)
                emit(.owner(socket: serial, owner))
                sockets.insert(serial)
                entries.append((key.unsafeLoadUnaligned(as: traffic_owner_key.self), serial))
            } catch {
                malformed += 1
            }
        }
        self.places = self.places.filter { sockets.contains($0.key) }
        if let census {
            let missing = sockets.subtracting(census.serials).filter { serial in
                self.places[serial].map { census.covers($0.transport, in: $0.namespace) } ?? (census.namespaces == nil)
            }
            let closed = self.absences.note(missing)
            // Such a census may miss a living socket that has left the kernel's tables.
            if census.namespaces == nil { self.closed.formUnion(closed) } else { self.doubtful.formUnion(closed) }
        }
        for (key, socket) in entries where self.closed.contains(socket) { self.finished.append(key) }
        self.finished += self.ended
        self.closed.removeAll()
        self.noteOwnersThatEnded(of: entries)
        return malformed
    }

    private mutating func noteOwnersThatEnded(of entries: [(key: traffic_owner_key, socket: UInt64)]) {
        self.ended = []
        guard !self.doubtful.isEmpty else { return }
        var remaining: Set<UInt64> = []
        for (key, socket) in entries where self.doubtful.contains(socket) {
            remaining.insert(socket)
            if kill(pid_t(bitPattern: key.tgid), 0) != 0 && errno == ESRCH { self.ended.append(key) }
        }
        self.doubtful = remaining
    }
}
