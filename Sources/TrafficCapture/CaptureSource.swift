public import TrafficEvents
public import TrafficModel

/// A running capture method. Only one thread may use it.
public protocol CaptureSource: AnyObject {
    /// The method, its hooks and its blind spots. Losses come as events.
    var status: CaptureStatus { get }

    /// Becomes readable when the caller should take records before the next sweep; `nil` for a method without such a
    /// descriptor.
    var wakeDescriptor: Int32? { get }

    /// A meter for the cost of the capture's programs; `nil` for a method without programs.
    func programMeter() throws(CaptureError) -> ProgramMeter?

    /// The parts that could not be read at the last attempt.
    var readFailures: [ReadFailure] { get }

    /// Takes what the kernel reported without being asked (closed sockets). Cheap.
    func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError)

    /// Leaves the capture in the kernel when the daemon ends, in whatever way. Call this once, before the first sweep.
    ///
    /// - Returns: `false` if the capture can't stay.
    /// - Throws: Then the capture ends with the daemon.
    func pin(in pins: PinDirectory) throws(PinError) -> Bool

    /// How far the capture has been read; `nil` for a capture that ends with the daemon.
    var position: CapturePosition? { get }

    /// Says that everything emitted so far is safe: a file has ``position`` and what came of the events. From now on
    /// the kernel need not keep it. A capture that ends with the daemon waits for no such word.
    func acknowledge() throws(CaptureError)

    /// Takes everything that changed since the last sweep. If a part can't be read, the other parts are read all the
    /// same, and the next sweep tries that part again.
    ///
    /// - Throws: If no part at all could be read.
    func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError)
}

extension CaptureSource {
    public func programMeter() throws(CaptureError) -> ProgramMeter? { nil }
    public func pin(in pins: PinDirectory) throws(PinError) -> Bool { false }
    public var position: CapturePosition? { nil }
    public func acknowledge() throws(CaptureError) {}
}
