import CTrafficABI
import Dispatch
import Glibc
import Synchronization
import TrafficEvents
import TrafficLimits
import TrafficModel

/// The list of processes that hold sockets. It goes through all open files, and a user may have millions of those, so
/// another thread reads it: the thread that counts takes the list when it is there.
final class HolderList {
    /// Lines that are kept. Where there is no room for a line of a socket, those who used it count as its holders.
    static let limit = UserLimit(8_192, inAll: 131_072)
    /// From the end of a list to the next one, in nanoseconds: so many times as long as the list took a processor, within
    /// these bounds.
    private static let restFactor: UInt64 = 300
    private static let shortestRest: UInt64 = 3_000_000_000
    private static let longestRest: UInt64 = 60_000_000_000

    private let iterator: BPFIterator
    private let queue = DispatchQueue(label: "holders")
    /// `nil` while it rests.
    private var reading: Reading?
    /// Nanoseconds of ``MonotonicClock``.
    private var restsUntil: UInt64 = 0

    init(_ iterator: BPFIterator) { self.iterator = iterator }

    /// Begins a list if its time has come. Call this at each sweep.
    ///
    /// - Parameter begin: Called if a new list begins: the programs have to know.
    /// - Returns: A list that has ended since the last call.
    /// - Throws: ``CaptureError`` if the kernel broke a list off.
    func take(begin: () throws(CaptureError) -> Void) throws(CaptureError) -> [SocketHolders]? {
        let now = MonotonicClock.nanoseconds()
        if let reading {
            guard let (result, cost) = reading.finished else { return nil }
            self.reading = nil
            self.restsUntil = now + min(max(Self.shortestRest, cost * Self.restFactor), Self.longestRest)
            return try result.get()
        }
        guard now >= self.restsUntil else { return nil }
        // Also where what follows fails.
        self.restsUntil = now + Self.shortestRest
        try begin()
        let reading = Reading(try self.iterator.open())
        self.reading = reading
        self.queue.async { reading.run() }
        return nil
    }
}

private final class Reading: Sendable {
    typealias Outcome = (result: Result<[SocketHolders], CaptureError>, cost: UInt64)

    private let file: OwnedDescriptor
    private let outcome = Mutex<Outcome?>(nil)

    init(_ file: consuming OwnedDescriptor) { self.file = file }

    /// With the nanoseconds of the processor that it took; `nil` while it is being read.
    var finished: Outcome? { self.outcome.withLock { $0 } }

    func run() {
        let start = MonotonicClock.threadNanoseconds()
        let result = Result { () throws(CaptureError) in try self.read() }
        let cost = MonotonicClock.threadNanoseconds() - start
        self.outcome.withLock { $0 = (result, cost) }
    }

    private func read() throws(CaptureError) -> [SocketHolders] {
        let size = MemoryLayout<traffic_holder>.stride
        var (lines, partial) = (HolderLines(), [UInt8]())
        try self.file.readAll(chunk: BPFIterator.chunk, name: BPFPrograms.holders) { piece throws(CaptureError) in
            // A line may be split over two reads.
            piece.withUnsafeBytes { partial.append(contentsOf: $0) }
            let whole = partial.count / size * size
            unsafe partial.withUnsafeBytes { bytes in
                for offset in stride(from: 0, to: whole, by: size) {
                    lines.add(unsafe bytes.loadUnaligned(fromByteOffset: offset, as: traffic_holder.self))
                }
            }
            partial.removeFirst(whole)
        }
        return lines.sockets
    }
}

/// What the lines of a list say of each socket.
struct HolderLines {
    private var holders: [UInt64: SocketHolders] = [:]
    private var linesOfUser: [PayingUser: Int] = [:]
    private var count = 0

    /// In the order of their serials.
    var sockets: [SocketHolders] { self.holders.values.sorted { $0.serial < $1.serial } }

    mutating func add(_ line: traffic_holder) {
        let user = PayingUser(line.owner.uid)
        let hasRoom =
            self.linesOfUser[user, default: 0] < HolderList.limit.ofUser && self.count < HolderList.limit.inAll
        // A socket without a place either is not in the list, or its users are its holders: this line changes nothing.
        guard hasRoom || self.holders[line.serial] != nil else { return }
        let none = SocketHolders(serial: line.serial, others: [], isHeldByFirst: false)
        var socket = self.holders[line.serial] ?? none
        socket.isHeldByFirst = socket.isHeldByFirst || line.held_by & TRAFFIC_HELD_BY_FIRST.rawValue != 0
        if hasRoom {
            self.linesOfUser[user, default: 0] += 1
            self.count += 1
            let holder = OwnerObservation(line.owner)
            // The lines of a process for a socket follow one another, unless other holders come in between.
            if line.is_first == 0, socket.others.last?.identity != holder.identity { socket.others.append(holder) }
        } else {
            socket.isComplete = false
        }
        self.holders[line.serial] = socket
    }
}
