import NIOCore
import NIOPosix
import SQLiteDatabase
import TrafficDocuments
import TrafficModel

/// Requests that wait for their receivers, in a database: they outlast the daemon. Each destination takes them in their
/// order. Beyond ``room`` the oldest go, but never those of the newest reading. All sums are cumulative, so a receiver that
/// missed some still gets every byte with the next.
///
/// While the file can't be written, such as on a full disk, what comes waits in memory, behind what is in the file. As soon
/// as the file takes it, it moves there.
actor PushSpool {
    struct Waiting: Sendable {
        fileprivate var number: UInt64
        var body: [UInt8]
    }

    struct Counts: Sendable, Equatable {
        var waiting: UInt64
        var dropped: UInt64
    }

    /// In bytes: eight hours of 1,000 programs, sent once a minute.
    static let room = 64 << 20
    static let roomInMemory = 8 << 20

    private let thread: MultiThreadedEventLoopGroup
    private let eventLoop: any EventLoop
    /// SQLite blocks, and here it blocks only a thread of its own.
    nonisolated var unownedExecutor: UnownedSerialExecutor { self.eventLoop.executor.asUnownedSerialExecutor() }

    private let destinations: [PushDestination]
    private let path: String?
    private let room: Int
    /// `nil` while it can't be opened, and without a path.
    private var file: PushStore?
    /// `nil`: nothing waits in memory.
    private var memory: PushStore?
    private let report: @Sendable (String) -> Void
    private var progress: [PushDestination: Progress] = [:]
    /// The number of the last request that a destination was given.
    private var given: UInt64 = 0

    /// How far a destination is, beside its cursor in the database.
    private struct Progress {
        /// Requests that were deleted before the destination took them: they made room, or the file was damaged.
        var dropped: UInt64 = 0
        /// How many waited in the file at the last count.
        var inFile: UInt64 = 0
        /// What the destination is being sent.
        var underWay: UnderWay?
    }

    private struct UnderWay {
        let number: UInt64
        var id: Int64
        var isInFile: Bool
        /// Whether it was deleted meanwhile. The destination may still take it; it is dropped only if it does not.
        var isDeleted = false
    }

    /// - Parameters:
    ///   - path: Of the database; `nil`: in memory.
    ///   - room: Of all bodies. `nil`: the usual one.
    ///   - report: Gets what a log should have.
    init(
        _ destinations: [PushDestination],
        path: String?,
        room: Int? = nil,
        report: @escaping @Sendable (String) -> Void
    ) {
        (self.destinations, self.path, self.report) = (destinations, path, report)
        self.room = room ?? Self.room
        self.thread = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        self.eventLoop = self.thread.next()
    }

    /// The daemon ends. Nothing may be asked of it any more.
    nonisolated func close() async {
        await self.moveRest()
        try? await self.thread.shutdownGracefully()
    }

    private func moveRest() {
        guard self.path != nil, self.memory != nil, !self.write([:]) else { return }
        let counts = self.destinations.map { self.inMemory(of: $0) }
        guard let most = counts.max(), most > 0 else { return }
        self.report("the file could not be written, and requests that waited in memory are lost: \(most)")
    }

    /// All forms that the destinations take.
    nonisolated var forms: Set<PushDestination.Form> { Set(self.destinations.map(\.form)) }

    func add(_ bodies: [PushDestination.Form: [[UInt8]]]) {
        if self.write(bodies) { return }
        self.keepInMemory(bodies)
    }

    /// The oldest request that a destination did not take yet. It did not take the one that this gave before, unless
    /// ``take(_:by:)`` said so.
    func next(for destination: PushDestination) -> Waiting? {
        if self.progress[destination]?.underWay?.isDeleted == true { self.progress[destination]?.dropped += 1 }
        self.progress[destination]?.underWay = nil
        // A file that could not be opened before has older requests than those that were sent from memory: what is written
        // to it now passes over them.
        if self.path != nil, self.file == nil, self.memory != nil { _ = self.write([:]) }
        var found: PushStore.Request?
        let isRead = self.withFile { file throws(SQLiteError) in found = try file.next(for: destination) }
        // Memory has what came after the file. While an open file can't be read, memory must wait: sums that are older than
        // the last would be steps back. Of a file that can't be opened nobody knows what it has, so memory is sent.
        let mayUseMemory = isRead || self.file == nil
        let isInFile = found != nil
        if found == nil, mayUseMemory { found = try? self.memory?.next(for: destination) }
        guard let found else { return nil }
        self.given += 1
        self.progress[destination, default: Progress()].underWay = UnderWay(
            number: self.given,
            id: found.id,
            isInFile: isInFile
        )
        return Waiting(number: self.given, body: found.body)
    }

    /// The destination needs this request and those before no more.
    func take(_ request: Waiting, by destination: PushDestination) {
        guard let underWay = self.progress[destination]?.underWay, underWay.number == request.number else { return }
        self.progress[destination]?.underWay = nil
        guard !underWay.isDeleted else { return }
        if underWay.isInFile {
            // Where that fails, the store notes it later.
            self.withFile { file throws(SQLiteError) in try file.take(underWay.id, by: destination) }
        } else {
            try? self.memory?.take(underWay.id, by: destination)
        }
    }

    /// - Returns: How many requests wait for a destination, and how many were deleted before it took them.
    func counts(of destination: PushDestination) -> Counts {
        self.count(destination)
        let known = self.progress[destination] ?? Progress()
        return Counts(waiting: known.inFile + self.inMemory(of: destination), dropped: known.dropped)
    }

    private func count(_ destination: PushDestination) {
        guard let waiting = try? self.file?.waiting(for: destination) else { return }
        self.progress[destination, default: Progress()].inFile = waiting
    }

    private func inMemory(of destination: PushDestination) -> UInt64 {
        (try? self.memory?.waiting(for: destination)) ?? 0
    }

    // MARK: Adding

    /// Writes what waits in memory and these requests to the file.
    ///
    /// - Returns: Whether they are there. If not, nothing has changed.
    private func write(_ bodies: [PushDestination.Form: [[UInt8]]], mayBeginAnew: Bool = true) -> Bool {
        var (moved, deleted): (PushStore.Moved, [PushDestination: [Int64]]) = (PushStore.Moved(), [:])
        let damagesBefore = self.damages
        let isDone = self.withFile { file throws(SQLiteError) in
            try file.change { () throws(SQLiteError) in
                if let memory { moved = try file.insertAll(of: memory) }
                let last = try file.last()
                for (form, bodies) in bodies { for body in bodies { try file.insert(body, form.name) } }
                deleted = try file.makeRoom(self.room, before: last)
            }
        }
        // A file that has just begun anew takes what the damaged one could not.
        guard isDone else {
            return mayBeginAnew && self.damages > damagesBefore && self.write(bodies, mayBeginAnew: false)
        }
        if self.memory != nil {
            self.memory = nil
            self.report("what waits for receivers is in \(self.path ?? "") again")
        }
        for destination in self.destinations {
            guard let underWay = self.progress[destination]?.underWay, !underWay.isInFile else { continue }
            if let id = moved.ids[underWay.id] { self.progress[destination]?.underWay?.id = id }
            self.progress[destination]?.underWay?.isInFile = true
        }
        for (destination, count) in moved.passed { self.progress[destination, default: Progress()].dropped += count }
        self.note(deleted, isInFile: true)
        return true
    }

    private func keepInMemory(_ bodies: [PushDestination.Form: [[UInt8]]]) {
        var deleted: [PushDestination: [Int64]] = [:]
        do {
            let memory = try self.memory ?? PushStore(path: nil, self.destinations)
            self.memory = memory
            try memory.change { () throws(SQLiteError) in
                let last = try memory.last()
                for (form, bodies) in bodies { for body in bodies { try memory.insert(body, form.name) } }
                deleted = try memory.makeRoom(min(self.room, Self.roomInMemory), before: last)
            }
            self.note(deleted, isInFile: false)
        } catch {
            for destination in self.destinations {
                self.progress[destination, default: Progress()].dropped += UInt64(bodies[destination.form]?.count ?? 0)
            }
        }
    }

    /// These requests were deleted before the destinations took them.
    private func note(_ deleted: [PushDestination: [Int64]], isInFile: Bool) {
        for (destination, ids) in deleted {
            var progress = self.progress[destination] ?? Progress()
            for id in ids {
                if progress.underWay?.id == id, progress.underWay?.isInFile == isInFile {
                    progress.underWay?.isDeleted = true
                } else {
                    progress.dropped += 1
                }
            }
            self.progress[destination] = progress
        }
    }

    // MARK: The file

    /// How often a file was damaged.
    private var damages = 0

    /// A full disk, or any other trouble, may pass: the file stays as it is. In place of a damaged file comes a new one.
    ///
    /// - Returns: Whether `body` did what it should.
    @discardableResult
    private func withFile(_ body: (PushStore) throws(SQLiteError) -> Void) -> Bool {
        guard self.path != nil else { return false }
        do throws(SQLiteError) {
            try body(try self.opened())
            return true
        } catch {
            if error.isCorruption || error.isForeign {
                self.beginAnew(because: error)
            } else if self.memory == nil {
                self.report("what comes for receivers waits in memory until the file can be written: \(error)")
                self.memory = try? PushStore(path: nil, self.destinations)
            }
            return false
        }
    }

    private func opened() throws(SQLiteError) -> PushStore {
        if let file { return file }
        let file = try PushStore(path: self.path, self.destinations)
        self.file = file
        for destination in self.destinations { self.count(destination) }
        return file
    }

    /// Nothing in the file is worth keeping: the next request has all sums again.
    private func beginAnew(because error: SQLiteError) {
        guard let path else { return }
        for destination in self.destinations {
            // Most files can still be read; of others the last count holds. What a file has that could not be opened,
            // nobody knows.
            self.count(destination)
            var progress = self.progress[destination] ?? Progress()
            var lost = progress.inFile
            if progress.underWay?.isInFile == true, progress.underWay?.isDeleted == false {
                progress.underWay?.isDeleted = true
                lost = lost > 0 ? lost - 1 : 0
            }
            progress.dropped += lost
            progress.inFile = 0
            self.progress[destination] = progress
        }
        self.report("\(path) was damaged, and begins anew: \(error)")
        self.file = nil
        self.damages += 1
        for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
    }
}
