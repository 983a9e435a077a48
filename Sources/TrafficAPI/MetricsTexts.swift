import NIOCore
import Synchronization
import TrafficMetrics
import TrafficModel

/// What scrapers get of a reading. All who get the same have the same bytes, however many they are and however slowly
/// they read. A text goes when newer ones have taken its room, and only a very slow client can still need it.
final class MetricsTexts: Sendable {
    /// A text that clients read in pieces.
    final class Text: Sendable {
        let length: Int
        private let bytes: Mutex<ByteBuffer?>

        fileprivate init(_ document: MetricsDocument, as kind: Kind) {
            let bytes = ByteBuffer(bytes: document.encoded(as: kind.format, hasCreated: kind.hasCreated))
            self.length = bytes.readableBytes
            self.bytes = Mutex(bytes)
        }

        /// - Returns: Bytes of its own; `nil` if the text is gone.
        func piece(at offset: Int, atMost length: Int) -> ByteBuffer? {
            self.bytes.withLock { bytes in
                bytes.map { ByteBuffer(bytes: $0.readableBytesView.dropFirst(offset).prefix(length)) }
            }
        }

        fileprivate func drop() { self.bytes.withLock { $0 = nil } }
    }

    fileprivate struct Kind: Hashable {
        var format: MetricsFormat
        var hasCreated: Bool
    }

    /// Viewers who see the same.
    private enum Audience: Hashable {
        /// All who see every program.
        case everyone
        /// A user who sees only programs of their own.
        case user(UInt32)

        init(_ viewer: Viewer) {
            if case .user(let uid) = viewer { self = .user(uid) } else { self = .everyone }
        }

        /// Of all texts of an audience, in bytes. A user who reads slowly loses only texts of their own.
        var room: Int { self == .everyone ? MetricsTexts.room : MetricsTexts.roomOfUser }
    }

    /// The texts of an audience.
    private struct Shelf {
        /// When the reading of ``newest`` was taken.
        var takenAt: Timestamp?
        var newest: [Kind: Task<Text, Never>] = [:]
        /// Those that an answer still has, oldest first.
        var made: [Made] = []
    }

    private struct Made {
        weak var text: Text?
    }

    private struct State {
        var cost: MeasuredCost?
        var shelves: [Audience: Shelf] = [:]
    }

    /// For half a minute of texts of 1 MB, as scrapers ask for one or two kinds.
    static let room = 64 << 20
    static let roomOfUser = 4 << 20
    /// The newest texts are kept, however large: one of each kind.
    private static let fewestTexts = 4
    private let state = Mutex(State())
    private let receivers: @Sendable () -> [PushStatus]

    /// - Parameter receivers: How the deliveries to each receiver go.
    init(receivers: @escaping @Sendable () -> [PushStatus] = { [] }) {
        self.receivers = receivers
    }

    /// The cost was measured. It is in the texts until the next measurement.
    func keep(_ cost: CaptureCost) {
        self.state.withLock { state in
            state.cost = MeasuredCost(cost, at: .now())
            state.shelves[.everyone]?.newest = [:]
        }
    }

    func text(
        of reading: MetricsReading,
        as format: MetricsFormat,
        hasCreated: Bool,
        for viewer: Viewer
    ) async -> Text {
        let kind = Kind(format: format, hasCreated: hasCreated)
        let audience = Audience(viewer)
        let task = self.state.withLock { state in
            // Texts of another reading are not shared any more, and a user's shelf goes when no client holds a text of
            // it. What users ask does not touch the texts that scrapers share.
            for (other, shelf) in state.shelves
            where shelf.takenAt != reading.takenAt && (other == audience || other != .everyone) {
                state.shelves[other]?.newest = [:]
                if shelf.made.allSatisfy({ $0.text == nil }) { state.shelves.removeValue(forKey: other) }
            }
            var shelf = state.shelves[audience] ?? Shelf()
            defer { state.shelves[audience] = shelf }
            shelf.takenAt = reading.takenAt
            if let task = shelf.newest[kind] { return task }
            // A user who sees only programs of their own gets neither the cost nor the receivers.
            let (cost, receivers) = audience == .everyone ? (state.cost, self.receivers()) : (nil, [])
            let task = Task {
                let document = MetricsDocument(
                    reading.visible(to: viewer),
                    cost: cost,
                    process: OwnProcess.now(),
                    push: receivers
                )
                return self.kept(Text(document, as: kind), for: audience)
            }
            shelf.newest[kind] = task
            return task
        }
        return await task.value
    }

    private func kept(_ text: Text, for audience: Audience) -> Text {
        self.state.withLock { state in
            var made = state.shelves[audience]?.made.filter { $0.text != nil } ?? []
            made.append(Made(text: text))
            var length = made.reduce(0) { $0 + ($1.text?.length ?? 0) }
            while length > audience.room, made.count > Self.fewestTexts, let oldest = made.removeFirst().text {
                length -= oldest.length
                oldest.drop()
            }
            state.shelves[audience, default: Shelf()].made = made
        }
        return text
    }
}
