import TrafficModel

/// The sums of a ledger, in a form that every later version of the program can read.
///
/// A program of another version may not know the rest of a checkpoint. It goes on with these sums, so an upgrade or a
/// downgrade does not begin at 0.
///
/// These types are for the file alone, and they are coded field after field: never change them. A later version that needs
/// more has types of its own with a higher ``version``, and reads these, too.
struct LedgerSums: Codable {
    static let version: UInt32 = 1

    fileprivate struct Bytes: Codable {
        var sent: UInt64
        var received: UInt64
        var wireSent: UInt64?
        var wireReceived: UInt64?
        var retransmitted: UInt64?
    }

    fileprivate struct Named: Codable {
        var name: String
        var bytes: Bytes
    }

    fileprivate struct Life: Codable {
        var name: String
        var executable: String?
        var systemdUnit: String?
        var containerID: String?
        var uid: UInt32?
        var number: UInt64
        var beganBoottimeNanoseconds: UInt64
        var endedProcesses: Int
        var explained: UInt64
        var bytes: Bytes
    }

    fileprivate struct EndedLives: Codable {
        var uid: UInt32?
        var bytes: Bytes
    }

    private var takenAtNanoseconds: Int64
    private var takenBoottimeNanoseconds: UInt64
    /// In the order of ``CaptureLoss/numbers``, to which later versions may append.
    private var losses: [UInt64]
    private var bytes: Bytes
    private var scopes: [Named]
    private var classes: [Named]
    private var lives: [Life]
    /// The highest number of a life so far.
    private(set) var lastLife: UInt64
    private var endedLives: [EndedLives]
    /// Of no process that is known by now.
    private var unowned: Bytes

    /// - Parameter endedProcesses: How many processes of each group are no longer listed.
    init(_ balance: Balance, endedProcesses: [ProcessGroup: Int], lastLife: UInt64, loss: CaptureLoss) {
        self.takenAtNanoseconds = balance.takenAt.nanosecondsSinceEpoch
        self.takenBoottimeNanoseconds = balance.takenBoottimeNanoseconds
        self.losses = loss.numbers
        self.bytes = Bytes(balance.bytes)
        self.scopes = balance.byScope.map { Named(name: $0.key, bytes: Bytes($0.value)) }
        self.classes = balance.byClass.map { Named(name: $0.key, bytes: Bytes($0.value)) }
        self.lives = balance.groups.lives.map { life in
            Life(
                name: life.group.name,
                executable: life.group.executable,
                systemdUnit: life.group.systemdUnit,
                containerID: life.group.containerID,
                uid: life.group.uid,
                number: life.number,
                beganBoottimeNanoseconds: life.beganBoottimeNanoseconds,
                endedProcesses: endedProcesses[life.group] ?? 0,
                explained: life.explained,
                bytes: Bytes(life.bytes)
            )
        }
        self.lastLife = lastLife
        self.endedLives = balance.groups.endedLives.map { EndedLives(uid: $0.key, bytes: Bytes($0.value)) }
        self.unowned = Bytes(balance.groups.unowned.settled + balance.groups.unknown.settled)
    }

    /// - Parameter countingSince: Which no ledger knows.
    func balance(countingSince: Timestamp) -> Balance {
        var balance = Balance(
            takenAt: Timestamp(nanosecondsSinceEpoch: self.takenAtNanoseconds),
            takenBoottimeNanoseconds: self.takenBoottimeNanoseconds,
            countingSince: countingSince,
            uncountedNanoseconds: self.loss.uncountedNanoseconds,
            bytes: self.bytes.counts
        )
        for scope in self.scopes { balance.byScope[scope.name] = scope.bytes.counts }
        for entry in self.classes { balance.byClass[entry.name] = entry.bytes.counts }
        balance.groups.lives = self.lives.map { life in
            GroupLife(
                group: life.group,
                number: life.number,
                beganBoottimeNanoseconds: life.beganBoottimeNanoseconds,
                bytes: life.bytes.counts,
                explained: life.explained
            )
        }
        for entry in self.endedLives { balance.groups.endedLives[entry.uid] = entry.bytes.counts }
        balance.groups.unowned = self.unowned.counts
        return balance
    }

    var endedProcesses: [ProcessGroup: Int] {
        self.lives.reduce(into: [:]) { $0[$1.group] = $1.endedProcesses }
    }

    var loss: CaptureLoss { CaptureLoss(numbers: self.losses) }
}

extension LedgerSums.Bytes {
    fileprivate init(_ counts: ByteCounts) {
        self.init(
            sent: counts.payload.sent,
            received: counts.payload.received,
            wireSent: counts.wireSent,
            wireReceived: counts.wireReceived,
            retransmitted: counts.retransmitted
        )
    }

    fileprivate var counts: ByteCounts {
        ByteCounts(
            payload: PayloadBytes(sent: self.sent, received: self.received),
            wireSent: self.wireSent,
            wireReceived: self.wireReceived,
            retransmitted: self.retransmitted
        )
    }
}

extension LedgerSums.Life {
    fileprivate var group: ProcessGroup {
        ProcessGroup(
            name: self.name,
            executable: self.executable,
            systemdUnit: self.systemdUnit,
            containerID: self.containerID,
            uid: self.uid
        )
    }
}

extension CaptureLoss {
    /// Each number at its place in ``LedgerSums``.
    private static var places: [WritableKeyPath<CaptureLoss, UInt64>] {
        [
            \.ringFull, \.socketsFolded, \.callsFolded, \.mapFull, \.recordsMalformed, \.reportsDropped,
            \.reportsRejected, \.countersBackwards, \.missedRuns, \.readsFailed, \.uncountedNanoseconds,
        ]
    }

    fileprivate var numbers: [UInt64] { Self.places.map { self[keyPath: $0] } }

    /// - Parameter numbers: Those that are missing are 0, and further ones are not known here.
    fileprivate init(numbers: [UInt64]) {
        self.init()
        for (place, number) in zip(Self.places, numbers) { self[keyPath: place] = number }
    }
}
