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

    /// Texts of viewers who see the same.
    private struct Shelf {
        /// Of the reading that was taken then.
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
        /// By user. `nil`: all who see every program.
        var shelves: [UInt32?: Shelf] = [:]
    }

    /// In bytes: for half a minute of texts of 1 MB, as scrapers ask for one or two kinds.
    static let room = 64 << 20
    /// Of each user who sees only programs of their own. So users who read slowly make no room for each other, and none
    /// of that for scrapers.
    static let roomOfUser = 4 << 20
    /// The newest texts are kept, however large: one of each kind.
    private static let fewestTexts = 4
    private let state = Mutex(State())
    private let push: @Sendable () -> [PushStatus]

    /// - Parameter push: How the deliveries to receivers go.
    init(push: @escaping @Sendable () -> [PushStatus] = { [] }) {
        self.push = push
    }

    /// The cost was measured. It is in the texts until the next measurement.
    func keep(_ cost: CaptureCost) {
        self.state.withLock { state in
            state.cost = MeasuredCost(cost, at: .now())
            state.shelves[nil]?.newest = [:]
        }
    }

    func text(
        of reading: MetricsReading,
        as format: MetricsFormat,
        hasCreated: Bool,
        for viewer: Viewer
    ) async -> Text {
        let kind = Kind(format: format, hasCreated: hasCreated)
        let uid: UInt32? = if case .user(let uid) = viewer { uid } else { nil }
        let task = self.state.withLock { state in
            // Whoever does not come back leaves nothing behind.
            for (other, shelf) in state.shelves where shelf.takenAt != reading.takenAt {
                state.shelves[other]?.newest = [:]
                if shelf.made.allSatisfy({ $0.text == nil }) { state.shelves[other] = nil }
            }
            var shelf = state.shelves[uid] ?? Shelf()
            defer { state.shelves[uid] = shelf }
            shelf.takenAt = reading.takenAt
            if let task = shelf.newest[kind] { return task }
            // Such a user may not ask for the cost either, and the receivers are the administrator's.
            let (cost, push) = uid == nil ? (state.cost, self.push()) : (nil, [])
            let task = Task {
                let document = MetricsDocument(
                    reading.visible(to: viewer),
                    cost: cost,
                    process: OwnProcess.now(),
                    push: push
                )
                return self.kept(Text(document, as: kind), for: uid)
            }
            shelf.newest[kind] = task
            return task
        }
        return await task.value
    }

    private func kept(_ text: Text, for uid: UInt32?) -> Text {
        let room = uid == nil ? Self.room : Self.roomOfUser
        self.state.withLock { state in
            var made = state.shelves[uid]?.made.filter { $0.text != nil } ?? []
            made.append(Made(text: text))
            var length = made.reduce(0) { $0 + ($1.text?.length ?? 0) }
            while length > room, made.count > Self.fewestTexts, let oldest = made.removeFirst().text {
                length -= oldest.length
                oldest.drop()
            }
            state.shelves[uid, default: Shelf()].made = made
        }
        return text
    }
}
