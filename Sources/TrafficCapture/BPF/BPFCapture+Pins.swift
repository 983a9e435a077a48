import CTrafficABI

extension BPFCapture {
    public func pin(in pins: PinDirectory) throws(PinError) -> Bool {
        guard self.position != nil else { return false }
        try pins.pin(self.kernel)
        return true
    }

    /// Goes on with a capture that an earlier daemon left.
    ///
    /// - Parameter position: Where that daemon ended.
    /// - Throws: ``AdoptionRefusal`` if the capture is not the one of the position, or of other programs;
    ///   ``PinError`` if a part of it is missing, ``CaptureError`` if it can't be read.
    public convenience init(adopting pins: PinDirectory, from position: CapturePosition) throws {
        let description = position.kernel
        guard description.layout == KernelSide.layout(description.method) else { throw AdoptionRefusal.layout }
        LibbpfLog.install()
        let kernel = try pins.open(description)
        let liveSettings = try kernel.map(".data.live").value(at: 0, as: traffic_live_settings.self)
        guard liveSettings.capture == description.capture else { throw AdoptionRefusal.position }
        guard Int32(bitPattern: position.sweeps &- liveSettings.acknowledged_sweep) >= 0,
            try RingReader.holds(position.ring, kernel.map("closed"))
        else { throw AdoptionRefusal.forgotten }
        try self.init(kernel, liveSettings, from: position, keepsRecords: true)
    }
}

/// Why a daemon does not go on with a capture that is in the kernel.
public enum AdoptionRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// There is no position, so nobody knows what of the capture was counted.
    case noPosition
    /// The position belongs to another capture.
    case position
    /// Another version of trafficd made the capture.
    case layout
    /// The capture counts in another way than the options ask for.
    case options
    /// The last daemon could not write its later positions, and the kernel has forgotten what was read since.
    case forgotten

    public var description: String {
        switch self {
        case .noPosition: "there is no checkpoint of it"
        case .position: "the checkpoint is of another capture"
        case .layout: "the last ones are of another version of trafficd"
        case .options: "the last ones count by another method, or other packets"
        case .forgotten: "the last daemon could not write its last checkpoints"
        }
    }
}
