import Synchronization
import TrafficReport

/// Datagrams that are complete, in the order of their numbers. All threads put theirs here, once for hundreds of records.
final class DatagramQueue: Sendable {
    /// Datagrams that wait, at most.
    static let most = 32
    /// Empty writers that are kept, at most. Each has the memory of a datagram.
    private static let mostSpare = 16

    struct Datagram: Sendable {
        var writer: ReportWriter
        let sequence: UInt32
    }

    private struct State {
        /// Oldest first.
        var waiting: [Datagram] = []
        /// A datagram is on its way to the daemon, and may come back: its place is kept.
        var isFirstTaken = false
        /// The memory of sent datagrams, to be used again.
        var spare: [ReportWriter] = []
        var sequence: UInt32 = 0
        var droppedRecords: UInt32 = 0
    }

    private let state = Mutex(State())

    var droppedRecords: UInt32 { self.state.withLock { $0.droppedRecords } }

    var isEmpty: Bool { self.state.withLock { $0.waiting.isEmpty } }

    func makeWriter() -> ReportWriter { self.state.withLock { $0.spare.popLast() } ?? ReportWriter() }

    /// Takes a datagram if there is room for one more. Otherwise drops its records.
    func append(_ writer: consuming ReportWriter) {
        self.state.withLock { [writer] state in
            if state.waiting.count + (state.isFirstTaken ? 1 : 0) < Self.most {
                state.waiting.append(Datagram(writer: writer, sequence: state.sequence))
            } else {
                state.droppedRecords &+= UInt32(writer.count)
            }
            state.sequence &+= 1
        }
    }

    func takeFirst() -> Datagram? {
        self.state.withLock { state in
            state.isFirstTaken = !state.waiting.isEmpty
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
    }

    /// Puts back a datagram that could not be sent. It stays the first.
    func putBack(_ datagram: Datagram) {
        self.state.withLock { state in
            state.isFirstTaken = false
            state.waiting.insert(datagram, at: 0)
        }
    }

    /// Gives up a datagram that can never be sent. Its number stays used.
    func drop(_ datagram: Datagram) {
        self.state.withLock { $0.droppedRecords &+= UInt32(datagram.writer.count) }
        self.reuse(datagram.writer)
    }

    /// Keeps the memory of a datagram that was taken and is sent or given up.
    func reuse(_ writer: consuming ReportWriter) {
        writer.removeAll()
        self.state.withLock { [writer] state in
            state.isFirstTaken = false
            if state.spare.count < Self.mostSpare { state.spare.append(writer) }
        }
    }

    func removeAll() { self.state.withLock { ($0.waiting, $0.isFirstTaken) = ([], false) } }
}
