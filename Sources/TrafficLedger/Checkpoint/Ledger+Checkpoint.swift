public import TrafficModel

/// A checkpoint is a message of Protocol Buffers (``CheckpointEncoder``) behind a ``CheckpointHeader``. Its fields are the
/// sums, the ledger with all its tables, and the names of the fields of both. These hold whenever one is written or read:
///
/// - The sums are those of the ledger. A ledger that has moved other bytes is not read (``LedgerSums/areOf(_:)``).
/// - What the ledger counts of a socket it has credited: to a process, a group, a scope, a class and the total. So the
///   counters of sockets are what a growth is compared with, and never a part of a sum. Scope and class may wait
///   (``DestinationTotals``), and the sums alone lack what waits there.
/// - A process is in one group or none, and the number of a group's listed processes is in the group.
/// - Whatever is limited has a count for each user. The file has the counts and what they count.
/// - A place in a table (a row, a part, a series) stays valid as long as its table.
/// - What the file does not have: settings, which are those of the program that reads it, and memories that only save time
///   (``NotSaved``).
extension Ledger {
    enum Part: Int {
        case sums = 1
        case ledger = 2
        case names = 3
        case historySums = 4
    }

    /// Everything that the ledger knows, as bytes for a file on this machine.
    public func checkpoint() -> [UInt8] { self.bytes(withTables: true) }

    /// The sums of the ledger in the same form. They take no time for sockets.
    public func sums() -> [UInt8] { self.bytes(withTables: false) }

    private func bytes(withTables: Bool) -> [UInt8] {
        let encoder = CheckpointEncoder(after: CheckpointHeader.length)
        do {
            try encoder.write(LedgerSums(self), as: Part.sums.rawValue)
            try encoder.write(self.historySums, as: Part.historySums.rawValue)
            if withTables { try encoder.write(self, as: Part.ledger.rawValue) }
            try encoder.write(encoder.names, as: Part.names.rawValue)
        } catch {
            preconditionFailure("no value of the ledger refuses to be coded: \(error)")
        }
        var bytes = encoder.takeBytes()
        CheckpointHeader.seal(&bytes)
        return bytes
    }

    var historySums: HistorySums {
        HistorySums(
            since: self.seriesSince,
            endpoints: self.reports.endpointSums,
            interfaces: self.interfaces.totals
        )
    }

    /// Goes on where the checkpoint ends.
    ///
    /// ``takeUnresolved()`` has all processes that run: nobody has watched them since the checkpoint, and they may have
    /// other names by now.
    ///
    /// - Parameters:
    ///   - checkpoint: As ``checkpoint()`` returned it, in this program or another version of it.
    ///   - retention: From now on. The limits are in force at the next tick.
    ///   - classes: From now on. A class that is new begins at 0. The sum of a class that is gone is forgotten.
    /// - Throws: ``CheckpointError``. Where it says that the sums can be read, they can.
    public init(
        checkpoint: [UInt8],
        retention: Retention = Retention(),
        classes: AddressClasses = AddressClasses()
    ) throws(CheckpointError) {
        let contents = try Contents(checkpoint)
        guard contents.version == CheckpointHeader.version else {
            throw .otherVersion(contents.version, known: CheckpointHeader.version)
        }
        guard let ledger = contents.value(Ledger.self, .ledger) else { throw .otherForm }
        guard contents.sums.areOf(ledger) else { throw .otherSums }
        self = ledger
        self.configure(retention: retention, classes: classes)
        self.resume()
    }

    /// Goes on with the sums of a ledger whose other state this program can't read: with its totals and groups, and
    /// without its sockets, processes and reports. What the processes moved is in the rows of ended processes.
    ///
    /// - Parameters:
    ///   - sums: As ``checkpoint()`` or ``sums()`` returned them, in whatever version of the program.
    ///   - retention: From now on.
    ///   - classes: From now on, as for a checkpoint.
    /// - Throws: ``CheckpointError``.
    public init(
        sums: [UInt8],
        retention: Retention = Retention(),
        classes: AddressClasses = AddressClasses()
    ) throws(CheckpointError) {
        self.init(try Contents(sums).sums, LedgerConfiguration(retention: retention, classes: classes))
    }

    /// The balance that this ledger, or the one that it goes on from, had earlier.
    ///
    /// - Parameters:
    ///   - sums: As ``checkpoint()`` or ``sums()`` returned them then. Endpoints and interfaces that this ledger does not go
    ///     on with are not in the balance.
    ///   - countingSince: When the count began.
    /// - Throws: ``CheckpointError``.
    public func earlierBalance(_ sums: [UInt8], countingSince: Timestamp) throws(CheckpointError) -> Balance {
        let contents = try Contents(sums)
        var balance = contents.sums.balance
        balance.countingSince = countingSince
        if let own = contents.value(HistorySums.self, .historySums), own.since == self.seriesSince {
            (balance.endpoints, balance.interfaces) = (own.endpoints, own.interfaces)
        }
        return balance
    }

    /// A checkpoint whose bytes are as they were written.
    struct Contents {
        let version: UInt32
        let sums: LedgerSums
        private let decoder: CheckpointDecoder
        private let parts: [Int: CheckpointDecoder.Field]

        init(_ bytes: [UInt8]) throws(CheckpointError) {
            self.version = try CheckpointHeader.check(bytes)
            self.decoder = CheckpointDecoder(bytes)
            do {
                self.parts = try self.decoder.topFields(from: CheckpointHeader.length)
                guard let names = self.parts[Part.names.rawValue], let sums = self.parts[Part.sums.rawValue] else {
                    throw CheckpointError.damaged
                }
                try self.decoder.setNames(try self.decoder.read([String].self, names))
                self.sums = try self.decoder.read(LedgerSums.self, sums)
            } catch {
                throw .damaged
            }
            guard self.sums.areSound else { throw .damaged }
        }

        func value<Value: Decodable>(_ type: Value.Type, _ part: Part) -> Value? {
            self.parts[part.rawValue].flatMap { try? self.decoder.read(type, $0) }
        }
    }
}
