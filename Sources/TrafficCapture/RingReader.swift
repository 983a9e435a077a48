import CLibbpf
import Glibc

/// The user side of a BPF ring buffer.
///
/// Records are handed out where they lie in the ring, without a copy; a span must not outlive the call.
final class RingReader {
    private let ring: OpaquePointer
    private let receiver: Receiver

    private final class Receiver {
        var body: ((RawSpan) -> Void)?
        /// How many records may still be taken in this round.
        var allowance = 0
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the ring can't be mapped.
    init(map: BPFMap) throws(CaptureError) {
        let receiver = Receiver()
        let callback: ring_buffer_sample_fn = { context, data, size in
            guard let context, let data else { return 0 }
            let receiver = Unmanaged<Receiver>.fromOpaque(context).takeUnretainedValue()
            receiver.body?(RawSpan(_unsafeStart: data, byteCount: size))
            receiver.allowance -= 1
            // libbpf moves on past this record, and stops.
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

    /// Takes the records that are in the ring now, and not what comes meanwhile without end.
    ///
    /// - Parameter limit: Of records.
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
