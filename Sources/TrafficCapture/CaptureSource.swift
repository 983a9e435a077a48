public import TrafficModel

/// A capture rung at work. Confined to one thread.
public protocol CaptureSource: AnyObject {
    /// The rung, its hooks and what they can't see. Losses come as events.
    var status: CaptureStatus { get }

    /// Becomes readable when records should be taken before the next sweep; `nil` where nothing ever does.
    var wakeDescriptor: Int32? { get }

    /// Takes what the kernel told of its own accord (closed sockets). Cheap.
    func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError)

    /// Takes everything that changed since the last sweep.
    func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError)
}
