import CLibbpf
import Glibc

/// The daemon's side of a BPF ring buffer.
///
/// The reader hands out records directly from the ring, without a copy. A span must not outlive the call.
final class RingReader {
    private let ring: OpaquePointer
    private let receiver: Receiver

    private final class Receiver {
        var body: ((RawSpan) -> Void)?
        /// How many records may still be taken in this drain.
        var allowance = 0
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the ring can't be mapped.
    init(map: BPFMap) throws(CaptureError) {
        let receiver = Receiver()
        let callback: ring_buffer_sample_fn = { context, data, size in
            guard let context, let data else { return 0 }
            let receiver = Unmanaged<Receiver>.fromOpaque(context).takeUnretainedValue()
            receiver.body?(RawSpan(_unsafeStart: data, byteCount: size))
            receiver.allowance -= 1
            // After a negative result libbpf counts this record as consumed, and stops.
            return receiver.allowance > 0 ? 0 : -ECANCELED
        }
        let ring = ring_buffer__new(map.descriptor, callback, Unmanaged.passUnretained(receiver).toOpaque(), nil)
        guard let ring else { throw .system(call: "ring_buffer__new", object: map.name, errno: errno) }
        self.ring = ring
        self.receiver = receiver
    }

    deinit {
        ring_buffer__free(self.ring)
    }

    /// Takes the records that are in the ring now. The limit ends the drain even if new records keep coming.
    ///
    /// - Parameter limit: The most records to take.
    func drain(limit: Int, _ body: (RawSpan) -> Void) throws(CaptureError) {
        let result = withoutActuallyEscaping(body) { body in
            self.receiver.body = body
            self.receiver.allowance = limit
            defer { self.receiver.body = nil }
            return ring_buffer__consume(self.ring)
        }
        guard result >= 0 || result == -ECANCELED else {
            throw .system(call: "ring_buffer__consume", object: "closed", errno: -result)
        }
    }
}
