import NIOCore
import Synchronization

/// The bytes of answers, until their clients have read them. Who asks for the same at the same moment gets the same bytes,
/// however many they are and however slowly they read.
///
/// A client that does not read costs its payer memory, and nobody else: a payer that holds too much loses its oldest
/// answers, and their connections end. If all hold too much, payers with several answers lose the oldest ones first, of
/// whoever holds most. If each has only one, the one goes that was held for longest. Administrators have no limits.
final class UnreadAnswers: Sendable {
    struct Limits: Sendable {
        /// Bytes of answers that a payer holds. One answer may be larger.
        var ofPayer = 16 << 20
        /// Bytes of answers that all payers hold together.
        var inAll = 64 << 20
        /// So many answers are made at once. That leaves a processor for those that need no turn.
        var atOnce = max(1, min(2, System.coreCount - 1))
        /// So many answers of a payer, and of all, wait to be made.
        var waitingOfPayer = 16
        var waitingInAll = 128
    }

    /// What decides the bytes of an answer.
    struct Content: Sendable, Hashable {
        /// When the reading was taken. All answers with one target are about readings by one clock.
        var takenAt: UInt64
        /// Path and query of the request.
        var target: String
        var mediaType: String
        /// Who sees the same.
        var viewer: Viewer
    }

    /// What one client is reading. The bytes go when nobody holds them any more.
    final class Answer: Sendable {
        private let answers: UnreadAnswers
        private let hold: UInt64
        fileprivate let text: Text

        fileprivate init(_ answers: UnreadAnswers, hold: UInt64, text: Text) {
            (self.answers, self.hold, self.text) = (answers, hold, text)
        }

        deinit { self.answers.release(self.hold, of: self.text) }

        /// When the reading was taken that it is about.
        var takenAt: UInt64? { self.text.content?.takenAt }

        /// Bytes in all.
        var length: Int { self.text.bytes.withLock { $0.length } }

        /// - Returns: Bytes of their own, because a slice would keep all of the answer; `nil` if the payer has lost the
        ///   answer.
        func piece(at offset: Int, atMost length: Int) -> ByteBuffer? {
            guard self.answers.isHeld(self.hold, of: self.text) else { return nil }
            return self.text.bytes.withLock {
                ByteBuffer(bytes: $0.held.dropFirst(offset).prefix(length))
            }
        }

        /// Whether both clients have the same bytes in memory.
        func hasBytes(of other: Answer) -> Bool { self.text === other.text }
    }

    fileprivate final class Text: Sendable {
        let number: UInt64
        let content: Content?
        // Not a ByteBuffer, which takes up to twice as much.
        let bytes = Mutex((held: [UInt8](), length: 0))

        init(number: UInt64, content: Content?) { (self.number, self.content) = (number, content) }
    }

    /// A text, and who holds it.
    private struct Entry {
        let text: Text
        /// The numbers of the answers that hold the text, by payer. Later answers have higher numbers.
        var holds: [Payer: Set<UInt64>] = [:]
        /// `nil` while it is being made.
        var length: Int?
        var making: Task<Void, Never>?

        /// A payer's part of the text: payers that share it share what it takes.
        var part: Int { (self.length ?? 0) / max(1, self.holds.count) }
        var isLimited: Bool { self.length != nil && self.holds.keys.contains { $0 != .administrators } }
    }

    private struct State {
        var entries: [UInt64: Entry] = [:]
        var numbers: [Content: UInt64] = [:]
        var last: UInt64 = 0

        mutating func next() -> UInt64 {
            self.last += 1
            return self.last
        }
    }

    private let limits: Limits
    let turns: Turns
    private let state = Mutex(State())

    init(limits: Limits = Limits()) {
        self.limits = limits
        self.turns = Turns(
            atOnce: limits.atOnce,
            mostOfPayer: limits.waitingOfPayer,
            mostInAll: limits.waitingInAll
        )
    }

    // MARK: Making

