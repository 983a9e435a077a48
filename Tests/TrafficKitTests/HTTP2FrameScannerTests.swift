import Testing

@testable import TrafficKit

@Suite("HTTP/2 frames")
struct HTTP2FrameScannerTests {
    enum Event: Hashable {
        case bytes(UInt64, HTTP2FrameScanner.Kind, stream: UInt32)
        case headers([UInt8], stream: UInt32)
        case ended(stream: UInt32)
        case reset(stream: UInt32, error: UInt32)
    }

    /// Joins neighbours of the same kind.
    struct Recorder: HTTP2Sink {
        var events: [Event] = []

        mutating func beganWithSettings() {}

        mutating func passed(_ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32) {
            if case .bytes(let before, kind, stream)? = self.events.last {
                self.events[self.events.count - 1] = .bytes(before + count, kind, stream: stream)
            } else {
                self.events.append(.bytes(count, kind, stream: stream))
            }
        }

        mutating func passed(framing: UInt64, _ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32) {
            self.passed(framing, .framing, stream: stream)
            if count > 0 { self.passed(count, kind, stream: stream) }
        }

        mutating func headers(_ block: Span<UInt8>, stream: UInt32) {
            self.events.append(.headers(block.withUnsafeBufferPointer { Array($0) }, stream: stream))
        }

        mutating func ended(stream: UInt32) { self.events.append(.ended(stream: stream)) }

        mutating func reset(stream: UInt32, error: UInt32) { self.events.append(.reset(stream: stream, error: error)) }
    }

    static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)

    static func frame(_ type: UInt8, flags: UInt8 = 0, stream: UInt32, _ payload: [UInt8] = []) -> [UInt8] {
        let length = payload.count
        return [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), type, flags]
            + (0..<4).map { UInt8(truncatingIfNeeded: stream >> (24 - 8 * $0)) } + payload
    }

    /// - Parameter size: The size of the pieces in which the bytes come.
    static func events(_ bytes: [UInt8], pieces size: Int = .max) -> [Event] {
        var scanner = HTTP2FrameScanner()
        var recorder = Recorder()
        var index = 0
        while index < bytes.count {
            let end = min(bytes.count, size == .max ? bytes.count : index + size)
            scanner.scan(Array(bytes[index..<end]).span, &recorder)
            index = end
        }
        scanner.close(&recorder)
        return recorder.events
    }

    private static func count(_ events: [Event]) -> UInt64 {
        events.reduce(0) { if case .bytes(let count, _, _) = $1 { $0 + count } else { $0 } }
    }

    /// A client that uses every feature once.
    static let conversation: [UInt8] = [
        preface,
        frame(4, stream: 0, [0, 3, 0, 0, 0, 100]),  // SETTINGS
        // Padded, with a priority.
        frame(1, flags: 0x4 | 0x8 | 0x20, stream: 1, [3, 0, 0, 0, 0, 15, 0x82, 0x84, 0, 0, 0]),
        frame(0, flags: 0x8, stream: 1, [2, 7, 7, 7, 7, 0, 0]),  // padded
        frame(8, stream: 1, [0, 0, 1, 0]),  // WINDOW_UPDATE
        frame(1, flags: 0x1, stream: 3, [0x82]), frame(9, stream: 3, [0x84, 0x86]), frame(9, flags: 0x4, stream: 3),
        frame(0, flags: 0x1, stream: 1),
        frame(0xb, stream: 9, [1, 2, 3]),  // an unknown type
        frame(5, flags: 0x4, stream: 1, [0, 0, 0, 2, 0x82]),
        frame(3, stream: 5, [0, 0, 0, 8]),
    ].flatMap(\.self)

    @Test("each byte is reported, with its stream", arguments: [1, 2, 5, 9, 13, .max])
    func conversation(pieces: Int) {
        let events: [Event] = [
            .bytes(39, .framing, stream: 0),
            .bytes(15, .framing, stream: 1), .bytes(2, .header, stream: 1), .bytes(3, .framing, stream: 1),
            .headers([0x82, 0x84], stream: 1),
            .bytes(10, .framing, stream: 1), .bytes(4, .body, stream: 1), .bytes(2, .framing, stream: 1),
            .bytes(13, .framing, stream: 0),
            .bytes(9, .framing, stream: 3), .bytes(1, .header, stream: 3),
            .bytes(9, .framing, stream: 3), .bytes(2, .header, stream: 3), .bytes(9, .framing, stream: 3),
            .headers([0x82, 0x84, 0x86], stream: 3), .ended(stream: 3),
            .bytes(9, .framing, stream: 1), .ended(stream: 1),
            .bytes(26, .framing, stream: 0), .headers([0x82], stream: 0),
            .bytes(13, .framing, stream: 0), .reset(stream: 5, error: 8),
        ]
        #expect(Self.events(Self.conversation, pieces: pieces) == events)
    }

    @Test("without the preface, and cut off anywhere, every byte is reported")
    func cut() {
        let bytes = Self.conversation
        for start in [0, 24] {
            for end in start...bytes.count {
                #expect(Self.count(Self.events(Array(bytes[start..<end]))) == UInt64(end - start))
            }
        }
    }

    @Test(
        "bytes that can't be frames are opaque, and so is everything after them",
        arguments: [
            Self.frame(0, stream: 0, [1]), Self.frame(9, stream: 1, [0x82]), Self.frame(1, stream: 0, [0x82]),
            Self.frame(0, flags: 0x8, stream: 1, [9, 1, 2]), Self.frame(3, stream: 1, [1, 2, 3]),
            Self.frame(1, stream: 1, [0x82]) + Self.frame(0, stream: 1, [1]), Self.frame(0, flags: 0x8, stream: 1),
        ]
    )
    func impossible(bytes: [UInt8]) throws {
        let all = bytes + Self.conversation
        let events = Self.events(all)
        #expect(Self.count(events) == UInt64(all.count))
        guard case .bytes(let count, .opaque, 0)? = events.last else { Issue.record("\(events)"); return }
        #expect(count >= UInt64(Self.conversation.count))
    }

    @Test(
        "a header block of 1 MiB is kept; a block that announces more is not kept at all",
        arguments: [.max, 16_384, 1_000]
    )
    func longBlock(pieces: Int) {
        let half = [UInt8](repeating: 0x82, count: 1 << 19)
        let fitting = Self.frame(1, stream: 1, half) + Self.frame(9, flags: 0x4, stream: 1, half)
        #expect(Self.events(fitting, pieces: pieces).contains(.headers(half + half, stream: 1)))
        let further = Self.frame(1, stream: 1, half) + Self.frame(9, flags: 0x4, stream: 1, half + [0x82])
        let opaque = UInt64(half.count + 1)
        #expect(Self.events(further, pieces: pieces).last == .bytes(opaque, .opaque, stream: 0))
        // 16 MiB, of which only a part has come.
        let declared = [0xff, 0xff, 0xff, 1, 0x4, 0, 0, 0, 1] + half
        let events = Self.events(declared, pieces: pieces)
        #expect(events == [.bytes(9, .framing, stream: 1), .bytes(UInt64(half.count), .opaque, stream: 0)])
    }

    @Test("20,000 mutated conversations: every byte is reported once, however the bytes come")
    func mutations() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            var bytes = Self.conversation
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[Int.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
            }
            let whole = Self.events(bytes)
            #expect(Self.count(whole) == UInt64(bytes.count))
            #expect(Self.events(bytes, pieces: Int.random(in: 1...30, using: &random)) == whole, "\(bytes)")
        }
    }
}
