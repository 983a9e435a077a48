import CLibbpf
import Glibc

/// The daemon's side of a BPF ring buffer (kernel/bpf/ringbuf.c).
///
/// Not libbpf's reader: that one gives the room of a record back to the programs as soon as the record was read. This
/// reader can keep the records until what they said is safe, so that the next daemon finds them if this one is killed.
///
/// The reader hands out records directly from the ring, without a copy. A span must not outlive the call.
final class RingReader {
    private let consumed: Mapping
    private let produced: Mapping
    private let capacity: UInt64
    private let keepsRecords: Bool
    /// Up to where records have been read, in bytes since the ring was made.
    private(set) var position: UInt64

    /// - Parameters:
    ///   - map: The ring.
    ///   - keepsRecords: Records stay in the ring until ``release()``.
    ///   - position: Where to begin, if an earlier reader has read further than it has released.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the ring can't be mapped.
    init(map: BPFMap, keepsRecords: Bool = false, from position: UInt64 = 0) throws(CaptureError) {
        let page = Int(getpagesize())
        self.capacity = UInt64(map.capacity)
        self.consumed = try Mapping(map, at: 0, byteCount: page, PROT_READ | PROT_WRITE)
        // The kernel maps the data twice in a row, so a record that wraps around is in one piece.
        self.produced = try Mapping(map, at: page, byteCount: page + 2 * Int(map.capacity), PROT_READ)
        self.keepsRecords = keepsRecords
        self.position = max(position, shim_load_position(self.consumed.start))
        self.release()
    }

    /// Whether a reader that had come to `position` has released no more than it had read.
    static func holds(_ position: UInt64, _ map: BPFMap) throws(CaptureError) -> Bool {
        let page = Int(getpagesize())
        let consumed = try Mapping(map, at: 0, byteCount: page, PROT_READ)
        let produced = try Mapping(map, at: page, byteCount: page, PROT_READ)
        return shim_load_position(consumed.start) <= position && position <= shim_load_position(produced.start)
    }

    /// Takes the records that are in the ring now. The limit ends the drain even if new records keep coming.
    ///
    /// - Parameter limit: The most records to take.
    /// - Returns: Whether all were taken for which room was reserved before this call. A program may still be writing one, and
    ///   those behind it wait.
    @discardableResult
    func drain(limit: Int, _ body: (RawSpan) -> Void) -> Bool {
        let reserved = shim_load_position(self.produced.start)
        let data = self.produced.start + Int(getpagesize())
        var taken = 0
        while taken < limit, self.position < shim_load_position(self.produced.start) {
            let header = data + Int(self.position & (self.capacity - 1))
            let word = shim_load_record_length(header)
            // The kernel hands out room in the order of reservation: records behind a busy one wait.
            guard word & UInt32(BPF_RINGBUF_BUSY_BIT) == 0 else { break }
            let length = Int(word & ~UInt32(BPF_RINGBUF_DISCARD_BIT))
            if word & UInt32(BPF_RINGBUF_DISCARD_BIT) == 0 {
                body(RawSpan(_unsafeStart: header + Int(BPF_RINGBUF_HDR_SZ), byteCount: length))
            }
            self.position += UInt64((length + Int(BPF_RINGBUF_HDR_SZ) + 7) & ~7)
            taken += 1
            if !self.keepsRecords { self.release() }
        }
        return self.position >= reserved
    }

    /// Gives the room of the records that were read back to the programs.
    func release() {
        shim_store_position(self.consumed.start, self.position)
    }

    /// A part of the ring in this process's memory.
    private struct Mapping: ~Copyable {
        let start: UnsafeMutableRawPointer
        private let byteCount: Int

        init(_ map: BPFMap, at offset: Int, byteCount: Int, _ protection: Int32) throws(CaptureError) {
            let start = mmap(nil, byteCount, protection, MAP_SHARED, map.descriptor, offset)
            guard let start, start != MAP_FAILED else { throw .system(call: "mmap", object: map.name, errno: errno) }
            (self.start, self.byteCount) = (start, byteCount)
        }

        deinit {
            munmap(self.start, self.byteCount)
        }
    }
}