    /// An answer about a reading.
    ///
    /// - Parameters:
    ///   - isWanted: Whether the client is still there.
    ///   - read: Takes the reading.
    ///   - awaited: Keeps the newest reading for those that wait for their turn.
    ///   - content: What decides the bytes.
    ///   - make: Makes the bytes.
    /// - Throws: ``Problem/tooManyRequests``, what `read` throws, or `CancellationError` if nobody wants the answer.
    func answer<Value: Sendable>(
        for payer: Payer,
        isWanted: () -> Bool,
        read: () async throws -> Value,
        awaited: AwaitedReading<Value>,
        content: (Value) -> Content,
        _ make: @escaping @Sendable (Value) -> [UInt8]
    ) async throws -> Answer {
        var reading: Value? = try await read()
        if let shared = await self.share(reading.map(content), for: payer) { return shared }
        let newest = try await self.takeTurn(for: payer, isWanted, &reading, awaited) { content($0).takenAt }
        defer { self.giveTurn(of: payer) }
        return await self.begin(content(newest), for: payer) { make(newest) }
    }

    /// An answer that nobody shares.
    ///
    /// - Parameters:
    ///   - time: When a reading was taken.
    ///   - make: Makes the bytes.
    /// - Throws: As above, or what `make` throws.
    func answer<Value: Sendable>(
        for payer: Payer,
        isWanted: () -> Bool,
        about reading: consuming Value,
        awaited: AwaitedReading<Value> = AwaitedReading(),
        time: (Value) -> UInt64 = { _ in 0 },
        _ make: (Value) throws -> [UInt8]
    ) async throws -> Answer {
        var reading: Value? = reading
        let newest = try await self.takeTurn(for: payer, isWanted, &reading, awaited, time)
        defer { self.giveTurn(of: payer) }
        let bytes = try make(newest)
        return await self.begin(nil, for: payer) { bytes }
    }

    /// - Returns: The reading, or a newer one. ``giveTurn(of:)`` must follow.
    private func takeTurn<Value: Sendable>(
        for payer: Payer,
        _ isWanted: () -> Bool,
        _ reading: inout Value?,
        _ awaited: AwaitedReading<Value>,
        _ time: (Value) -> UInt64
    ) async throws -> Value {
        if payer != .administrators, !self.turns.takeAtOnce(for: payer) {
            awaited.enter(&reading, time)
            do {
                try await self.turns.take(for: payer)
            } catch {
                _ = awaited.leave()
                throw error
            }
            reading = awaited.leave()
        }
        guard isWanted(), !Task.isCancelled, let newest = reading else {
            self.giveTurn(of: payer)
            throw CancellationError()
        }
        return newest
    }

    private func giveTurn(of payer: Payer) { if payer != .administrators { self.turns.give(payer) } }

    /// A small answer, which takes no turn.
    func answer(for payer: Payer, _ bytes: [UInt8]) async -> Answer {
        await self.begin(nil, for: payer) { bytes }
    }

    /// Shares an answer that is made or being made. Does not share one that still waits for its turn, because that turn may
    /// come late.
    private func share(_ content: Content?, for payer: Payer) async -> Answer? {
        let shared = self.state.withLock { state in content.flatMap { self.share($0, for: payer, &state) } }
        await shared?.making?.value
        return shared?.answer
    }

    private func share(
        _ content: Content,
        for payer: Payer,
        _ state: inout State
    ) -> (answer: Answer, making: Task<Void, Never>?)? {
        guard let number = state.numbers[content], let entry = state.entries[number] else { return nil }
        let hold = state.next()
        state.entries[number]?.holds[payer, default: []].insert(hold)
        if entry.length != nil { self.trim(&state, for: payer) }
        return (Answer(self, hold: hold, text: entry.text), entry.making)
    }

    private func begin(
        _ content: Content?,
        for payer: Payer,
        _ make: @escaping @Sendable () -> [UInt8]
    ) async -> Answer {
        let (answer, making) = self.state.withLock { state -> (Answer, Task<Void, Never>?) in
            if let shared = content.flatMap({ self.share($0, for: payer, &state) }) { return shared }
            let (number, hold) = (state.next(), state.next())
            let text = Text(number: number, content: content)
            let making = Task { self.keep(make(), as: text) }
            state.entries[number] = Entry(text: text, holds: [payer: [hold]], making: making)
            if let content { state.numbers[content] = number }
            return (Answer(self, hold: hold, text: text), making)
        }
        await making?.value
        return answer
    }

