public import TrafficModel

extension Ledger {
    /// Everything that the ledger knows, as bytes for a file on this machine. Only the same version of the format can
    /// read them.
    ///
    /// The configuration is not in it, and neither is what only saves time.
    public func checkpoint() -> [UInt8] {
        let encoder = CheckpointEncoder(after: CheckpointHeader.headerLength)
        do {
            try self.encode(to: encoder)
        } catch {
            preconditionFailure("no value of the ledger refuses to be coded: \(error)")
        }
        var bytes = encoder.takeBytes()
        CheckpointHeader.seal(&bytes)
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
        try CheckpointHeader.check(checkpoint)
        let decoder = CheckpointDecoder(
            checkpoint,
            from: CheckpointHeader.headerLength,
            LedgerConfiguration(retention: retention, classes: classes)
        )
        do {
            try self.init(from: decoder)
        } catch {
            throw .damaged
        }
        guard decoder.isAtEnd else { throw .damaged }
        self.resume()
    }
}
