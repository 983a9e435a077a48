public import TrafficModel

extension Ledger {
    /// Everything that the ledger knows, as bytes for a file on this machine. Only the same version of the format can
    /// read them.
    ///
    /// The configuration is not in it, and neither is what only saves time.
    public func checkpoint() -> [UInt8] { Self.bytes(self, as: .ledger) }

    /// What every later version of the program can read: see ``LedgerSums``.
    public func sums() -> [UInt8] {
        let sums = LedgerSums(
            self.balanceOfSockets(countingSince: Timestamp(nanosecondsSinceEpoch: 0)),
            endedProcesses: self.processes.endedProcesses,
            lastLife: self.processes.lastLife,
            loss: self.wholeLoss
        )
        return Self.bytes(sums, as: .sums)
    }

    private static func bytes(_ value: some Encodable, as form: CheckpointHeader.Form) -> [UInt8] {
        let encoder = CheckpointEncoder(after: CheckpointHeader.headerLength)
        do {
            try value.encode(to: encoder)
        } catch {
            preconditionFailure("no value of the ledger refuses to be coded: \(error)")
        }
        var bytes = encoder.takeBytes()
        CheckpointHeader.seal(&bytes, as: form)
        return bytes
    }

    /// Goes on where the checkpoint ends.
    ///
    /// ``takeUnresolved()`` has all processes that run: nobody has watched them since the checkpoint, and they may have
    /// other names by now.
    ///
    /// - Parameters:
    ///   - checkpoint: As ``checkpoint()`` returned it.
    ///   - retention: From now on. The limits are in force at the next tick.
    ///   - classes: From now on. A class that is new begins at 0. The sum of a class that is gone is forgotten.
    /// - Throws: ``CheckpointError`` if the bytes are no checkpoint, of another version, cut off, or damaged.
    public init(
        checkpoint: [UInt8],
        retention: Retention = Retention(),
        classes: AddressClasses = AddressClasses()
    ) throws(CheckpointError) {
        self = try Self.value(of: checkpoint, as: .ledger)
        self.configure(retention: retention, classes: classes)
        self.resume()
    }

    /// Goes on with the sums of a ledger whose other state this program can't read: with its totals and groups, and
    /// without its sockets, processes and reports. What the processes moved is in the rows of ended processes.
    ///
    /// - Parameters:
    ///   - sums: As ``sums()`` returned it.
    ///   - retention: From now on.
    ///   - classes: From now on, as for a checkpoint.
    /// - Throws: ``CheckpointError``.
    public init(
        sums: [UInt8],
        retention: Retention = Retention(),
        classes: AddressClasses = AddressClasses()
    ) throws(CheckpointError) {
        let configuration = LedgerConfiguration(retention: retention, classes: classes)
        self.init(try Self.value(of: sums, as: .sums) as LedgerSums, configuration)
    }

    private static func value<Value: Decodable>(
        of bytes: [UInt8],
        as form: CheckpointHeader.Form
    ) throws(CheckpointError) -> Value {
        try CheckpointHeader.check(bytes, as: form)
        let decoder = CheckpointDecoder(bytes, from: CheckpointHeader.headerLength)
        guard let value = try? Value(from: decoder), decoder.isAtEnd else { throw .damaged }
        return value
    }
}