    private func keep(_ bytes: [UInt8], as text: Text) {
        text.bytes.withLock { $0 = (bytes, bytes.count) }
        self.state.withLock { state in
            guard let holds = state.entries[text.number]?.holds else { return }
            state.entries[text.number]?.length = bytes.count
            state.entries[text.number]?.making = nil
            for payer in holds.keys { self.trim(&state, for: payer) }
        }
    }

    // MARK: Limits

    /// A text that a payer holds: who asked for one again holds it since then.
    private struct Held {
        let number: UInt64
        let since: UInt64
        let part: Int
    }

    private func held(by payer: Payer, _ state: State) -> [Held] {
        state.entries.compactMap { number, entry in
            guard entry.length != nil, let since = entry.holds[payer]?.max() else { return nil }
            return Held(number: number, since: since, part: entry.part)
        }
        .sorted { $0.since < $1.since }
    }

    /// Whether a payer with the texts of `left` loses one only after a payer with those of `right`.
    private static func keepsLonger(_ left: [Held], _ right: [Held]) -> Bool {
        guard left.count > 1 || right.count > 1 else { return left[0].since > right[0].since }
        guard left.count > 1 && right.count > 1 else { return left.count == 1 }
        let sums = (left.reduce(0) { $0 + $1.part }, right.reduce(0) { $0 + $1.part })
        return sums.0 == sums.1 ? left[0].since > right[0].since : sums.0 < sums.1
    }

    private func trim(_ state: inout State, for payer: Payer) {
        guard payer != .administrators else { return }
        var own = self.held(by: payer, state)
        var sum = own.reduce(0) { $0 + $1.part }
        while sum > self.limits.ofPayer, own.count > 1 {
            let oldest = own.removeFirst()
            sum -= oldest.part
            self.drop(oldest.number, of: payer, &state)
        }
        self.trimAll(&state)
    }

    private func trimAll(_ state: inout State) {
        var limited = state.entries.values.filter(\.isLimited)
        var length = limited.reduce(0) { $0 + ($1.length ?? 0) }
        guard length > self.limits.inAll else { return }
        var payers: [Payer: [Held]] = [:]
        for (number, entry) in state.entries where entry.length != nil {
            for (payer, holds) in entry.holds where payer != .administrators {
                payers[payer, default: []].append(Held(number: number, since: holds.max() ?? 0, part: entry.part))
            }
        }
        for payer in payers.keys { payers[payer]?.sort { $0.since < $1.since } }
        while length > self.limits.inAll, limited.count > 1 {
            let first = payers.max { Self.keepsLonger($0.value, $1.value) }
            guard let payer = first?.key, let oldest = first?.value.first else { return }
            payers[payer]?.removeFirst()
            if payers[payer]?.isEmpty == true { payers[payer] = nil }
            self.drop(oldest.number, of: payer, &state)
            // A text that others share stays, and is theirs then.
            if state.entries[oldest.number]?.isLimited != true {
                let gone = limited.firstIndex { $0.text.number == oldest.number }
                if let gone { length -= limited.remove(at: gone).length ?? 0 }
            }
        }
    }

    private func drop(_ number: UInt64, of payer: Payer, _ state: inout State) {
        state.entries[number]?.holds[payer] = nil
        self.removeUnheld(number, &state)
    }

    private func removeUnheld(_ number: UInt64, _ state: inout State) {
        guard let entry = state.entries[number], entry.holds.isEmpty else { return }
        state.entries[number] = nil
        if let content = entry.text.content, state.numbers[content] == number { state.numbers[content] = nil }
        entry.text.bytes.withLock { $0.held = [] }
    }

    private func isHeld(_ hold: UInt64, of text: Text) -> Bool {
        self.state.withLock { $0.entries[text.number]?.holds.values.contains { $0.contains(hold) } == true }
    }

    private func release(_ hold: UInt64, of text: Text) {
        self.state.withLock { state in
            guard let holds = state.entries[text.number]?.holds,
                let payer = holds.first(where: { $0.value.contains(hold) })?.key
            else { return }
            state.entries[text.number]?.holds[payer]?.remove(hold)
            if state.entries[text.number]?.holds[payer]?.isEmpty == true {
                state.entries[text.number]?.holds[payer] = nil
            }
            self.removeUnheld(text.number, &state)
        }
    }

    /// Bytes that clients hold.
    var bytes: Int { self.state.withLock { $0.entries.values.reduce(0) { $0 + ($1.length ?? 0) } } }
}
