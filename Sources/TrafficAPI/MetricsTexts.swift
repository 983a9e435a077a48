import NIOCore
import Synchronization
import TrafficMetrics
import TrafficModel

/// What scrapers get of a reading. All who get the same have the same bytes, however many they are and however slowly they
/// read. A text goes when newer ones have taken its room, and only a very slow client can still need it.
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

    private struct State {
        var cost: MeasuredCost?
        /// Of the reading that was taken then.
        var takenAt: Timestamp?
        var whole: [Kind: Task<Text, Never>] = [:]
        /// Those that an answer still has, oldest first.
        var made: [Made] = []
    }

    private struct Made {
        weak var text: Text?
    }

    /// In bytes: for half a minute of texts of 1 MB, as scrapers ask for one or two kinds.
    private static let room = 64 << 20
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
            state.whole = [:]
        }
    }

    func text(
        of reading: MetricsReading,
        as format: MetricsFormat,
        hasCreated: Bool,
        for viewer: Viewer
    ) async -> Text {
        let kind = Kind(format: format, hasCreated: hasCreated)
        if case .user = viewer {
            // Such a user may not ask for the cost either.
            return Text(MetricsDocument(reading.visible(to: viewer), process: OwnProcess.now()), as: kind)
        }
        let task = self.state.withLock { state in
            if state.takenAt != reading.takenAt { (state.takenAt, state.whole) = (reading.takenAt, [:]) }
            if let task = state.whole[kind] { return task }
            let task = Task { [cost = state.cost] in
                let document = MetricsDocument(
                    reading.visible(to: viewer),
                    cost: cost,
                    process: OwnProcess.now(),
                    push: self.push()
                )
                return self.kept(Text(document, as: kind))
            }
            state.whole[kind] = task
            return task
        }
        return await task.value
    }

    private func kept(_ text: Text) -> Text {
        self.state.withLock { state in
            state.made.removeAll { $0.text == nil }
            state.made.append(Made(text: text))
            var length = state.made.reduce(0) { $0 + ($1.text?.length ?? 0) }
            while length > Self.room, state.made.count > Self.fewestTexts, let oldest = state.made.removeFirst().text {
                length -= oldest.length
                oldest.drop()
            }
        }
        return text
    }
}
