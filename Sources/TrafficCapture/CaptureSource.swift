public import TrafficModel

/// A capture rung at work. Confined to one thread.
public protocol CaptureSource: AnyObject {
    /// The rung, its hooks and what they can't see. Losses come as events.
    var status: CaptureStatus { get }

    /// Becomes readable when records should be taken before the next sweep; `nil` where nothing ever does.
    var wakeDescriptor: Int32? { get }

    /// To learn what the capture's programs cost. `nil` for a rung without programs.
    func programMeter() throws(CaptureError) -> ProgramMeter?

    /// What could not be read when it was last tried.
    var readFailures: [ReadFailure] { get }

    /// Takes what the kernel told of its own accord (closed sockets). Cheap.
    func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError)

    /// Takes everything that changed since the last sweep. A part that can't be read costs no other, and is tried again at the next sweep.
    ///
    /// - Throws: Where no part at all could be read.
    func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError)
}

extension CaptureSource {
    public func programMeter() throws(CaptureError) -> ProgramMeter? { nil }
}
