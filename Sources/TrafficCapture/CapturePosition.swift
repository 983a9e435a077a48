public import TrafficModel

/// How far a capture has been read: what the next daemon needs to go on with the same capture. It belongs into one file
/// with the state of the ledger that has absorbed everything up to there.
public struct CapturePosition: Codable, Hashable, Sendable {
    let kernel: KernelSide.Description
    /// As ``traffic_live_settings``'s `sweeps`.
    let sweeps: UInt32
    /// As ``RingReader/position``.
    let ring: UInt64
    /// As ``DeferredReader/taken``.
    let deferred: [UInt64]
    let rows: RowReader.Position
    /// What the readers themselves have counted as lost or late.
    let loss: CaptureLoss

    /// - Parameters:
    ///   - method: The method that is asked for; `nil` for any.
    ///   - wire: Which packets are asked for.
    public func counts(by method: CaptureMethod?, wire: WireCounting) -> Bool {
        (method == nil || method == self.kernel.method) && wire == self.kernel.wantedWire
    }
}
